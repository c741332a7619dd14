import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@ropewalk/kit';
import { createDrain } from './drain.ts';

const never = { end: () => new Promise<void>(() => {}) };
const idle = { end: async () => {} };

function start(given: { daemons?: typeof never; limitMs?: number; delayMs: number }) {
  let begun = 0;
  const drain = createDrain({
    daemons: idle,
    limitMs: 60_000,
    onBegin: () => {
      begun++;
    },
    log: silentLogger,
    ...given,
  });
  return { drain, begun: () => begun };
}
const isPending = (promise: Promise<void>) => Promise.race([promise.then(() => false), delay(50).then(() => true)]);

test('waits for the delay, also without daemons that run anything', async () => {
  for (const limitMs of [0, 60_000]) {
    const { drain, begun } = start({ limitMs, delayMs: 300 });
    const from = performance.now();
    const over = drain();
    assert.equal(begun(), 1, 'the server is not ready from the first call on');
    await over;
    assert.ok(performance.now() - from >= 290);
  }
});

test('a hurried call and a second call leave load balancers no time', async () => {
  await start({ delayMs: 3_600_000 }).drain({ hurried: true });

  const { drain, begun } = start({ delayMs: 3_600_000 });
  const over = drain();
  assert.ok(await isPending(over));
  await Promise.all([drain(), over]);
  assert.equal(begun(), 1);
});

test('the end of the delay does not end the wait for builds', async () => {
  const { drain } = start({ daemons: never, delayMs: 1 });
  const over = drain();
  assert.ok(await isPending(over));
  // cancel, kill, give up
  for (let n = 0; n < 3; n++) void drain();
  await over;
});
