import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { eventually, freshDatabase } from '@ropewalk/testkit';
import { freePort } from '@ropewalk/testkit/ports';
import { loadConfig } from '../config/load.ts';
import { startServer } from '../main.ts';
import { parseDatabaseUrl } from './database-url.ts';

// A server behind the real PgBouncer.

const skip = isInstalled() ? false : 'needs pgbouncer, which .ci/run installs';

function isInstalled(): boolean {
  try {
    return execFileSync('pgbouncer', ['--version']).length > 0;
  } catch {
    return false;
  }
}

/** Starts PgBouncer before a new database, with these settings. Returns the URL. */
async function startPgBouncer(t: TestContext, settings: readonly string[]): Promise<string> {
  const database = await freshDatabase({ forServer: true });
  const { hosts, socketDir, rest } = parseDatabaseUrl(database.url);
  const dir = mkdtempSync(join(tmpdir(), 'pgbouncer-'));
  chmodSync(dir, 0o755);
  const port = await freePort();
  const name = rest.pathname.slice(1);
  const host = socketDir ?? hosts[0]!.host;
  const file = join(dir, 'pgbouncer.ini');
  const lines = [
    '[databases]',
    `${name} = host=${host} port=${rest.port || 5432} dbname=${name} user=${rest.username} password=${rest.password}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    ...settings,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  // it does not run as root. The user of the test's PostgreSQL reaches its socket
  const user = process.getuid?.() === 0 ? ['-u', ownerOf(socketDir)] : [];
  const child = spawn('pgbouncer', ['-q', ...user, file], { stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
    rmSync(dir, { recursive: true, force: true });
    await database.drop();
  });
  await eventually('PgBouncer listens', () => isListening(port));
  return `postgres://127.0.0.1:${port}/${name}`;
}

const ownerOf = (folder: string | undefined): string =>
  folder ? execFileSync('stat', ['-c', '%U', folder], { encoding: 'utf8' }).trim() : 'nobody';

const isListening = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connectSocket(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });

/** Starts a server with this database. Returns what it logged. */
async function start(t: TestContext, postgresUrl: string): Promise<{ log: string[]; url: string }> {
  const log: string[] = [];
  const dir = mkdtempSync(join(tmpdir(), 'behind-pooler-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const { config, ...rest } = loadConfig({
    env: { CODER_PG_CONNECTION_URL: postgresUrl, CODER_HTTP_ADDRESS: '127.0.0.1:0', CODER_PROVISIONER_DAEMONS: '0' },
  });
  const server = await startServer({
    ...rest,
    config,
    configDir: dir,
    log: createLogger({ sinks: [{ format: 'human', write: (line) => log.push(line) }] }),
    daemonCommand: [],
    findBinary: async () => undefined,
    env: {},
  });
  t.after(() => server.close());
  return { log, url: server.url };
}

const PARAMETERS =
  'ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout,plan_cache_mode,max_parallel_workers_per_gather';

test('a server behind a pooler of sessions works, and says that it drops the limits of statements', {
  skip,
}, async (t) => {
  const { log, url } = await start(
    t,
    await startPgBouncer(t, ['pool_mode = session', PARAMETERS, 'default_pool_size = 50']),
  );
  assert.equal((await fetch(`${url}/readyz`)).status, 200);
  assert.ok(
    log.some((line) => line.includes('drops the time limits of statements')),
    log.join(''),
  );
});

for (const robin of [0, 1])
  test(`a pooler of transactions is refused${robin ? ', also one that takes sessions in turn' : ''}`, {
    skip,
  }, async (t) => {
    const settings = ['pool_mode = transaction', PARAMETERS, `server_round_robin = ${robin}`];
    const url = await startPgBouncer(t, settings);
    await assert.rejects(start(t, url), /pool_mode = transaction.*needs a session for each connection/);
  });

test('a pooler that rejects the parameters is explained', { skip }, async (t) => {
  const url = await startPgBouncer(t, ['pool_mode = session']);
  await assert.rejects(
    start(t, url),
    /rejects this server's connections: unsupported startup parameter.*high-availability/,
  );
});
