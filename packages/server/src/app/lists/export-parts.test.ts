import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Ctx } from '../context/context.ts';
import { exportParts } from './export-parts.ts';

test('reads one part at a time for each person, and every row once', async () => {
  const TOTAL = 2_500;
  const running = new Map<string, number>();
  const most = new Map<string, number>();
  let together = 0;
  const collect = async (id: string) => {
    const ctx = { actor: { kind: 'user', id } } as Pick<Ctx, 'actor'>;
    const after = async (last = 0, count: number) => {
      running.set(id, (running.get(id) ?? 0) + 1);
      most.set(id, Math.max(most.get(id) ?? 0, running.get(id)!));
      together = Math.max(
        together,
        running.values().reduce((sum, each) => sum + each, 0),
      );
      await setImmediate();
      running.set(id, running.get(id)! - 1);
      return Array.from({ length: Math.min(count, TOTAL - last) }, (_, i) => last + i + 1);
    };
    const found: string[] = [];
    for await (const part of exportParts(ctx, after, async (rows) => rows.map(String))) found.push(...part);
    assert.deepEqual(
      found,
      Array.from({ length: TOTAL }, (_, i) => String(i + 1)),
    );
  };
  await Promise.all(['a', 'a', 'a', 'b', 'b'].map(collect));
  assert.deepEqual([...most.values()], [1, 1]);
  assert.equal(together, 2, 'different people do not wait for each other');
});
