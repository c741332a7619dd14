import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';

const MAIN = join(import.meta.dirname, 'main.ts');
const CRASHES = {
  exception: `throw new Error('boom\\nsecond line', { cause: new Error('the cause') })`,
  rejection: `Promise.reject(new Error('boom'))`,
  event: `process.getBuiltinModule('node:events').prototype.emit.call({}, 'error', new Error('boom'))`,
};

// never answers: a command waits for it
const mute = createServer((socket) => socket.on('error', () => {}).resume());
let dir: string;
let url: string;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'start-'));
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(mute.address() as AddressInfo).port}`;
});
after(() => {
  mute.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Runs a command in which this code runs once the command has connected. */
async function crash(code: string, args: string[], env: NodeJS.ProcessEnv) {
  const connected = new Promise<void>((resolve) => mute.once('connection', () => resolve()));
  const preload = `data:text/javascript,${encodeURIComponent(`process.once('SIGUSR2', () => { ${code}; });`)}`;
  const child = spawn(process.execPath, ['--import', preload, MAIN, ...args], {
    env: { PATH: process.env['PATH'], HOME: dir, TMPDIR: dir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  await connected;
  child.kill('SIGUSR2');
  const [stdout, stderr] = await output;
  return { code: await exited, stdout, stderr };
}

for (const [name, code] of Object.entries(CRASHES)) {
  test(`turns an unexpected ${name} into one sentence and a file`, async () => {
    const config = join(dir, name);
    const env = { CODER_CONFIG_DIR: config, CODER_SESSION_TOKEN: 'very-secret' };
    const { code: exit, stdout, stderr } = await crash(code, ['list', '--url', url], env);
    const path = /^error: An unexpected error ended coder: boom\. Details: (\/.*\.txt)\n$/.exec(stderr)?.[1];
    assert.ok(path, stderr);
    assert.deepEqual([exit, stdout, join(path, '..')], [1, '', join(config, 'crashes')]);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const details = readFileSync(path, 'utf8');
    assert.match(details, /v2\.\d+\.\d+\S*, Node\.js v[\s\S]*Error: boom\n(second line\n)? +at /);
    if (name === 'exception') assert.match(details, /caused by Error: the cause\n +at /);
    assert.doesNotMatch(details, /very-secret/);
  });
}

test('keeps the newest files, and uses the folder for temporary files where it cannot write', async () => {
  const config = join(dir, 'many');
  mkdirSync(join(config, 'crashes'), { recursive: true });
  for (let n = 10; n < 40; n++) writeFileSync(join(config, 'crashes', `crash-202001010000${n}-1.txt`), '');
  writeFileSync(join(config, 'crashes', 'notes.txt'), '');
  await crash(CRASHES.exception, ['list', '--url', url], { CODER_CONFIG_DIR: config, CODER_SESSION_TOKEN: 'x' });
  const left = readdirSync(join(config, 'crashes')).sort();
  assert.equal(left.length, 21);
  assert.equal(left[0], 'crash-20200101000021-1.txt');
  assert.ok(left.includes('notes.txt'));

  const impossible = join(config, 'crashes', 'notes.txt');
  const env = { CODER_CONFIG_DIR: impossible, CODER_SESSION_TOKEN: 'x', CODER_URL: url };
  const { stderr } = await crash(CRASHES.exception, ['list'], env);
  const path = /Details: (.*)\n$/.exec(stderr)![1]!;
  assert.equal(join(path, '..'), dir);
  assert.ok(existsSync(path));
});

test('writes a crash of a daemon to its log', async () => {
  const config = join(dir, 'daemon');
  const env = { CODER_CONFIG_DIR: config, CODER_AGENT_TOKEN: crypto.randomUUID(), CODER_AGENT_URL: url };
  const json = join(dir, 'agent.json');
  const { code, stderr } = await crash(CRASHES.rejection, ['agent', '--log-json', json], env);
  assert.equal(code, 1);
  const lines = stderr.trimEnd().split('\n');
  assert.match(lines.at(-1)!, /^\S+ \[error\] coder ended because of an unexpected error err=boom file=\S+\.txt$/);
  const last = JSON.parse(readFileSync(json, 'utf8').trimEnd().split('\n').at(-1)!) as { file: string };
  assert.match(readFileSync(last.file, 'utf8'), /Error: boom\n +at /);
});
