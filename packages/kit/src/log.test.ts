import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { smallDisk } from '@ropewalk/testkit/disk';
import { eventually } from '@ropewalk/testkit/wait';
import { createLogger, pathSink } from './log.ts';

let dir: string;
before(() => {
  dir = mkdtempSync(join(tmpdir(), 'log-'));
});
after(() => rmSync(dir, { recursive: true, force: true }));

const noPipes = process.platform === 'win32' ? 'needs named pipes' : false;
test('a pipe as the log file never blocks the process', { skip: noPipes, timeout: 10_000 }, (t) => {
  t.mock.method(process.stderr, 'write', () => true);
  const path = join(dir, 'pipe');
  spawnSync('mkfifo', [path]);
  const sink = () => pathSink(path, 'human')!;
  assert.throws(sink, { message: /^Cannot open the log file ".*pipe": ENXIO/ });
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  t.after(() => closeSync(reader));
  const log = createLogger({ sinks: [sink()] });
  // More than a pipe holds.
  for (let i = 0; i < 3_000; i++) log.info('x'.repeat(100));
  const read = Buffer.alloc(1 << 20);
  assert.ok(readSync(reader, read) > 0);
  log.info('again');
  const text = read.toString('utf8', 0, readSync(reader, read));
  assert.match(text, /lost/);
  assert.match(text, /again/);
});

test('a log file that cannot be opened gives an explanatory error', () => {
  assert.throws(() => pathSink(join(dir, 'nowhere', 'x.log'), 'human'), {
    code: 'invalid',
    message: /^Cannot open the log file ".*x\.log": ENOENT/,
  });
});

test('writes lines to stderr while a log file cannot be written', (t) => {
  const lines: string[] = [];
  t.mock.method(process.stderr, 'write', (line: string) => lines.push(line) > 0);
  // Always full.
  const log = createLogger({ sinks: [pathSink('/dev/full', 'human')!] });
  log.info('one');
  log.info('two');
  assert.equal(lines.length, 3);
  assert.match(lines[0]!, /^Cannot write the log file "\/dev\/full": no space left on device\./);
  assert.match(lines[1]!, /one/);
  assert.match(lines[2]!, /two/);
});

for (const format of ['human', 'json'] as const) {
  test(`a full disk under a log file (${format}): counts and reports lost lines and tears none`, async (t) => {
    const disk = smallDisk(64);
    if (typeof disk === 'string') return t.skip(disk);
    t.after(() => disk.remove());
    t.mock.method(process.stderr, 'write', () => true);
    const path = join(disk.dir, 'x.log');
    const log = createLogger({ sinks: [pathSink(path, format)!] });
    log.info('first');
    disk.fill();
    // The file's own page has space for some.
    for (let i = 0; i < 200; i++) log.info(`line ${i} ${'x'.repeat(100)}`);
    const full = readFileSync(path, 'utf8');
    disk.empty();
    // Reported even without a further line.
    await eventually('the report of the loss', () => /lost/.test(readFileSync(path, 'utf8')), 5_000);
    log.info('last');
    const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
    assert.ok(readFileSync(path, 'utf8').startsWith(full), 'continues where it ended');
    const lost = Number(/(\d+) log lines were lost: no space left on device/.exec(lines.at(-2)!)?.[1]);
    assert.equal(lines.filter((line) => / x{100}/.test(line)).length, 200 - lost);
    assert.ok(lost > 0 && lost < 200, `${lost}`);
    for (const line of lines) {
      if (format === 'json') assert.ok(JSON.parse(line));
      else assert.match(line, /^\d{4}-[^ ]+ \[\w+\] (line \d+ x{100}|first|last|.* lost: .*)$/);
    }
  });
}

/** Runs a program that logs to stderr and reports on stdout what it has done. */
async function logging(code: string, stderr: 'pipe' | number) {
  const from = JSON.stringify(join(import.meta.dirname, 'log.ts'));
  const child = spawn(process.execPath, ['-e', `import { createLogger } from ${from};\n${code}`], {
    stdio: ['pipe', 'pipe', stderr],
  });
  let out = '';
  child.stdout!.on('data', (data: Buffer) => {
    out += String(data);
  });
  const code_ = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, out: () => out, ended: code_ };
}

const FIVE = `
  const log = createLogger();
  process.stdin.once('data', async () => {
    for (let i = 0; i < 5; i++) { log.info('x'); await new Promise(setImmediate); }
    console.log('alive');
    process.stdin.destroy();
  });
  console.log('ready');`;

