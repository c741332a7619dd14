import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdtempSync, rmSync, statfsSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@ropewalk/kit';
import { connect } from '@ropewalk/server/db/connect';
import { migrate } from '@ropewalk/server/db/migrate';
import { startBundledPostgres } from '@ropewalk/server/postgres/bundled';
import { directoryHash } from '@ropewalk/server/postgres/place';

export interface TestPostgres {
  /** The URL of its maintenance database. Tests create their own databases. */
  url: string;
  stop(): Promise<void>;
}

/** Two test files at a time may each start several servers. */
const MAX_CONNECTIONS = 300;

/** Starts a bundled PostgreSQL in a temporary directory. Stopping it removes all its databases. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const dir = mkdtempSync(join(tmpdir(), 'platform-pg-'));
  const running = await startBundledPostgres(dir, silentLogger, undefined, MAX_CONNECTIONS);
  return {
    url: running.url,
    async stop() {
      await running.stop();
      rmSync(dir, { recursive: true, force: true });
      if (process.getuid?.() === 0)
        rmSync(join('/var/lib/coder', directoryHash(dir)), { recursive: true, force: true });
    },
  };
}

/** The name of the database with the schema, for `freshDatabase`. */
const TEMPLATE_ENV = 'TEST_PG_TEMPLATE';
/** The tablespace in memory, for `freshDatabase`. */
const TABLESPACE_ENV = 'TEST_PG_TABLESPACE';
const MEMORY = '/dev/shm';
const LEAST_MEMORY_BYTES = 4 * 1024 ** 3;

/**
 * Starts the PostgreSQL of a test run. It does not wait for the disk, since its data need not survive a crash of the
 * machine. Its databases are in memory, if the machine has a file system there. A database has hundreds of files, and ext4
 * without a journal looks at each recently deleted file when it creates one: after 50 databases it took 0.3 s of a
 * processor to create the next, ten times as much as the first. The databases of test servers are copies of one that has
 * the schema. Only for tests: measurements need a database as people run it. `env` is the environment of the test files.
 */
export async function startFastPostgres(): Promise<TestPostgres & { env: Record<string, string> }> {
  const { url: base, stop } = await startTestPostgres();
  const template = 'with_schema';
  const admin = connect(base, { max: 1 });
  for (const setting of ['fsync', 'full_page_writes']) await admin.unsafe(`ALTER SYSTEM SET ${setting} = off`);
  await admin`SELECT pg_reload_conf()`;
  const [place] = await admin<{ data_directory: string }[]>`SHOW data_directory`;
  const memory = memoryFolder(place!.data_directory);
  if (memory) await admin.unsafe(`CREATE TABLESPACE memory LOCATION '${memory}'`);
  await admin.unsafe(`CREATE DATABASE ${template}${memory ? ' TABLESPACE memory' : ''}`);
  const url = new URL(base);
  url.pathname = `/${template}`;
  const sql = connect(url.href, { max: 1 });
  await migrate(sql, silentLogger);
  await sql.end();
  // nothing connects to it, not even autovacuum, which would delay copies
  await admin.unsafe(`ALTER DATABASE ${template} WITH ALLOW_CONNECTIONS false`);
  await admin.end();
  return {
    url: base,
    env: { TEST_PG_URL: base, [TEMPLATE_ENV]: template, ...(memory ? { [TABLESPACE_ENV]: 'memory' } : {}) },
    async stop() {
      await stop();
      if (memory) rmSync(memory, { recursive: true, force: true });
    },
  };
}

/** A folder in memory that belongs to the owner of `like`. Undefined without enough room, as in most containers. */
function memoryFolder(like: string): string | undefined {
  if (!existsSync(MEMORY)) return undefined;
  const { bavail, bsize } = statfsSync(MEMORY);
  if (bavail * bsize < LEAST_MEMORY_BYTES) return undefined;
  const folder = mkdtempSync(join(MEMORY, 'platform-pg-'));
  const { uid, gid } = statSync(like);
  chownSync(folder, uid, gid);
  return folder;
}

let own: Promise<TestPostgres> | undefined;
/** The number of databases in use. Dropping the last one stops our own PostgreSQL. */
let inUse = 0;

/**
 * Creates a database on the test run's PostgreSQL, or on one started for this file alone. Returns its URL. It is empty. For
 * a server, which would migrate it, it may have the schema.
 */
export async function freshDatabase({ forServer = false } = {}): Promise<{ url: string; drop(): Promise<void> }> {
  const shared = process.env['TEST_PG_URL'];
  own ??= shared ? undefined : startTestPostgres();
  inUse++;
  const base = shared ?? (await own!).url;
  const name = `test_${randomBytes(8).toString('hex')}`;
  const admin = connect(base, { max: 1 });
  const template = forServer && shared ? process.env[TEMPLATE_ENV] : undefined;
  const tablespace = shared ? process.env[TABLESPACE_ENV] : undefined;
  await admin.unsafe(
    `CREATE DATABASE ${name}${template ? ` TEMPLATE ${template}` : ''}${tablespace ? ` TABLESPACE ${tablespace}` : ''}`,
  );
  await admin.end();
  const url = new URL(base);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    async drop() {
      const again = connect(base, { max: 1 });
      await again.unsafe(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      await again.end();
      if (--inUse === 0 && own && !shared) {
        const mine = own;
        own = undefined;
        await (await mine).stop();
      }
    },
  };
}
