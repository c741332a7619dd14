import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { AppError, backoff, ensureDirectorySync, errorText, isAlive, type Logger } from '@ropewalk/kit';
import { replaceFile } from '@ropewalk/kit/files';
import { connect, isPgError } from '../db/connect.ts';
import { type PostgresBinaries, postgresBinaries } from './binaries.ts';
import { directoryHash } from './place.ts';
import { holdServerLock } from './server-lock.ts';

const READY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 15_000;
const LEAST_FREE_BYTES = 64 * 1024 * 1024;

export interface BundledPostgres {
  /** Connection URL of the database, with its password. */
  url: string;
  /** Stops it, unless another server uses it now. */
  stop(): Promise<void>;
}

interface Place {
  base: string;
  data: string;
  sockets: string;
  log: string;
  uid: number | undefined;
  gid: number | undefined;
}

/**
 * Starts the bundled PostgreSQL of a config directory and supervises it. As root it runs under an unprivileged uid in
 * /var/lib/coder, with one database per config directory. A PostgreSQL that survived its server is taken over. A second
 * server on the same directory is rejected. `stop` ends the start: it rejects with the signal's reason, and nothing runs.
 */
export async function startBundledPostgres(
  configDir: string,
  log: Logger,
  stop?: AbortSignal,
  /** Connections of the server, of administrators and, in tests, of several servers. */
  maxConnections = 100,
): Promise<BundledPostgres> {
  const place = placeFor(configDir);
  const binaries = postgresBinaries(place.base, place.uid);
  const password = passwordOf(configDir, place);
  const url = urlOf(place, password);
  if (!isCreated(place.data)) await initialise(place, binaries, password, log, stop);
  let stopping = false;
  const running = runningPid(place);
  if (running !== undefined) log.info('taking over the running bundled PostgreSQL', { pid: running });
  let pid: number | undefined = running ?? (await launch(place, binaries, { log, maxConnections, stop }));
  const take = async () => {
    await ensureDatabase(url);
    return holdServerLock(url, place.data, log);
  };
  const lock = await take().catch(async (err) => {
    if (running === undefined) await terminate(pid!);
    throw err;
  });
  const waits = backoff({ baseMs: 100, capMs: 5_000 });
  const watch = setInterval(() => {
    if (stopping || (pid !== undefined && isAlive(pid))) return;
    pid = undefined;
    stopping = true; // one restart at a time
    log.error('the bundled PostgreSQL ended unexpectedly. Restarting it', { log: place.log });
    setTimeout(() => {
      launch(place, binaries, { log, maxConnections })
        .then((now) => {
          pid = now;
          waits.reset();
        })
        .catch((err) => log.error('could not start the bundled PostgreSQL', { err: errorText(err) }))
        .finally(() => {
          stopping = false;
        });
    }, waits.next());
  }, 250);
  watch.unref();
  return {
    url,
    async stop() {
      stopping = true;
      clearInterval(watch);
      await lock.release();
      if (pid !== undefined && !lock.isTaken()) await terminate(pid);
    },
  };
}

/** The bundled PostgreSQL of a config directory, next to a server that runs on it, or started if none does. */
export async function useBundledPostgres(configDir: string, log: Logger): Promise<BundledPostgres> {
  const place = placeFor(configDir);
  if (runningPid(place) === undefined) return startBundledPostgres(configDir, log);
  return { url: urlOf(place, passwordOf(configDir, place)), stop: async () => {} };
}

/**
 * The connection URL of the bundled database of a config directory, with its password, whether the database runs or not.
 * @throws AppError `not_found` before a server has created the database
 */
export function bundledPostgresUrl(configDir: string): string {
  if (!isCreated(join(baseFor(configDir), 'data')))
    throw new AppError(
      'not_found',
      `The config directory ${configDir} has no bundled database. "coder server" creates it when it starts without CODER_PG_CONNECTION_URL.`,
    );
  const place = placeFor(configDir);
  return urlOf(place, passwordOf(configDir, place));
}

const isCreated = (data: string): boolean => existsSync(join(data, 'PG_VERSION'));

const isRoot = () => process.getuid?.() === 0;

function baseFor(configDir: string): string {
  return isRoot() ? join('/var/lib/coder', directoryHash(configDir)) : join(configDir, 'postgres');
}

