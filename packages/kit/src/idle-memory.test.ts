import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';
import { releaseMemoryWhenIdle } from './idle-memory.ts';

test('an idle process gives back the heap that a burst of work has grown', async () => {
  let burst: object[] | undefined = Array.from({ length: 1_000_000 }, (_, i) => ({ i, text: `${i}` }));
  assert.equal(burst.length, 1_000_000);
  const grown = getHeapStatistics().total_heap_size;
  burst = undefined;
  const stop = releaseMemoryWhenIdle({ lookMs: 20 });
  const end = performance.now() + 20_000;
  while (getHeapStatistics().total_heap_size > grown - (32 << 20)) {
    assert.ok(performance.now() < end, `${getHeapStatistics().total_heap_size} of ${grown}`);
    await delay(10);
  }
  stop();
});
