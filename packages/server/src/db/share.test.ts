import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shareReads } from './share.ts';

test('concurrent readers share one read, and a later reader gets a read that began after its request', async () => {
  const share = shareReads<number>();
  let stored = 1;
  const begun: number[] = [];
  const gates: (() => void)[] = [];
  const read = async () => {
    const value = stored;
    begun.push(value);
    await new Promise<void>((resolve) => gates.push(resolve));
    return value;
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const first = [share('a', read), share('a', read)];
  await turn();
  assert.deepEqual(begun, [1]);
  stored = 2;
  const second = [share('a', read), share('a', read)];
  const other = share('b', async () => 9);
  assert.equal(await other, 9);
  assert.deepEqual(begun, [1], 'equal reads run one at a time');
  gates.shift()!();
  assert.deepEqual(await Promise.all(first), [1, 1]);
  while (gates.length === 0) await turn();
  gates.shift()!();
  assert.deepEqual(await Promise.all(second), [2, 2]);
  assert.deepEqual(begun, [1, 2]);
});

test('a failed read fails only the readers that share it', async () => {
  const share = shareReads<number>();
  const failing = share('a', async () => {
    throw new Error('away');
  });
  await assert.rejects(failing, /away/);
  assert.equal(await share('a', async () => 3), 3);
});