function placeFor(configDir: string): Place {
  const hash = directoryHash(configDir);
  const user = isRoot() ? unprivilegedUser() : undefined;
  const base = baseFor(configDir);
  ensureDirectorySync(base, { mode: user ? 0o755 : 0o700 });
  // the path of a Unix socket has room for about 100 bytes
  const inBase = join(base, 'run');
  const sockets = Buffer.byteLength(inBase) < 80 ? inBase : join('/tmp', `coder-pg-${hash}`);
  ensureDirectorySync(sockets, { mode: 0o700 });
  chmodSync(sockets, 0o700);
  if (user) chownSync(sockets, user.uid, user.gid);
  const { bavail, bsize } = statfsSync(base);
  if (bavail * bsize < LEAST_FREE_BYTES) {
    throw new AppError(
      'unavailable',
      `The disk with ${base} is full. The database needs at least 64 MiB of free space.`,
    );
  }
  return { base, data: join(base, 'data'), sockets, log: join(base, 'postgres.log'), uid: user?.uid, gid: user?.gid };
}

/** PostgreSQL does not run as root, and needs a uid with a name. */
function unprivilegedUser(): { uid: number; gid: number } {
  const users = new Map(
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
      .map(([name, , uid, gid]) => [name, { uid: Number(uid), gid: Number(gid) }]),
  );
  const user = users.get('coder-postgres') ?? users.get('postgres') ?? users.get('nobody');
  if (!user)
    throw new AppError('unavailable', 'As root, the bundled PostgreSQL needs a user named postgres or nobody.');
  return user;
}

/**
 * The database's password. It is stored next to the data. As root, the data is outside the config directory and
 * survives when that directory is created again. The config directory has a copy under upstream's name.
 */
function passwordOf(configDir: string, place: Place): string {
  const copy = join(configDir, 'postgres', 'password');
  const file = place.uid === undefined ? copy : join(place.base, 'password');
  ensureDirectorySync(join(configDir, 'postgres'), { mode: 0o700 });
  const stored = textOf(file);
  const password = stored || textOf(copy) || randomBytes(24).toString('base64url');
  if (password !== stored) {
    if (stored === '' && !textOf(copy) && isCreated(place.data)) {
      const why = `The file ${file}, which has the password of the bundled database, is empty. Restore it from a backup.`;
      throw new AppError('unavailable', why);
    }
    replaceFile(file, password);
  }
  if (file !== copy && textOf(copy) !== password) replaceFile(copy, password);
  return password;
}

/** The text of a file that a full disk or a loss of power may have left empty. Undefined if it does not exist. */
function textOf(file: string): string | undefined {
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
}

function urlOf(place: Place, password: string): string {
  return `postgres://coder:${password}@localhost/coder?host=${encodeURIComponent(place.sockets)}`;
}

function environment(binaries: PostgresBinaries): NodeJS.ProcessEnv {
  return { PATH: '/usr/bin:/bin', LD_LIBRARY_PATH: binaries.libraryPath, LC_ALL: 'C', TZ: 'UTC' };
}

function ids(place: Place): { uid?: number; gid?: number } {
  return place.uid === undefined ? {} : { uid: place.uid, gid: place.gid! };
}

/**
 * Creates a new data directory next to its final path and moves it there, so that a crash leaves nothing incomplete.
 */
