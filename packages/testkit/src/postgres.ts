import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@platform/kit';
import { connect } from '@platform/server/db/connect';
import { startBundledPostgres } from '@platform/server/postgres/bundled';
import { directoryHash } from '@platform/server/postgres/place';

export interface TestPostgres {
  /** The URL of its maintenance database. Tests create their own databases. */
  url: string;
  stop(): Promise<void>;
}

/** Starts a bundled PostgreSQL in a temporary directory. Stopping it removes all its databases. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const dir = mkdtempSync(join(tmpdir(), 'platform-pg-'));
  const running = await startBundledPostgres(dir, silentLogger);
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

let own: Promise<TestPostgres> | undefined;
/** The number of databases in use. Dropping the last one stops our own PostgreSQL. */
let inUse = 0;

/** Creates an empty database on the test run's PostgreSQL, or on one started for this file alone. Returns its URL. */
export async function freshDatabase(): Promise<{ url: string; drop(): Promise<void> }> {
  const shared = process.env['TEST_PG_URL'];
  own ??= shared ? undefined : startTestPostgres();
  inUse++;
  const base = shared ?? (await own!).url;
  const name = `test_${randomBytes(8).toString('hex')}`;
  const admin = connect(base, { max: 1 });
  await admin.unsafe(`CREATE DATABASE ${name}`);
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
