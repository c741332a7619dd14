import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allPages } from './pages.ts';

/** A list of numbers, as a server with a separate limit pages it. */
function list(count: number, most = Number.POSITIVE_INFINITY) {
  const asked: number[] = [];
  let running = 0;
  let together = 0;
  const fetch = async ({ limit, offset }: { limit: number; offset: number }) => {
    asked.push(offset);
    together = Math.max(together, ++running);
    await new Promise((resolve) => setImmediate(resolve));
    running--;
    const end = Math.min(count, offset + Math.min(limit, most));
    return { rows: Array.from({ length: Math.max(0, end - offset) }, (_, i) => offset + i), count };
  };
  return { fetch, asked, together: () => together };
}

test('fetches a list that fits one page with one request', async () => {
  for (const count of [0, 1, 1_000]) {
    const { fetch, asked } = list(count);
    assert.equal((await allPages(fetch)).length, count);
    assert.deepEqual(asked, [0]);
  }
});

test('fetches further pages in parallel and keeps their order', async () => {
  const { fetch, asked, together } = list(3_100);
  assert.deepEqual(
    await allPages(fetch),
    Array.from({ length: 3_100 }, (_, i) => i),
  );
  assert.deepEqual(asked, [0, 1_000, 2_000, 3_000]);
  assert.equal(together(), 3);
});

test('follows a server that returns smaller pages than it was asked for', async () => {
  const { fetch, together } = list(1_010, 100);
  assert.deepEqual(
    await allPages(fetch),
    Array.from({ length: 1_010 }, (_, i) => i),
  );
  assert.equal(together(), 4);
});
