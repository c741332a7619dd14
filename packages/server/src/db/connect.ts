import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { parseDatabaseUrl } from './database-url.ts';

/** A pool of connections to the database. */
export type Sql = postgres.Sql<{ bigint: number }>;
/** A transaction in a pool. */
export type Tx = postgres.TransactionSql<{ bigint: number }>;
/** The first argument of a query that may run inside or outside a transaction. */
export type Db = Sql | Tx;

export interface ConnectOptions {
  /** Connections in the pool. */
  max?: number;
  applicationName?: string;
  /** Asked for the password of each new connection. Default: that of the URL. */
  password?: (() => Promise<string>) | undefined;
  /**
   * PostgreSQL cancels a statement that runs longer, and ends a transaction that waits longer for this server, in ms.
   * Default: no limit.
   */
  statementTimeoutMs?: number;
  /**
   * For lists and searches, whose cost depends on the values: each statement is planned for its values, and runs in one
   * database process, which also keeps the order of UNION ALL. Other statements are planned once for each connection.
   */
  searches?: boolean;
}

/** The times that clients of JSON can read. */
export const FIRST_TIME = new Date('0001-01-01T00:00:00Z');
export const LAST_TIME = new Date('9999-12-31T23:59:59Z');

/**
 * Parses a time of the database. JSON clients and RFC 3339 support only the years 1 to 9999. A time outside becomes the
 * first or the last one of these, so that one such value does not break its row and every list with it.
 */
export function parseTime(text: string): Date {
  const time = new Date(text);
  if (time >= FIRST_TIME && time <= LAST_TIME) return time;
  return text.startsWith('-') || text.endsWith('BC') ? FIRST_TIME : LAST_TIME;
}

/** PostgreSQL's number of text[]. */
const TEXT_ARRAY = 1009;

/** Opens a pool. Connections open on first use. Statements are prepared once and pipelined. */
export function connect(url: string, options: ConnectOptions = {}): Sql {
  const { hosts, socketDir, sessions, rest } = parseDatabaseUrl(url);
  const sql = postgres(rest.href, {
    ...(hosts.length > 0
      ? // lists, which the driver reads but does not declare
        { host: hosts.map(({ host }) => host) as never, port: hosts.map(({ port }) => port) as never }
      : { host: socketDir ?? (process.env['PGHOST'] || 'localhost') }),
    ...(sessions ? { target_session_attrs: sessions } : {}),
    ...(options.password ? { pass: options.password } : {}),
    max: options.max ?? 10,
    idle_timeout: 60,
    connect_timeout: 10,
    // in seconds. The driver's default can take up to twenty seconds to reconnect after a short outage
    backoff: (tries: number) => (0.5 + Math.random() / 2) * Math.min(0.05 * 2 ** tries, 1),
    onnotice: () => {},
    connection: {
      application_name: options.applicationName ?? 'coderd',
      TimeZone: 'UTC',
      ...(options.statementTimeoutMs
        ? {
            statement_timeout: options.statementTimeoutMs,
            idle_in_transaction_session_timeout: options.statementTimeoutMs,
          }
        : {}),
      ...(options.searches ? { max_parallel_workers_per_gather: 0 } : { plan_cache_mode: 'force_generic_plan' }),
    },
    types: {
      // counts, durations and serials, all far below 2^53
      bigint: {
        to: 20,
        from: [20],
        parse: (text: string) => Number(text),
        serialize: (value: number) => String(value),
      },
      date: {
        to: 1184,
        from: [1082, 1114, 1184],
        parse: parseTime,
        serialize: (value: Date | string | number) => (value instanceof Date ? value : new Date(value)).toISOString(),
      },
    },
  }) as unknown as Sql;
  // By default each new connection queries the array types, and no caller handles an error of that query. If the
  // database went away in that moment, the server would crash. The first connection learns the types, so later ones
  // need no query.
  const known = () => sql.options.parsers[TEXT_ARRAY] !== undefined;
  Object.defineProperty(sql.options, 'fetch_types', { get: () => !known(), enumerable: true });
  const begin = sql.begin as (...args: unknown[]) => Promise<unknown>;
  const run = (...args: unknown[]) => {
    const work = args.at(-1) as (tx: Tx) => unknown;
    return begin(...args.slice(0, -1), (tx: Tx) => withCollected(tx, work));
  };
  begunOnce.set(sql, run as Sql['begin']);
  sql.begin = (async (...args: unknown[]) => {
    for (let left = MAX_RACES; ; left -= 1) {
      try {
        return await run(...args);
      } catch (err) {
        if (left === 0 || !hasLostRace(err)) throw err;
        // those that met each other do not meet again
        await sleep(Math.random() * RACE_PAUSE_MS);
      }
    }
  }) as Sql['begin'];
  return sql;
}

/** How often a transaction runs again after it has met another one or a change of the schema. */
const MAX_RACES = 5;
/** The longest pause before it runs again, in ms. */
const RACE_PAUSE_MS = 50;

const begunOnce = new WeakMap<Sql, Sql['begin']>();

/** Runs a transaction whose work must not run twice. `sql.begin` runs it again if it has lost a race. */
export function beginOnce<T>(sql: Sql, work: (tx: Tx) => Promise<T>): Promise<T> {
  return begunOnce.get(sql)!(work) as Promise<T>;
}

