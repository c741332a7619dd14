import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isAlive } from '@platform/kit';
import { eventually } from '@platform/testkit/wait';

let dir: string;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'files-'));
});
after(() => rmSync(dir, { recursive: true, force: true }));

/** Runs test files with these contents as `npm test` does, in a separate process, because a test cannot run tests. */
async function runs(contents: string[], limits: { fileMs?: number; wholeMs?: number } = {}): Promise<[string, object]> {
  const files = contents.map((content, n) => {
    const file = join(dir, `${n}.test.mjs`);
    writeFileSync(file, `import { test } from 'node:test'; import { spawn } from 'node:child_process'; ${content}`);
    return file;
  });
  const program = `
    const { runTestFiles } = await import(${JSON.stringify(join(import.meta.dirname, 'test-files.ts'))});
    const print = (text) => process.stderr.write(text);
    console.log(JSON.stringify(await runTestFiles({ ...${JSON.stringify({ files, ...limits })}, print })));
    process.exit();`;
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  writeFileSync(join(dir, 'run.mjs'), program);
  const child = spawn(process.execPath, [join(dir, 'run.mjs')], { env, stdio: 'pipe' });
  let [counts, report] = ['', ''];
  child.stdout.on('data', (text) => {
    counts += text;
  });
  child.stderr.on('data', (text) => {
    report += text;
  });
  await new Promise((resolve) => child.once('close', resolve));
  return [report, JSON.parse(counts)];
}

test('prints one line for a passed file, the reason for a failed file and the name of a skipped test', async () => {
  const [report, counts] = await runs([
    `test('one', () => {}); test('two', { skip: 'no such machine' }, () => {});`,
    `test('three', () => { throw new Error('the very reason'); });`,
  ]);
  assert.deepEqual(counts, { passed: 1, failed: 1, skipped: ['two: no such machine'] });
  assert.match(report, /^✔ .*0\.test\.mjs: 1 passed \([\d.]+ s\)$/m);
  assert.match(report, /the very reason[\s\S]*✖ .*1\.test\.mjs: 1 failed/);
  assert.ok(!report.includes('✔ one'));
});

test('ends a file that does not end by itself, counts it as failed and runs the others', async () => {
  const [report, counts] = await runs(
    [`test('leaves a timer', () => { setInterval(() => {}, 1000); });`, `test('fine', () => {});`],
    { fileMs: 10_000 },
  );
  assert.deepEqual(counts, { passed: 2, failed: 1, skipped: [] });
  assert.match(report, /✖ .*0\.test\.mjs: did not end within [\d.]+ s, all its tests did/m);
});

test('ends the processes that a file left', async () => {
  const [report] = await runs([
    `import { writeFileSync } from 'node:fs';
    test('leaves a process', () => {
      const child = spawn('sleep', ['600'], { stdio: 'ignore', detached: true });
      child.unref();
      writeFileSync(${JSON.stringify(join(dir, 'pid'))}, String(child.pid));
    });`,
  ]);
  assert.match(report, /✔ .*; left running, now ended: sleep 600$/m);
  const pid = Number(readFileSync(join(dir, 'pid'), 'utf8'));
  await eventually('the process has ended', async () => !isAlive(pid));
});

test('counts every unfinished file as failed when the time of the whole run is over', async () => {
  const [report, counts] = await runs(
    [0, 1, 2].map(() => `test('waits', () => new Promise((resolve) => setTimeout(resolve, 60_000)));`),
    { wholeMs: 10_000 },
  );
  assert.deepEqual(counts, { passed: 0, failed: 3, skipped: [] });
  assert.match(report, /✖ .*0\.test\.mjs: did not end within [\d.]+ s, at: waits/m);
  assert.match(report, /2\.test\.mjs: not started: the time of the whole run is over/);
});
