import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { processIds } from '@ropewalk/testkit/processes';
import {
  coder,
  coderOutput,
  ensureExecutable,
  eventually,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
  startFirstWorkspace,
  startProgram,
} from './harness.ts';

// Tests which sessions survive a killed server, and which end when a credential is revoked.
let server: ServerProcess;
let dir: string;
let config: string;
const run = (...args: string[]) => coderOutput(args, { env: server.env, cwd: dir });

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-sessions-'));
  // workspaces run as another user
  chmodSync(dir, 0o755);
  config = join(dir, 'ssh-config');
  server = await startCoderServer();
  await startFirstWorkspace(server, dir);
  await run('config-ssh', '--ssh-config-file', config, '--yes');
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

const startCoder = (...args: string[]) => startProgram(PROGRAM, args, { env: server.env, cwd: dir });
const openssh = (program: string, ...args: string[]) =>
  startProgram([program, '-F', config], args, { env: { PATH: process.env['PATH'], HOME: dir }, cwd: dir });

test('a counter over SSH and a copy with OpenSSH continue after the server is killed and restarted', async () => {
  const count = 200;
  const go = join(dir, 'go');
  // most of the lines come after the kill, however long the copy takes to begin
  const pause = `[ $i != 20 ] || while [ ! -e '${go}' ]; do sleep 0.05; done`;
  const counter = `i=0; while [ $i -lt ${count} ]; do ${pause}; echo "line $i"; i=$((i+1)); sleep 0.02; done; cat; exit 7`;
  const session = startCoder('ssh', 'dev', '--', counter);
  const file = join(dir, 'large');
  const content = Buffer.alloc(48 << 20, 'some bytes, over and over; ');
  writeFileSync(file, content);
  const gate = join(dir, 'gate');
  // reads slowly at first, so that the kill happens in the middle
  const copy = openssh('ssh', 'coder.dev', `head -c 1000000; while [ ! -e '${gate}' ]; do sleep 0.05; done; cat`);
  copy.child.stdin.on('error', () => {});
  copy.child.stdin.end(content);
  await eventually('both have begun', async () => /line 19\n/.test(session.out()) && copy.out().length === 1_000_000);
  writeFileSync(go, '');
  await eventually('it counts on', async () => /line 20\n/.test(session.out()));
  await server.kill();
  session.child.stdin.write('typed meanwhile\n');
  const seen = session.out().length;
  await server.restart();
  await eventually('the counter continues', async () => session.out().length > seen + 200, 30_000);
  writeFileSync(gate, '');
  session.child.stdin.end();
  assert.equal(await session.ended, 7, session.err());
  const lines = session.out().split('\n').slice(0, -1);
  assert.deepEqual(lines, [...Array.from({ length: count }, (_, i) => `line ${i}`), 'typed meanwhile']);
  assert.equal(await copy.ended, 0, copy.err());
  const got = Buffer.from(copy.out(), 'latin1');
  const differs = content.findIndex((byte, at) => byte !== got[at]);
  assert.equal(got.length, content.length, `it differs from ${differs}, ${got.length - content.length} bytes too many`);
  assert.ok(got.equals(content), `it differs from ${differs}`);
});

test('revoking a token ends its SSH sessions and their programs, also without a connection', async () => {
  const made = await coder(['tokens', 'create', '--name', 'short'], { env: server.env });
  assert.equal(made.code, 0, made.stderr);
  const env = { ...server.env, CODER_SESSION_TOKEN: made.stdout.trim() };
  const begin = async () => {
    const args = ['ssh', 'dev', '--', 'echo $$; while :; do echo x; sleep 0.05; done'];
    const session = startProgram(PROGRAM, args, { env, cwd: dir });
    await eventually('it runs', async () => session.out().includes('x'));
    return { session, pid: Number.parseInt(session.out(), 10) };
  };
  const attached = await begin();
  const detached = await begin();
  detached.session.child.kill('SIGKILL');
  await detached.session.ended;
  assert.ok(existsSync(`/proc/${detached.pid}`), 'a program that lost its client continues for a while');
  await run('tokens', 'remove', 'short');
  for (const { pid } of [attached, detached]) {
    await eventually('its program has ended', async () => !existsSync(`/proc/${pid}`), 5_000);
  }
  assert.notEqual(await attached.session.ended, 0);
  assert.match(attached.session.err(), /./, 'the client prints the reason');
});