async function initialise(
  place: Place,
  binaries: PostgresBinaries,
  password: string,
  log: Logger,
  stop?: AbortSignal,
): Promise<void> {
  const fresh = `${place.data}.new`;
  const passwordFile = join(place.sockets, 'initial-password');
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { mode: 0o700 });
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (place.uid !== undefined) {
    chownSync(fresh, place.uid, place.gid!);
    chownSync(passwordFile, place.uid, place.gid!);
  }
  log.info('creating the bundled PostgreSQL database', { path: place.data });
  // Ctrl+C in a terminal reaches all processes of the server's group: initdb would fail before the server knows why
  const child = spawn(
    join(binaries.home, 'bin', 'initdb'),
    ['-D', fresh, '-U', 'coder', '-E', 'UTF8', '--locale=C', '-A', 'scram-sha-256', '--pwfile', passwordFile],
    {
      ...ids(place),
      env: environment(binaries),
      cwd: place.sockets,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  const end = () => child.kill();
  stop?.addEventListener('abort', end, { once: true });
  if (stop?.aborted) end();
  try {
    let printed = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
    const why = await new Promise<string | undefined>((resolve) => {
      child.once('error', (err) => resolve(err.message));
      child.once('close', (code) => resolve(code === 0 ? undefined : printed.trim().split('\n').slice(-3).join(' ')));
    });
    stop?.throwIfAborted();
    if (why !== undefined)
      throw new AppError('unavailable', `Could not create the bundled database in ${place.data}: ${why}`);
    renameSync(fresh, place.data);
  } finally {
    stop?.removeEventListener('abort', end);
    rmSync(passwordFile, { force: true });
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** The pid of a PostgreSQL that currently runs on this data directory. */
function runningPid(place: Place): number | undefined {
  const file = join(place.data, 'postmaster.pid');
  if (!existsSync(file)) return undefined;
  const [pid, data] = readFileSync(file, 'utf8').split('\n');
  return data === place.data && isAlive(Number(pid)) && isPostgres(Number(pid)) ? Number(pid) : undefined;
}

/** Whether the pid still belongs to PostgreSQL, where /proc shows that. */
function isPostgres(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('postgres');
  } catch {
    return process.platform !== 'linux';
  }
}

async function launch(
  place: Place,
  binaries: PostgresBinaries,
  { log, maxConnections, stop }: { log: Logger; maxConnections: number; stop?: AbortSignal | undefined },
): Promise<number> {
  // to a file, since PostgreSQL outlives a server that is killed
  const out = openSync(place.log, 'a', 0o600);
  const settings = [
    ['listen_addresses', ''],
    ['unix_socket_directories', place.sockets],
    ['shared_buffers', '64MB'],
    ['max_connections', String(maxConnections)],
    ['max_wal_size', '256MB'],
    // the database fits in memory or is on a solid-state disk, so index scans are cheap
    ['random_page_cost', '1.1'],
    ['log_min_messages', 'warning'],
    ['timezone', 'UTC'],
  ].flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const child = spawn(join(binaries.home, 'bin', 'postgres'), ['-D', place.data, ...settings], {
    ...ids(place),
    env: environment(binaries),
    cwd: place.sockets,
    detached: true,
    stdio: ['ignore', out, out],
  });
  const failed = new Promise<never>((_, reject) => {
    child.once('error', (err) =>
      reject(new AppError('unavailable', `Could not start the bundled PostgreSQL: ${err.message}`)),
    );
    child.once('exit', (code, signal) =>
      reject(
        new AppError(
          'unavailable',
          `The bundled PostgreSQL ended at start (${signal ?? `exit ${code}`}): ${tail(place.log)}`,
        ),
      ),
    );
  });
  failed.catch(() => {});
  child.unref();
  const deadline = performance.now() + READY_TIMEOUT_MS;
  const status = join(place.data, 'postmaster.pid');
  while (performance.now() < deadline) {
    if (stop?.aborted) {
      // one that recovers from a crash takes its time
      await terminate(child.pid!);
      throw stop.reason;
    }
    if (existsSync(status) && /^ready\s*$/m.test(readFileSync(status, 'utf8').split('\n')[7] ?? '')) {
      log.debug('bundled PostgreSQL is ready', { pid: child.pid });
      return child.pid!;
    }
    await Promise.race([failed, new Promise((done) => setTimeout(done, 4))]);
  }
  throw new AppError('timeout', `The bundled PostgreSQL was not ready after 60 s: ${tail(place.log)}`);
}

function tail(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim().split('\n').slice(-2).join(' ');
  } catch {
    return `see ${file}`;
  }
}

async function ensureDatabase(url: string): Promise<void> {
  const admin = connect(url.replace('/coder?', '/postgres?'), { max: 1 });
  try {
    const [row] = await admin`SELECT 1 FROM pg_database WHERE datname = 'coder'`;
    if (!row) await admin`CREATE DATABASE coder`;
  } catch (err) {
    if (!isPgError(err, '42P04')) throw err;
  } finally {
    await admin.end({ timeout: 1 });
  }
}

/** Requests a fast shutdown, then an immediate one. */
async function terminate(pid: number): Promise<void> {
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  let sent: NodeJS.Signals = 'SIGINT';
  signal(pid, sent);
  while (isAlive(pid)) {
    if (performance.now() > deadline && sent === 'SIGINT') {
      sent = 'SIGQUIT';
      signal(pid, sent);
    }
    if (performance.now() > deadline + 5_000) return signal(pid, 'SIGKILL');
    await new Promise((done) => setTimeout(done, 10));
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // gone
  }
}
