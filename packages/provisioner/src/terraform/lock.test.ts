import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '@ropewalk/kit';
import { lockFile } from './lock.ts';

const dir = mkdtempSync(join(tmpdir(), 'lock-'));
after(() => rmSync(dir, { recursive: true, force: true }));

/** Looks at the lock all the time. */
const eager = { ...systemClock, sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(1, signal) };
/** The references that a killed process and a loss of power leave. */
const dead = JSON.stringify({ pid: spawnSync(process.execPath, ['-e', '']).pid, startTime: '1' });

for (const [what, left] of [
  ['a killed owner left', dead],
  ['a loss of power left empty', ''],
] as const) {
  test(`many waiters take a lock over that ${what}, one at a time`, async () => {
    for (let round = 0; round < 25; round++) {
      const path = join(dir, `lock-${round}`);
      writeFileSync(path, left);
      let holders = 0;
      const work = async () => {
        const release = await lockFile(path, eager, AbortSignal.timeout(20_000));
        holders += 1;
        assert.equal(holders, 1, 'another waiter has the lock too');
        await delay(1);
        holders -= 1;
        await release();
      };
      await Promise.all(Array.from({ length: 10 }, work));
    }
    assert.deepEqual(readdirSync(dir), [], 'nothing is left');
  });
}

test('a waiter takes over from a process that died while it took over', async () => {
  const path = join(dir, 'twice');
  writeFileSync(path, dead);
  writeFileSync(`${path}.dead-${JSON.parse(dead).pid}`, dead);
  const release = await lockFile(path, systemClock, AbortSignal.timeout(20_000));
  await release();
  assert.deepEqual(readdirSync(dir), []);
});

test('a waiter whose signal fires leaves nothing, and the lock stays', async () => {
  const path = join(dir, 'held');
  const release = await lockFile(path, systemClock);
  await assert.rejects(lockFile(path, systemClock, AbortSignal.timeout(50)), /abort/);
  assert.deepEqual(readdirSync(dir), ['held']);
  await release();
});
