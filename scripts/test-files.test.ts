import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { isAlive } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { flakyFiles, type TestResult } from './test-files.ts';

let dir: string;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'files-'));
});
after(() => rmSync(dir, { recursive: true, force: true }));

const HEADER = `import { test } from 'node:test'; import { spawn } from 'node:child_process';
  import { existsSync, writeFileSync } from 'node:fs';
  const isFirst = !existsSync(import.meta.filename + '.ran');
  writeFileSync(import.meta.filename + '.ran', '');`;
/** The content of a test file that fails in its first run only. */
const FAILS_ONCE = `test('fine', () => {}); test('fails once', () => { if (isFirst) throw new Error('the first reason'); });`;

/** Runs test files with these contents as `npm test` does, in a separate process, because a test cannot run tests. */
async function runs(
  contents: string[],
  given: {
    concurrency?: number;
    endMs?: number;
    fileMs?: number;
    wholeMs?: number;
    listed?: string[];
    outputs?: string;
    alone?: string[];
    shared?: string[];
  } = {},
): Promise<[string, TestResult]> {
  const outputs = join(dir, 'outputs');
  const files = contents.map((content, n) => {
    const file = join(dir, `${n}.test.mjs`);
    rmSync(`${file}.ran`, { force: true });
    writeFileSync(file, `${HEADER} ${content}`);
    return file;
  });
  const program = `
    const { runTestFiles } = await import(${JSON.stringify(join(import.meta.dirname, 'test-files.ts'))});
    const print = (text) => process.stderr.write(text);
    console.log(JSON.stringify(await runTestFiles({ ...${JSON.stringify({ files, outputs, ...given })}, print })));
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
  assert.deepEqual(counts, { passed: 1, failed: 1, skipped: ['two: no such machine'], flaky: [] });
  assert.match(report, /^✔ .*0\.test\.mjs: 1 passed \([\d.]+ s\)$/m);
  assert.match(report, /the very reason[\s\S]*✖ .*1\.test\.mjs: 1 failed/);
  assert.ok(!report.includes('✔ one'));
});

test('ends a file that does not end by itself, counts it as failed and runs the others', async () => {
  const [report, counts] = await runs(
    [`test('leaves a timer', () => { setInterval(() => {}, 1000); });`, `test('fine', () => {});`],
    // without time for a second run
    { fileMs: 10_000, wholeMs: 10_000 },
  );
  assert.deepEqual(counts, { passed: 2, failed: 1, skipped: [], flaky: [] });
  assert.match(report, /✖ .*0\.test\.mjs: did not end within [\d.]+ s, all its tests did/m);
});

test('runs some files after the others, and one by one', async () => {
  const other = `test('takes a while', () => new Promise((resolve) => setTimeout(resolve, 1_000)));
    process.on('exit', () => writeFileSync(import.meta.filename + '.ended', ''));`;
  const alone = `test('is alone', () => {
    const running = [0, 1, 2, 3].map((n) => ${JSON.stringify(dir)} + '/' + n + '.test.mjs')
      .filter((file) => file !== import.meta.filename && existsSync(file + '.ran') && !existsSync(file + '.ended'));
    if (running.length > 0 || !existsSync(${JSON.stringify(join(dir, '3.test.mjs.ran'))})) throw new Error(String(running));
  }); process.on('exit', () => writeFileSync(import.meta.filename + '.ended', ''));`;
  const [, counts] = await runs([alone, alone, other, other], {
    alone: [0, 1].map((n) => join(dir, `${n}.test.mjs`)),
  });
  assert.deepEqual(counts, { passed: 4, failed: 0, skipped: [], flaky: [] });
});

test('runs files that share a process one after another, and gives each what the first one got', async () => {
  const look = `test('looks', () => {
    console.log(process.pid, globalThis.count = (globalThis.count ?? 0) + 1, process.env.LEFT, process.env.PATH, process.cwd());
    Object.assign(process.env, { LEFT: 'yes', PATH: '/nowhere' });
    process.chdir('/');
    if (globalThis.count === 2) throw new Error('the reason');
  });`;
  const files = [0, 1, 2, 3].map((n) => join(dir, `${n}.test.mjs`));
  const [report, counts] = await runs([look, look, look, look], {
    concurrency: 1,
    shared: files.slice(0, 3),
    outputs: join(dir, 'shared'),
  });
  // the second failed in a process that had run the first, and passed in one of its kind
  assert.deepEqual([counts.passed, counts.failed, counts.flaky.length], [4, 0, 1]);
  const printed = [...report.matchAll(/^(\d+) (\d) (\S+) (\S+) (\S+)$/gm)].map((match) => match.slice(1));
  assert.deepEqual(printed[0]!.slice(1), ['2', 'undefined', process.env['PATH'], process.cwd()]);
  assert.notEqual(printed[0]![0], printed[1]![0]);
});

test('names what keeps a process running, and runs the next file in another one', async () => {
  const leaves = `test('leaves a server', async () => {
    const { createServer } = await import('node:net');
    await new Promise((resolve) => createServer().listen(0, '127.0.0.1', resolve));
  });`;
  const next = `test('is alone', () => { if (process.getActiveResourcesInfo().includes('TCPServerWrap')) throw new Error('not alone'); });`;
  const files = [0, 1].map((n) => join(dir, `${n}.test.mjs`));
  const given = { concurrency: 1, endMs: 1_000 };
  const [report, counts] = await runs([leaves, next], { ...given, shared: files });
  assert.deepEqual(counts, { passed: 2, failed: 0, skipped: [], flaky: [] });
  assert.match(report, /✔ .*0\.test\.mjs: 1 passed .*; its process was kept by tcp 127\.0\.0\.1:\d+$/m);
  // a file with its own process leaves nothing
  const [, strict] = await runs([leaves, next], given);
  assert.deepEqual([strict.passed, strict.failed], [2, 1]);
});

test('prints the errors of a file that leaves something open', async () => {
  const leaves = `test('leaves a server', async () => {
    const { createServer } = await import('node:net');
    await new Promise((done) => createServer().listen(0, '127.0.0.1', done));
    Promise.reject(new Error('nobody waits for this'));
    await new Promise((done) => setTimeout(done, 50));
  });`;
  const given = { concurrency: 1, endMs: 1_000, shared: [join(dir, '0.test.mjs')] };
  const [report, counts] = await runs([leaves], given);
  // the test, which has taken the error as its own, and the file
  assert.equal(counts.failed, 2);
  const [first] = report.split('once more, alone');
  assert.match(first!, /its process was kept by/);
  assert.match(first!, /nobody waits for this/);
});

test('survives a file that ends its process', async () => {
  const files = [0, 1, 2].map((n) => join(dir, `${n}.test.mjs`));
  const fine = `test('fine', () => {});`;
  const [report, counts] = await runs([fine, `test('exits', () => process.exit(3));`, fine], {
    concurrency: 1,
    shared: files,
  });
  assert.deepEqual(counts, { passed: 2, failed: 1, skipped: [], flaky: [] });
  assert.match(report, /✖ .*1\.test\.mjs: its process ended after [\d.]+ s, at: exits/m);
});

test('ends the processes that a file left', async () => {
  const [report] = await runs([
    `test('leaves a process', () => {
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
  assert.deepEqual(counts, { passed: 0, failed: 3, skipped: [], flaky: [] });
  assert.match(report, /✖ .*0\.test\.mjs: did not end within [\d.]+ s, at: waits/m);
  assert.match(report, /2\.test\.mjs: not started: the time of the whole run is over/);
});

test('runs a failed file once more after the others, and reports it as flaky when it passes', async () => {
  const outputs = join(dir, 'once');
  const [report, counts] = await runs([FAILS_ONCE, `test('fine too', () => {});`], { outputs });
  const [line, ...more] = counts.flaky;
  assert.deepEqual([counts.passed, counts.failed, more], [3, 0, []]);
  const name = line!.match(/^flaky: (\S+) failed, then passed alone\./)![1]!;
  assert.match(name, /0\.test\.mjs$/);
  const folder = line!.match(/Outputs: (\S+)\. Failed tests: fails once$/)![1]!;
  assert.equal(join(folder, '..'), outputs);
  const [failed, passed] = ['failed', 'passed'].map((which) => readFileSync(join(folder, `${which}.txt`), 'utf8'));
  assert.match(failed!, /the first reason[\s\S]*✖ .*0\.test\.mjs: 1 failed/);
  assert.match(passed!, /✔ fails once[\s\S]*✔ .*0\.test\.mjs: 2 passed/);
  // the log has both, and the second run is the last
  assert.ok(report.includes(failed!));
  assert.ok(report.endsWith(passed!));
  assert.ok(report.indexOf('1.test.mjs: 1 passed') < report.indexOf(`once more, alone: ${name}`));
});

test('counts a file that fails twice as failed, with the counts of its second run', async () => {
  const [report, counts] = await runs([
    `test('fine', () => {}); test('fails', () => { throw new Error(isFirst ? 'reason one' : 'reason two'); });
    test('fails first', () => { if (isFirst) throw new Error('other'); });`,
  ]);
  assert.deepEqual(counts, { passed: 2, failed: 1, skipped: [], flaky: [] });
  assert.match(report, /reason one[\s\S]*once more, alone[\s\S]*reason two/);
});

test('runs a file once more that did not end in time', async () => {
  const [report, counts] = await runs(
    [`test('waits once', () => new Promise((resolve) => setTimeout(resolve, isFirst ? 60_000 : 0)));`],
    { fileMs: 10_000, outputs: join(dir, 'late') },
  );
  assert.deepEqual([counts.passed, counts.failed], [1, 0]);
  assert.match(report, /did not end within [\d.]+ s, at: waits once/);
  assert.match(counts.flaky[0]!, /Failed tests: .*, waits once$/);
});

test('fails the run for a flaky file that is listed already', async () => {
  const listed = [relative(process.cwd(), join(dir, '0.test.mjs'))];
  const [, counts] = await runs([FAILS_ONCE], { listed, outputs: join(dir, 'listed') });
  assert.deepEqual([counts.passed, counts.failed], [2, 1]);
  assert.equal(counts.flaky.at(-1), `flaky: the run fails: docs/flaky-tests.md lists ${listed[0]} already`);
});

test('fails the run for more than two flaky files, also over two commands', async () => {
  const verdict = 'flaky: the run fails: 3 files are flaky, and at most 2 may be';
  const [, three] = await runs([FAILS_ONCE, FAILS_ONCE, FAILS_ONCE], { outputs: join(dir, 'three') });
  assert.deepEqual([three.passed, three.failed, three.flaky.at(-1)], [6, 1, verdict]);

  const outputs = join(dir, 'both');
  const [, first] = await runs([FAILS_ONCE, FAILS_ONCE], { outputs });
  assert.deepEqual([first.failed, first.flaky.length], [0, 2]);
  const [, fine] = await runs([`test('fine', () => {});`], { outputs });
  assert.deepEqual([fine.failed, fine.flaky], [0, []]);
  const [, second] = await runs([`test('fine', () => {});`, `test('fine', () => {});`, FAILS_ONCE], { outputs });
  assert.deepEqual([second.failed, second.flaky.at(-1)], [1, verdict]);
});

test('does not repeat more than ten files', async () => {
  const [report, counts] = await runs(
    Array.from({ length: 11 }, () => `test('no', () => { throw new Error('no'); });`),
  );
  assert.equal(counts.failed, 11);
  assert.equal(report.match(/^once more, alone/gm)!.length, 10);
});

test('reads the files that docs/flaky-tests.md lists', () => {
  const table = '# Flaky\n\n| file | test | date | suspected cause |\n|---|---|---|---|\n';
  assert.deepEqual(flakyFiles(table), []);
  assert.deepEqual(flakyFiles(`${table}| \`a/b.test.ts\` | x | 2026-01-02 | a pause |\n`), ['a/b.test.ts']);
  // the real document has the table that this reads
  assert.match(readFileSync('docs/flaky-tests.md', 'utf8'), /^\| file \| test \| date \| suspected cause \|\n\|---\|/m);
});
