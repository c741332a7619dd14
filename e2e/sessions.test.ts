import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  CHECKOUT,
  coder,
  ensureExecutable,
  eventually,
  PERSON,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// what goes on in a workspace while the server is killed, and what ends when a right is taken back
let server: ServerProcess;
let dir: string;
let config: string;
const run = async (...args: string[]) => {
  const done = await coder(args, { env: server.env, cwd: dir });
  assert.equal(done.code, 0, `coder ${args.join(' ')}\n${done.stdout}${done.stderr}`);
  return done.stdout;
};

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-sessions-'));
  // workspaces run as somebody else
  chmodSync(dir, 0o755);
  config = join(dir, 'ssh-config');
  server = await startCoderServer();
  await run(
    ...['login', server.url, '--first-user-username', PERSON.username],
    ...['--first-user-email', PERSON.email, '--first-user-password', PERSON.password],
  );
  server.token = readFileSync(join(server.configDir, 'session'), 'utf8').trim();
  await run('templates', 'init', '--id', 'local');
  await run('templates', 'push', 'local', '-d', './local', '-y');
  await run('create', 'dev', '--template', 'local', '-y');
  await run('config-ssh', '--ssh-config-file', config, '--yes');
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

interface Watched {
  child: ChildProcess;
  out(): string;
  err(): string;
  ended: Promise<number | null>;
}

function start(file: string, args: readonly string[], env: NodeJS.ProcessEnv): Watched {
  const child = spawn(file, args, { env, cwd: dir, stdio: ['pipe', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data: Buffer) => {
    out += data.toString('latin1');
  });
  child.stderr.on('data', (data: Buffer) => {
    err += data;
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, out: () => out, err: () => err, ended };
}
const startCoder = (...args: string[]) => start(CHECKOUT[0]!, [...CHECKOUT.slice(1), ...args], server.env);
const openssh = (program: string, ...args: string[]) =>
  start(program, ['-F', config, ...args], { PATH: process.env['PATH'], HOME: dir });

test('a counter over SSH, and a copy by OpenSSH, go on where they were when the server is killed and comes back', async () => {
  const count = 200;
  const counter = `i=0; while [ $i -lt ${count} ]; do echo "line $i"; i=$((i+1)); sleep 0.02; done; cat; exit 7`;
  const session = startCoder('ssh', 'dev', '--', counter);
  const file = join(dir, 'large');
  const content = Buffer.alloc(48 << 20, 'some bytes, over and over; ');
  writeFileSync(file, content);
  const gate = join(dir, 'gate');
  // reads slowly at first, so that the kill comes in the middle
  const copy = openssh('ssh', 'coder.dev', `head -c 1000000; while [ ! -e '${gate}' ]; do sleep 0.05; done; cat`);
  copy.child.stdin!.on('error', () => {});
  copy.child.stdin!.end(content);
  await eventually('both have begun', async () => /line 20\n/.test(session.out()) && copy.out().length === 1_000_000);
  await server.kill();
  session.child.stdin!.write('typed meanwhile\n');
  const seen = session.out().length;
  await server.restart();
  await eventually('the counter goes on', async () => session.out().length > seen + 200, 30_000);
  writeFileSync(gate, '');
  session.child.stdin!.end();
  assert.equal(await session.ended, 7, session.err());
  const lines = session.out().split('\n').slice(0, -1);
  assert.deepEqual(lines, [...Array.from({ length: count }, (_, i) => `line ${i}`), 'typed meanwhile']);
  assert.equal(await copy.ended, 0, copy.err());
  const got = Buffer.from(copy.out(), 'latin1');
  const differs = content.findIndex((byte, at) => byte !== got[at]);
  assert.equal(got.length, content.length, `it differs from ${differs}, ${got.length - content.length} bytes too many`);
  assert.ok(got.equals(content), `it differs from ${differs}`);
});

test('a session ends with its token, also one that has lost its connection, and so does what runs in it', async () => {
  const made = await coder(['tokens', 'create', '--name', 'short'], { env: server.env });
  assert.equal(made.code, 0, made.stderr);
  const env = { ...server.env, CODER_SESSION_TOKEN: made.stdout.trim() };
  const begin = async () => {
    const args = [...CHECKOUT.slice(1), 'ssh', 'dev', '--', 'echo $$; while :; do echo x; sleep 0.05; done'];
    const session = start(CHECKOUT[0]!, args, env);
    await eventually('it runs', async () => session.out().includes('x'));
    return { session, pid: Number.parseInt(session.out(), 10) };
  };
  const attached = await begin();
  const detached = await begin();
  detached.session.child.kill('SIGKILL');
  await detached.session.ended;
  assert.ok(existsSync(`/proc/${detached.pid}`), 'what lost its client goes on for a while');
  await run('tokens', 'remove', 'short');
  for (const { pid } of [attached, detached]) {
    await eventually('its program has ended', async () => !existsSync(`/proc/${pid}`), 5_000);
  }
  assert.notEqual(await attached.session.ended, 0);
  assert.match(attached.session.err(), /./, 'it is said why');
});

test('who closes the window leaves nothing behind', async () => {
  const session = startCoder('ssh', 'dev', '--', 'echo $$; exec sleep 1000');
  await eventually('it runs', async () => session.out().endsWith('\n'));
  const pid = Number(session.out());
  session.child.kill('SIGHUP');
  assert.notEqual(await session.ended, 0);
  await eventually('the program is gone', async () => !existsSync(`/proc/${pid}`), 5_000);
});
