import postgres from 'postgres';

/** A connection pool, or a transaction of it: every query takes one of the two as its first argument. */
export type Sql = postgres.Sql<{ bigint: number }>;
export type Tx = postgres.TransactionSql<{ bigint: number }>;
export type Db = Sql | Tx;

export interface ConnectOptions {
  /** Connections in the pool. */
  max?: number;
  applicationName?: string;
}

/** Opens a pool. Connections are made when first used, statements are prepared once and pipelined. */
export function connect(url: string, options: ConnectOptions = {}): Sql {
  const target = new URL(url);
  // libpq's form of a unix socket: ?host=/folder
  const socketDir = target.searchParams.get('host');
  target.searchParams.delete('host');
  return postgres(target.href, {
    ...(socketDir ? { host: socketDir } : {}),
    max: options.max ?? 10,
    idle_timeout: 60,
    connect_timeout: 10,
    onnotice: () => {},
    connection: { application_name: options.applicationName ?? 'coderd', TimeZone: 'UTC' },
    types: {
      // counts, durations and serials: all far below 2^53
      bigint: {
        to: 20,
        from: [20],
        parse: (text: string) => Number(text),
        serialize: (value: number) => String(value),
      },
    },
  }) as unknown as Sql;
}

export interface PgError {
  code: string;
  constraint_name?: string;
  detail?: string;
  message: string;
}

export function isPgError(err: unknown, code?: string): err is Error & PgError {
  return err instanceof postgres.PostgresError && (code === undefined || err.code === code);
}

export const UNIQUE_VIOLATION = '23505';
export const SERIALIZATION_FAILURE = '40001';
export const FOREIGN_KEY_VIOLATION = '23503';
