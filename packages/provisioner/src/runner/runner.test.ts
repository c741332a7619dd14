import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { testLogger } from '../testing/harness.ts';
import { Runner } from './client.ts';
import { memoryOf } from './memory.ts';

let dir: string;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'runner-'));
});
after(() => rm(dir, { recursive: true, force: true }));

test('reports the end of a run whose folder is gone, and other runs continue', async () => {
  const runner = new Runner({ log: testLogger, logPath: join(dir, 'runner.log') });
  try {
    const gate = join(dir, 'gate');
    const start = async (name: string) => {
      const at = join(dir, name);
      await mkdir(at);
      const prepared = await runner.prepare({});
      const live = prepared.begin({
        id: name,
        binary: '/bin/sh',
        args: ['-c', `while [ ! -e ${gate} ]; do sleep 0.02; done; exit 7`],
        cwd: at,
        env: { PATH: process.env['PATH'] ?? '' },
        logPath: join(at, 'log'),
        startedPath: join(at, 'started'),
        exitPath: join(at, 'exit'),
      });
      await live.terraform;
      return live;
    };
    const [lost, other] = [await start('lost'), await start('other')];
    await rename(join(dir, 'lost'), join(dir, 'elsewhere'));
    await writeFile(gate, '');
    assert.equal((await lost.exited).code, 7);
    assert.equal((await other.exited).code, 7);
    assert.ok(existsSync(join(dir, 'other', 'exit')));
    assert.match(await readFile(join(dir, 'runner.log'), 'utf8'), /cannot store the outcome of run lost: ENOENT/);
  } finally {
    runner.release();
  }
});

test('kills a run whose processes use more memory than they may, and says so', async () => {
  const runner = new Runner({ log: testLogger, logPath: join(dir, 'runner.log') });
  try {
    const at = join(dir, 'hungry');
    await mkdir(at);
    const grow = 'const kept = []; setInterval(() => kept.push(Buffer.alloc(20 << 20, 1)), 20)';
    const prepared = await runner.prepare({});
    const live = prepared.begin({
      id: 'hungry',
      binary: '/bin/sh',
      args: ['-c', `"${process.execPath}" -e '${grow}'; exit 0`],
      cwd: at,
      env: { PATH: process.env['PATH'] ?? '' },
      memoryLimit: 300 << 20,
      logPath: join(at, 'log'),
      startedPath: join(at, 'started'),
      exitPath: join(at, 'exit'),
    });
    const { pid } = await live.terraform;
    const { error, signal } = await live.exited;
    assert.equal(signal, 'SIGKILL');
    assert.match(error ?? '', /^it used more than 0\.3 GiB of memory and was killed/);
    assert.equal(memoryOf(pid), 0, 'no process is left');
  } finally {
    runner.release();
  }
});

test('reads all that a run prints, reports output that could not be stored, and waits for no process in the background', async () => {
  const runner = new Runner({ log: testLogger, logPath: join(dir, 'runner.log') });
  try {
    const run = async (name: string, script: string, outputPath: string) => {
      const at = join(dir, name);
      await mkdir(at);
      const prepared = await runner.prepare({});
      const live = prepared.begin({
        id: name,
        binary: '/bin/sh',
        args: ['-c', script],
        cwd: at,
        env: { PATH: process.env['PATH'] ?? '' },
        outputPath,
        logPath: join(at, 'log'),
        startedPath: join(at, 'started'),
        exitPath: join(at, 'exit'),
      });
      return live.exited;
    };
    const full = await run('full', 'echo output', '/dev/full');
    assert.match(full.error ?? '', /^its output could not be stored: ENOSPC/);
    const failed = await run('failed', 'echo output; exit 3', '/dev/full');
    assert.deepEqual([failed.code, failed.error], [3, undefined]);
    const file = join(dir, 'output');
    const left = await run('left', 'echo output; sleep 600 & echo $! > pid', file);
    assert.deepEqual([left.code, left.error, await readFile(file, 'utf8')], [0, undefined, 'output\n']);
    // it ends when the other has begun to print: a run waits a second for output
    const print = 'while echo more; do : > printed; sleep 0.1; done';
    const wait = 'until [ -e printed ]; do sleep 0.01; done';
    const chatty = await run('chatty', `echo output; (${print}) & echo $! > pid; ${wait}`, file);
    assert.deepEqual([chatty.code, chatty.error], [0, undefined]);
    assert.match(await readFile(file, 'utf8'), /^output\nmore\n/);
    for (const name of ['left', 'chatty']) process.kill(Number(await readFile(join(dir, name, 'pid'), 'utf8')));
  } finally {
    runner.release();
  }
});

test('a run that does not begin leaves no files, no provider and no process', async () => {
  const runner = new Runner({ log: testLogger, logPath: join(dir, 'runner.log') });
  const prepare = async (name: string) => {
    const at = join(dir, name);
    await mkdir(at);
    const socketPath = join(at, 'provider.sock');
    const prepared = await runner.prepare({ provider: { socketPath, env: {} } });
    await eventually('the provider listens', () => existsSync(socketPath));
    return { prepared, files: () => readdirSync(at) };
  };
  const dropped = await prepare('dropped');
  dropped.prepared.drop();
  await eventually('the dropped run has left nothing', () => dropped.files().length === 0);
  const forgotten = await prepare('forgotten');
  const { pid } = forgotten.prepared.runner;
  runner.release();
  await eventually('the runner has ended', () => !existsSync(`/proc/${pid}`));
  assert.deepEqual(forgotten.files(), []);
});
