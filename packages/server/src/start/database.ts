import { AppError, ensureDirectorySync, errorText } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { type ConnectOptions, connect, isUnreachable, ping, type Sql } from '../db/connect.ts';
import { migrate } from '../db/migrate.ts';
import { passwordSource } from '../db/password.ts';
import { checkSessions } from '../db/pooler.ts';
import { type DatabaseStall, watchDatabaseStall } from '../http/database-stall.ts';
import { startBundledPostgres } from '../postgres/bundled.ts';
import type { Starting } from './starting.ts';

/** The longest that any statement of a request or a background task runs. */
const STATEMENT_TIMEOUT_MS = 30_000;
/** The longest that a list or a search runs: it answers with 504 then. */
const LIST_TIMEOUT_MS = 5_000;
const LIST_CONNECTIONS = 4;
/** One for each background task with a lock of the deployment, so that long runs do not delay short ones. */
const LOCK_CONNECTIONS = 8;

/** The connections to the database, which has this server's schema. */
export interface Database {
  sql: Sql;
  lists: Sql;
  locks: Sql;
  /** Makes another pool of connections, which the caller closes. */
  connect(options: ConnectOptions): Sql;
}

/** The driver runs some statements that nobody waits for: a database that goes away must not end the server. */
export function surviveLostStatements(start: Starting): void {
  const onRejection = (err: unknown) => {
    if (!isUnreachable(err)) throw err;
    start.log.warn('a statement that nobody waited for failed: the database is away', { err: errorText(err) });
  };
  process.on('unhandledRejection', onRejection);
  start.closer.add('unhandled rejections', async () => void process.off('unhandledRejection', onRejection));
}

/** Starts the bundled database, unless the options name another one. Connects to it and brings it to this schema. */
export async function startDatabase(start: Starting): Promise<Database> {
  const { config, configDir, log, closer, stop } = start;
  ensureDirectorySync(configDir, { mode: 0o700 });
  const password = await passwordSource(config.postgresUrl, config.postgresAuth, log);
  const url = config.postgresUrl || (await startBundled(start));
  stop?.throwIfAborted();
  const sql = connect(url, { password, statementTimeoutMs: STATEMENT_TIMEOUT_MS });
  closer.add('database connections', () => sql.end({ timeout: 5 }));
  const lists = connect(url, {
    password,
    max: LIST_CONNECTIONS,
    applicationName: 'coderd-lists',
    statementTimeoutMs: LIST_TIMEOUT_MS,
    searches: true,
  });
  closer.add('database connections of lists', () => lists.end({ timeout: 5 }));
  const locks = connect(url, {
    password,
    max: LOCK_CONNECTIONS,
    applicationName: 'coderd-locks',
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
  });
  closer.add('database connections of locks', () => locks.end({ timeout: 5 }));
  const prepare = async () => {
    // both open the first connection of the lists, which asks for types: the database must not go away meanwhile
    if (config.postgresUrl === '') await ping(lists);
    else await checkSessions(sql, lists, log);
    await migrate(sql, log);
  };
  await abortable(prepare(), stop).catch((err) => {
    if (isUnreachable(err)) {
      throw new AppError('unavailable', `Could not reach the database: ${(err as Error).message}`, { cause: err });
    }
    throw err;
  });
  return { sql, lists, locks, connect: (options) => connect(url, { password, ...options }) };
}

async function startBundled({ configDir, log, closer, stop }: Starting): Promise<string> {
  const bundled = await startBundledPostgres(configDir, log.child({ part: 'postgres' }), stop);
  closer.add('bundled postgres', () => bundled.stop(), 30_000);
  return bundled.url;
}

/** Watches whether the database answers, on a separate connection. */
export async function startStallWatch({ closer }: Starting, database: Database): Promise<DatabaseStall> {
  const sql = database.connect({ max: 1, applicationName: 'coderd-stall' });
  closer.add('database connection of the stall watch', () => sql.end({ timeout: 5 }));
  await ping(sql);
  const stall = watchDatabaseStall(sql);
  closer.add('stall watch', async () => stall.close());
  return stall;
}