test('a process outlives its stderr: a full disk, a closed pipe', async (t) => {
  const full = openSync('/dev/full', 'w');
  t.after(() => closeSync(full));
  for (const stderr of [full, 'pipe'] as const) {
    const { child, out, ended } = await logging(FIVE, stderr);
    await eventually('the program to run', () => out().includes('ready'), 10_000);
    child.stderr?.destroy();
    child.stdin!.write('go');
    assert.equal(await ended, 0);
    assert.match(out(), /alive/);
  }
});

test('a full disk under stderr: counts and reports lost lines', async (t) => {
  const disk = smallDisk(64);
  if (typeof disk === 'string') return t.skip(disk);
  t.after(() => disk.remove());
  const path = join(disk.dir, 'err');
  const err = openSync(path, 'a');
  t.after(() => closeSync(err));
  disk.fill();
  const code = `
    const log = createLogger();
    for (let i = 0; i < 3; i++) log.info('x');
    console.log('ready');
    process.stdin.once('data', () => { log.info('again'); process.stdin.destroy(); });`;
  const { child, out, ended } = await logging(code, err);
  await eventually('the program to run', () => out().includes('ready'), 10_000);
  disk.empty();
  child.stdin!.write('go');
  assert.equal(await ended, 0);
  assert.match(readFileSync(path, 'utf8'), /3 log lines were lost: no space left on device\n.*again\n$/);
});

test('leaves out a field that JSON cannot represent instead of failing', () => {
  for (const format of ['human', 'json'] as const) {
    const lines: string[] = [];
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    createLogger({ sinks: [{ format, write: (line) => lines.push(line) }] }).info('kept', { circle, n: { n: 1n } });
    assert.match(lines[0]!, /kept/);
    assert.match(lines[0]!, /not shown: .*circular/);
  }
});

test('appends lines to an existing file', async () => {
  const path = join(dir, 'x.log');
  for (const line of ['one', 'two']) createLogger({ sinks: [pathSink(path, 'human')!] }).info(line);
  while (!/one.*two/s.test(readFileSync(path, 'utf8'))) await new Promise((resolve) => setImmediate(resolve));
});

test('a log file that was moved or deleted is replaced by a new one, and no line is lost', async () => {
  const path = join(dir, 'rotated.log');
  const log = createLogger({ sinks: [pathSink(path, 'human')!] });
  const { length: open } = readdirSync('/dev/fd');
  let written = 0;
  const lines = (file: string) => readFileSync(file, 'utf8').split('\n').slice(0, -1);
  const isThere = () => {
    log.info(`line ${written++}`);
    return existsSync(path) && lines(path).length > 0;
  };
  assert.ok(isThere());
  renameSync(path, `${path}.1`);
  await eventually('the lines go to a new file', isThere, 5_000);
  const all = [...lines(`${path}.1`), ...lines(path)];
  assert.deepEqual(
    all.map((line) => Number(/ line (\d+)$/.exec(line)![1])),
    Array.from({ length: written }, (_, i) => i),
  );
  rmSync(path);
  await eventually('the lines go to a new file again', isThere, 5_000);
  // a rotation that creates the new file itself
  renameSync(path, `${path}.2`);
  closeSync(openSync(path, 'a'));
  await eventually('the lines go to the file that has the path', isThere, 5_000);
  assert.equal(readdirSync('/dev/fd').length, open, 'the moved files are closed');
});

test('shows control characters instead of sending them to a terminal', () => {
  for (const format of ['human', 'json'] as const) {
    const lines: string[] = [];
    const log = createLogger({ sinks: [{ format, write: (line) => lines.push(line) }] });
    const hostile = 'a\u001b]0;x\u0007\u009b31m\u202eb\nc';
    log.info(`took ${hostile}`, { daemon: hostile });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
    assert.doesNotMatch(lines[0]!, /[\u0000-\u001f\u007f-\u009f\u202e]/);
    assert.match(lines[0]!, /\\u001b/);
  }
});

test('says which levels it keeps', () => {
  const kept: string[] = [];
  const sinks = [{ format: 'human' as const, write: (line: string) => void kept.push(line) }];
  for (const [level, count] of [
    ['debug', 4],
    ['info', 3],
    ['error', 1],
  ] as const) {
    const log = createLogger({ level, sinks }).child({ part: 'x' });
    const levels = (['debug', 'info', 'warn', 'error'] as const).filter((one) => log.keeps(one));
    for (const one of ['debug', 'info', 'warn', 'error'] as const) log[one]('a line');
    assert.deepEqual([levels.length, kept.splice(0).length], [count, count]);
  }
  assert.equal(createLogger({ level: 'debug', sinks: [] }).keeps('error'), false);
});