/** Sends what a transaction has collected, in one statement. */
type SendCollected = (tx: Db, items: string[]) => Promise<unknown>;

/** The open transactions, and what they have collected so far. */
const collected = new WeakMap<object, Map<SendCollected, string[]>>();

async function withCollected(tx: Tx, work: (tx: Tx) => unknown): Promise<unknown> {
  const items = new Map<SendCollected, string[]>();
  collected.set(tx, items);
  const result = await work(tx);
  for (const [send, all] of items) await send(tx, all);
  return result;
}

/**
 * Sends the items together with the others of the transaction, just before it commits. Outside of a transaction they are
 * sent immediately.
 */
export async function collect(db: Db, send: SendCollected, items: readonly string[]): Promise<void> {
  const all = collected.get(db);
  if (!all) await send(db, [...items]);
  else all.set(send, [...(all.get(send) ?? []), ...items]);
}

/** Resolves if the database answers. */
export async function ping(db: Db): Promise<void> {
  await db`SELECT 1`;
}

/**
 * Resolves if the database accepts writes. A standby and a primary that is being replaced only answer reads.
 * @throws PgError READ_ONLY
 */
export async function checkWritable(db: Db): Promise<void> {
  await db`DELETE FROM site_config WHERE false`;
}

export interface PgError {
  code: string;
  constraint_name?: string;
  detail?: string;
  message: string;
}

/** Whether PostgreSQL answered with an error: with this SQLSTATE code, if one is given. */
export function isPgError(err: unknown, code?: string): err is Error & PgError {
  return err instanceof postgres.PostgresError && (code === undefined || err.code === code);
}

// SQLSTATE codes (PostgreSQL documentation, appendix A)
export const UNIQUE_VIOLATION = '23505';
/** An earlier statement of the transaction failed. */
export const IN_FAILED_TRANSACTION = '25P02';
export const SERIALIZATION_FAILURE = '40001';
const DEADLOCK = '40P01';
/** A lock was not available in time. */
export const LOCK_NOT_AVAILABLE = '55P03';
/** The server accepts no writes: it is a standby, or a primary that is being replaced. */
export const READ_ONLY = '25006';
export const FOREIGN_KEY_VIOLATION = '23503';
/** A text contains NUL or is not valid UTF-8, in a column or in a JSON escape. */
export const NOT_IN_REPERTOIRE = '22021';
export const UNTRANSLATABLE_CHARACTER = '22P05';
/** PostgreSQL canceled the statement because it exceeded its statement timeout. */
export const QUERY_CANCELED = '57014';

const codeOf = (err: unknown): string => (err as { code?: string } | undefined)?.code ?? '';

const AWAY = new Set([
  // from the network
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
  'ENOENT',
  // from the driver
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'CONNECTION_DESTROYED',
  // from the database: it shuts down, was killed or is starting
  '57P01',
  '57P02',
  '57P03',
  // from the database: the connection was unused for longer than its administrator allows
  '57P05',
  // from the database: this server hung in a transaction, or the transaction took too long
  '25P03',
  '25P04',
  READ_ONLY,
]);
/** The database's disk is full. */
export const DISK_FULL = '53100';

/**
 * Whether the database was unreachable, had no space or accepted no writes, so that a later attempt may succeed. Leases
 * stand still meanwhile.
 */
export function isUnreachable(err: unknown): boolean {
  const code = codeOf(err);
  // class 08: the connection failed
  return code === DISK_FULL || AWAY.has(code) || /^08\w{3}$/.test(code);
}

/** Something failed within PostgreSQL. It may be damaged data, which no attempt mends. */
export const INTERNAL_ERROR = 'XX000';

const PASSING = new Set([
  SERIALIZATION_FAILURE,
  DEADLOCK,
  LOCK_NOT_AVAILABLE,
  // PostgreSQL or its administrator canceled the statement
  QUERY_CANCELED,
  // an input or output error
  '58030',
  INTERNAL_ERROR,
]);

/**
 * Whether a statement failed for a reason that lies in the database and not in the statement, so that a later attempt
 * may succeed. The statement, or its transaction, has changed nothing, unless the connection was lost.
 */
export function isTransient(err: unknown): boolean {
  const code = codeOf(err);
  // class 53: memory, connections or space ran out
  return isUnreachable(err) || PASSING.has(code) || /^53\w{3}$/.test(code) || isOutdatedPlan(err);
}

/**
 * Whether a transaction met another one, or a change of the schema, so that it can run again immediately. It has changed
 * nothing.
 */
function hasLostRace(err: unknown): boolean {
  const code = codeOf(err);
  return code === SERIALIZATION_FAILURE || code === DEADLOCK || isOutdatedPlan(err);
}

/** Whether a prepared statement was rejected because the schema has changed since. The driver prepares it again. */
function isOutdatedPlan(err: unknown): boolean {
  return codeOf(err) === '0A000' && (err as { routine?: string }).routine === 'RevalidateCachedQuery';
}

/** Whether the database rejected the data, and would again: it does not fit its type or violates a constraint. */
export function isRejectedData(err: unknown): boolean {
  return /^2[23]\w{3}$/.test(codeOf(err));
}
