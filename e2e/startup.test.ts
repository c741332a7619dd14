import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  truncateSync,
  utimesSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { directoryHash } from '@ropewalk/server/postgres/place';
import { processIds } from '@ropewalk/testkit/processes';
import { coder, eventually, firstUser, freePort, PROGRAM, type ServerProcess, startCoderServer } from './harness.ts';

const base = () => ({ PATH: process.env['PATH'], HOME: tmpdir(), CODER_PROVISIONER_DAEMONS: '0' });

/** Runs a server that must not start, and returns its error. */
async function refused(env: NodeJS.ProcessEnv): Promise<string> {
  const { code, stderr } = await coder(['server'], { env: { ...base(), ...env }, timeoutMs: 30_000 });
  assert.equal(code, 1, stderr);
  const last = stderr.trim().split('\n').at(-1)!;
  assert.doesNotMatch(stderr, /\n\s+at /, 'no stack trace');
  return last;
}

test('fails with one sentence for a port in use, an unreachable database and an invalid option', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-refused-'));
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  const { port } = holder.address() as { port: number };
  const database = process.env['TEST_PG_URL'];
  const inUse = await refused({
    CODER_CONFIG_DIR: dir,
    CODER_HTTP_ADDRESS: `127.0.0.1:${port}`,
    ...(database ? { CODER_PG_CONNECTION_URL: database } : {}),
  });
  assert.match(inUse, new RegExp(`127\\.0\\.0\\.1:${port}.*another program uses this address`));
  holder.close();
  const closed = await freePort();
  assert.match(
    await refused({ CODER_CONFIG_DIR: dir, CODER_PG_CONNECTION_URL: `postgres://x:secret-pw@127.0.0.1:${closed}/x` }),
    /Could not reach the database/,
  );
  assert.match(
    await refused({ CODER_CONFIG_DIR: dir, CODER_PROVISIONER_DAEMONS: 'many' }),
    /CODER_PROVISIONER_DAEMONS.*"many" is not a whole number/,
  );
  rmSync(dir, { recursive: true, force: true });
});

test('names a full disk of the data directory', {
  skip: process.getuid?.() !== 0 && 'needs root to mount a small disk',
}, async () => {
  const dir = mkdtempSync(join(tmpdir(), 'platform-full-'));
  assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', dir]).status, 0);
  // As root, the bundled database is below /var/lib/coder, so the server checks the disk of that folder.
  const varLib = '/var/lib/coder';
  spawnSync('mkdir', ['-p', varLib]);
  assert.equal(spawnSync('unshare', ['--version']).status, 0);
  try {
    const script = `mount --bind ${dir} ${varLib} && exec ${PROGRAM.join(' ')} server`;
    const { status, stderr } = spawnSync('unshare', ['-m', 'sh', '-c', script], {
      env: { ...base(), CODER_CONFIG_DIR: join(dir, 'config'), CODER_HTTP_ADDRESS: '127.0.0.1:0' },
      encoding: 'utf8',
      timeout: 30_000,
    });
    assert.equal(status, 1, stderr);
    assert.match(stderr, /disk with .* is full/);
  } finally {
    spawnSync('umount', [dir]);
    rmSync(dir, { recursive: true, force: true });
  }
});

test('the bundled database rejects a second server, and a new server takes over the data of a killed one', async () => {
  const server: ServerProcess = await startCoderServer({ bundled: true, env: { CODER_PROVISIONER_DAEMONS: '0' } });
  try {
    await firstUser(server);
    const second = await refused({ CODER_CONFIG_DIR: server.configDir, CODER_HTTP_ADDRESS: '127.0.0.1:0' });
    assert.match(second, /Another server uses the database/);
    await server.kill();
    await server.restart();
    const me = await server.api<{ username: string }>('GET', '/users/me');
    assert.equal(me.body.username, 'admin', 'the session and its user still exist');
  } finally {
    await server.stop();
  }
});

/** The folder of a server's sockets. */
const placeOf = ({ configDir }: ServerProcess) =>
  process.getuid?.() === 0
    ? join('/var/lib/coder/provisioners', directoryHash(configDir))
    : join(configDir, 'provisioners');

/** The processes and sockets that a server has started, apart from its database. */
function belongings(server: ServerProcess): string[] {
  const place = placeOf(server);
  const commands = processIds().flatMap((pid) => {
    const text = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8').replaceAll('\0', ' ');
    try {
      const texts = [readlinkSync(`/proc/${pid}/cwd`), text('environ')];
      return texts.some((one) => one.includes(place) || one.includes(server.configDir)) ? [text('cmdline')] : [];
    } catch {
      return []; // ended
    }
  });
  return [...globSync('server-*', { cwd: place }), ...commands];
}

