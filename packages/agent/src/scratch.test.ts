import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { scratchDir, sweepScratch } from './scratch.ts';

test('removes only what a killed agent left', async (t) => {
  const base = mkdtempSync(join(tmpdir(), 'scratch-'));
  t.after(() => rmSync(base, { recursive: true }));
  const mine = await scratchDir('forward');
  const living = join(base, basename(mine));
  renameSync(mine, living);
  const dead = spawnSync(process.execPath, ['-e', '']).pid;
  const of = (pid: number, name = basename(mine)) => join(base, name.replace(`-${process.pid}-`, `-${pid}-`));

  const left = of(dead);
  const socket = of(dead, basename(mine).replace('forward', 'socket'));
  for (const dir of [left, socket]) {
    mkdirSync(dir, { mode: 0o700 });
    writeFileSync(join(dir, '0'), '');
  }
  const [open, link, unknown] = [
    of(dead, `${basename(mine).slice(0, -6)}aaaaaa`),
    `${left.slice(0, -6)}bbbbbb`,
    `${left}c`,
  ];
  mkdirSync(open);
  chmodSync(open, 0o777);
  mkdirSync(unknown);
  symlinkSync(living, link);

  sweepScratch(base);
  assert.deepEqual([existsSync(left), existsSync(socket)], [false, false]);
  assert.deepEqual([living, open, link, unknown].map(existsSync), [true, true, true, true]);
  sweepScratch(join(base, 'nowhere'));
});