test('closing the terminal window ends the program', async () => {
  const session = startCoder('ssh', 'dev', '--', 'echo $$; exec sleep 1000');
  await eventually('it runs', async () => session.out().endsWith('\n'));
  const pid = Number(session.out());
  session.child.kill('SIGHUP');
  assert.equal(await session.ended, 129);
  assert.equal(session.err(), '');
  await eventually('the program is gone', async () => !existsSync(`/proc/${pid}`), 5_000);
});

test('after a signal, an SSH session and `coder ssh --stdio` end quietly with the exit code of the signal', async () => {
  const session = startCoder('ssh', 'dev', '--', 'echo begun; exec sleep 1000');
  const stdio = startCoder('ssh', '--stdio', 'dev');
  await eventually('both have begun', async () => session.out() !== '' && stdio.out() !== '');
  for (const one of [session, stdio]) {
    one.child.kill('SIGTERM');
    assert.deepEqual([await one.ended, one.err()], [143, '']);
  }
});

/** The agent's processes: their command line is an agent's, and their environment has the server's address. */
function agentPids(): number[] {
  return processIds().filter((pid) => {
    try {
      const text = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ');
      return / agent( |$)/.test(text) && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(server.url);
    } catch {
      // ended, or not ours
      return false;
    }
  });
}

test('each open session ends immediately with the reason if its agent is killed and its workspace stopped', async (t) => {
  const app = createServer((_request, answer) => answer.write('begun')).listen(0, '127.0.0.1');
  await once(app, 'listening');
  t.after(() => {
    app.closeAllConnections();
    app.close();
  });
  const { port } = app.address() as AddressInfo;
  const session = startCoder('ssh', 'dev', '--', 'echo begun; exec sleep 1000');
  const viaOpenssh = openssh('ssh', 'coder.dev', 'echo begun; exec sleep 1000');
  const forward = startCoder('port-forward', 'dev', '-p', `0:${port}`);
  t.after(() => forward.child.kill('SIGKILL'));
  await eventually('it listens', async () => forward.out().concat(forward.err()).includes('Ready!'));
  const local = Number(/127\.0\.0\.1:(\d+) ->/.exec(forward.out() + forward.err())![1]);
  const socket = connect(local, '127.0.0.1', () => socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'));
  socket.on('error', () => {});
  const answered = new Promise((resolve) => socket.once('data', resolve));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await eventually('all have begun', async () => [session, viaOpenssh].every((one) => one.out() === 'begun\n'));
  await answered;

  const pids = agentPids();
  assert.notEqual(pids.length, 0);
  // a killed agent cannot close its connections
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  await run('stop', 'dev', '-y');
  const stoppedAt = performance.now();
  const [code, opensshCode] = await Promise.all([session.ended, viaOpenssh.ended]);
  await eventually(
    'port-forward has reported it',
    async () => /workspace (was|is being) stopped/.test(forward.err()),
    5_000,
  );
  assert.ok(performance.now() - stoppedAt < 5_000, 'it took too long');
  assert.deepEqual([code, opensshCode], [1, 255]);
  const why = /^error: The workspace (was stopped at \d[^\n]*|is being stopped)\.$/m;
  for (const { err } of [session, viaOpenssh]) {
    assert.match(err(), why);
    // on a slow machine the client may also report that it waits
    assert.doesNotMatch(err(), /^error:.*was lost/m);
  }
  assert.match(forward.err(), /^Port \d+: The workspace (was stopped at \d[^\n]*|is being stopped)\.$/m);
  await closed;
});

test('stopping a workspace ends its open sessions with the reason', async () => {
  await run('start', 'dev', '-y');
  const session = startCoder('ssh', 'dev', '--', 'echo begun; exec sleep 1000');
  const viaOpenssh = openssh('ssh', 'coder.dev', 'echo begun; exec sleep 1000');
  await eventually('both have begun', async () => [session, viaOpenssh].every((one) => one.out() === 'begun\n'));
  await run('stop', 'dev', '-y');
  assert.deepEqual(await Promise.all([session.ended, viaOpenssh.ended]), [1, 255]);
  for (const { err } of [session, viaOpenssh])
    assert.match(err(), /^error: The workspace (was stopped at \d[^\n]*|is being stopped)\.$/m);
});