test('a signal in each moment of the start ends the server and all that it has started, and the next start succeeds', async () => {
  const server = await startCoderServer({
    bundled: true,
    // its own process group, as in a terminal
    program: ['setsid', ...PROGRAM],
    env: { CODER_PROVISIONER_DAEMONS: '1' },
    expectFailure: true,
  });
  let from = 0;
  const says = (line: string) => () => server.log().slice(from).includes(line);
  const moments: [string, () => unknown, NodeJS.Signals, { group?: boolean }?][] = [
    ['the database is created', says('creating the bundled PostgreSQL database'), 'SIGINT', { group: true }],
    ['PostgreSQL starts', () => server.postmaster(), 'SIGINT', { group: true }],
    ['migrations run', says('applying migration'), 'SIGHUP'],
    ['the daemons start', () => globSync('server-*', { cwd: placeOf(server) }).length > 0, 'SIGHUP', { group: true }],
    ['the server is ready', says('The server is ready'), 'SIGINT', { group: true }],
  ];
  try {
    for (const [at, [moment, reached, signal, { group = false } = {}]] of moments.entries()) {
      from = server.log().length;
      const failed = at === 0 ? undefined : server.restart().catch(() => {});
      const { child } = server;
      await eventually(moment, reached);
      process.kill(group ? -child.pid! : child.pid!, signal);
      await eventually(
        `the server ends: ${moment}`,
        () => child.exitCode !== null || child.signalCode !== null,
        30_000,
      );
      await failed;
      assert.equal(child.exitCode, 0, `${moment}: ${server.log().slice(from)}`);
      assert.doesNotMatch(server.log().slice(from), /unexpected error|cannot be started/, moment);
      assert.match(server.log().slice(from), new RegExp(`stopping( before the server is ready)?.*${signal}`));
      assert.equal(server.postmaster(), undefined, `no database is left: ${moment}`);
      await eventually(`nothing is left: ${moment}`, () => belongings(server).length === 0, 5_000).catch(() =>
        assert.deepEqual(belongings(server), [], moment),
      );
    }
    // as of a server that was killed, with a pid that another process has now
    const left = join(placeOf(server), `server-${process.pid}-abcdef`);
    mkdirSync(left);
    utimesSync(left, 0, 0);
    await server.restart();
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
    await eventually('the folder is gone', () => !existsSync(left));
  } finally {
    await server.stop();
  }
});

test('a server starts with files that a full disk or a loss of power left empty, and keeps its uids', async () => {
  const isRoot = process.getuid?.() === 0;
  const server = await startCoderServer({ bundled: true, env: { CODER_PROVISIONER_DAEMONS: isRoot ? '1' : '0' } });
  const base = isRoot ? join('/var/lib/coder', directoryHash(server.configDir)) : join(server.configDir, 'postgres');
  const [password, copy] = [join(base, 'password'), join(server.configDir, 'postgres/password')];
  const record = join(server.configDir, 'uids.json');
  const restart = async (change: () => void) => {
    await server.terminate();
    change();
    await server.restart();
  };
  let user: string | undefined;
  try {
    await firstUser(server);
    if (isRoot) {
      const before = readFileSync(record, 'utf8');
      const { first } = JSON.parse(before) as { first: number };
      // as for a template that runs programs on the machine
      user = `coder-${randomBytes(4).toString('hex')}`;
      const made = spawnSync('useradd', ['--system', '--no-create-home', '--uid', String(first + 100), user]);
      assert.equal(made.status, 0, `${made.stderr}`);
      await restart(() => {
        truncateSync(record);
        truncateSync(password);
      });
      assert.equal(readFileSync(record, 'utf8'), before);
      assert.equal((await server.api('GET', '/users/me')).status, 200);
    }
    await restart(() => {
      rmSync(join(base, 'data'), { recursive: true });
      for (const file of [password, copy]) truncateSync(file);
    });
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200);
  } finally {
    await server.stop();
    if (user) spawnSync('userdel', [user]);
  }
});

test('during an outage of the database the server stays alive, and becomes ready again without a restart', async () => {
  const server = await startCoderServer({ bundled: true, env: { CODER_PROVISIONER_DAEMONS: '0' } });
  try {
    await firstUser(server);
    const ready = async () => (await fetch(`${server.url}/readyz`)).status;
    assert.equal(await ready(), 200);
    const pid = await server.killDatabase();
    assert.equal((await fetch(`${server.url}/healthz`)).status, 200, 'the server is alive');
    // connections survive it for a moment and then close one by one
    await eventually('another one runs', async () => ![undefined, pid].includes(server.postmaster()));
    const me = async () => (await server.api('GET', '/users/me')).status;
    await eventually('ready again', async () => (await ready()) === 200 && (await me()) === 200);
  } finally {
    await server.stop();
  }
});

test('at SIGTERM the server is not ready at first, serves for --shutdown-delay, and then closes its port', async () => {
  const env = { CODER_PROVISIONER_DAEMONS: '0', CODER_SHUTDOWN_DELAY: '3s' };
  const server = await startCoderServer({ env });
  try {
    await firstUser(server);
    const status = async (path: string) => (await fetch(`${server.url}${path}`)).status;
    assert.equal(await status('/readyz'), 200);
    const exited = once(server.child, 'exit');
    const from = performance.now();
    server.child.kill('SIGTERM');
    await eventually('it is not ready', async () => (await status('/readyz')) === 503);
    const noticed = performance.now();
    assert.equal(await status('/healthz'), 200);
    assert.equal((await server.api('GET', '/users/me')).status, 200);
    await eventually('its port is closed', async () => {
      const me = await server.api('GET', '/users/me').catch(() => undefined);
      assert.ok(me === undefined || me.status === 200);
      return me === undefined;
    });
    assert.ok(noticed - from < 2_000 && performance.now() - from >= 2_900);
    assert.deepEqual((await exited)[0], 0, server.log());

    await server.restart();
    const again = once(server.child, 'exit');
    const hurried = performance.now();
    server.child.kill('SIGINT');
    assert.equal((await again)[0], 0);
    assert.ok(performance.now() - hurried < 2_900, 'Ctrl+C does not wait');
  } finally {
    await server.stop();
  }
});
