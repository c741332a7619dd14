import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { createQueue } from './queue.ts';

test('works on a key once for many additions, and once more for one during the work', async () => {
  const runs: string[] = [];
  const gate = Promise.withResolvers<void>();
  const queue = createQueue({
    concurrency: 2,
    log: silentLogger,
    async work(key) {
      runs.push(key);
      if (runs.length === 1) await gate.promise;
      return undefined;
    },
  });
  queue.add('a');
  queue.add('a');
  queue.add('a');
  await eventually('the work has begun', () => runs.length === 1);
  queue.add('a');
  queue.add('b');
  await eventually('the other key is done', () => runs.includes('b'));
  assert.deepEqual(runs, ['a', 'b'], 'no key is worked on twice at the same time');
  gate.resolve();
  await eventually('the key is done again', () => queue.size === 0);
  assert.deepEqual(runs, ['a', 'b', 'a']);
  await queue.stop();
});

test('never exceeds its concurrency', async () => {
  let active = 0;
  let most = 0;
  const queue = createQueue({
    concurrency: 3,
    log: silentLogger,
    async work() {
      most = Math.max(most, ++active);
      await new Promise((done) => setImmediate(done));
      active--;
      return undefined;
    },
  });
  for (let i = 0; i < 20; i++) queue.add(`key-${i}`);
  await eventually('all are done', () => queue.size === 0);
  assert.equal(most, 3);
  await queue.stop();
});

test('waits longer after each failure and starts over after a success', async (t) => {
  const waits: number[] = [];
  let successes = 0;
  let fail = true;
  const queue = createQueue({
    concurrency: 1,
    log: { ...silentLogger, warn: (_, fields) => waits.push(Number(fields!['retryInMs'])) },
    retryBaseMs: 20,
    retryCapMs: 100,
    async work() {
      if (fail) throw new Error('no');
      successes++;
      return undefined;
    },
  });
  t.after(() => queue.stop());
  queue.add('a');
  await eventually('five failures', () => waits.length >= 5);
  assert.ok(waits[2]! > waits[0]! * 2, `${waits}`);
  assert.ok(Math.max(...waits) <= 100);
  fail = false;
  await eventually('a success', () => successes === 1);
  fail = true;
  const before = waits.length;
  queue.add('a');
  await eventually('a failure after the success', () => waits.length > before);
  assert.ok(waits[before]! <= 20, `${waits[before]}`);
});

test('a stop waits for the current work and takes no more', async () => {
  const gate = Promise.withResolvers<void>();
  const runs: string[] = [];
  const queue = createQueue({
    concurrency: 1,
    log: silentLogger,
    async work(key) {
      runs.push(key);
      await gate.promise;
      return undefined;
    },
  });
  queue.add('a');
  queue.add('b');
  let stopped = false;
  const stop = queue.stop().then(() => {
    stopped = true;
  });
  await new Promise((done) => setImmediate(done));
  assert.equal(stopped, false);
  gate.resolve();
  await stop;
  queue.add('c');
  assert.deepEqual(runs, ['a']);
});
