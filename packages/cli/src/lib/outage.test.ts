import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, UnreachableError } from '@ropewalk/client';
import { throughOutage } from './outage.ts';

const away = () => new UnreachableError('Could not reach the server');
const status = (code: number) => new ApiError(code, 'no');

/** A call that fails with these errors in turn, and then answers. */
function failing(...errors: Error[]) {
  let calls = 0;
  const call = async () => {
    const error = errors[calls++];
    if (error) throw error;
    return 'answer';
  };
  return { call, calls: () => calls };
}

test('repeats a call while the server or its proxy cannot answer', async () => {
  const { call, calls } = failing(away(), status(502));
  let said = 0;
  assert.equal(await throughOutage(call, { onAway: () => (said += 1) }), 'answer');
  assert.deepEqual([calls(), said], [3, 2]);
});

test('reports every other error, and a server that stays away', async (t) => {
  for (const error of [status(404), status(500), new TypeError('x')]) {
    const { call, calls } = failing(error);
    await assert.rejects(throughOutage(call), error);
    assert.equal(calls(), 1);
  }
  let now = 0;
  t.mock.method(performance, 'now', () => (now += 60_000));
  const { call, calls } = failing(away(), away(), away());
  await assert.rejects(throughOutage(call), { name: 'UnreachableError' });
  assert.equal(calls(), 2);
});

test('ends with its signal', { timeout: 5_000 }, async () => {
  const ended = new AbortController();
  const { call } = failing(...Array.from({ length: 100 }, away));
  const result = throughOutage(call, { signal: ended.signal, onAway: () => ended.abort(new Error('canceled')) });
  await assert.rejects(result, { message: 'canceled' });
});
