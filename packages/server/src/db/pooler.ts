/** Poolers between this server and PostgreSQL, such as PgBouncer. */
import { AppError, type Logger } from '@ropewalk/kit';
import { type Db, isPgError, type Sql } from './connect.ts';

/** What PgBouncer replies to parameters that it does not track, for example those of `connect`. */
const REJECTED_PARAMETER = /unsupported startup parameter/;
/** A statement was prepared in another session: it is missing, or it is there already. */
const OF_OTHER_SESSION = new Set(['26000', '42P05']);
/** How often two connections compare their sessions. A pooler may also assign its sessions in turn. */
const ROUNDS = 3;

const PGBOUNCER = 'docs/high-availability.md has the settings for PgBouncer.';

/**
 * Makes sure that each connection is one session of PostgreSQL: this server listens for notifications, holds advisory
 * locks and prepares statements, which are parts of a session. Warns if a pooler drops the time limits of statements.
 * @throws AppError `unavailable` if a pooler shares sessions between connections, or rejects this server's parameters
 */
export async function checkSessions(sql: Sql, lists: Sql, log: Logger): Promise<void> {
  try {
    const one = await sql.reserve();
    try {
      const first = await sessionOf(one);
      if (!first.limited)
        log.warn(
          `a pooler drops the time limits of statements, so that a slow one can hold a connection for ever. ${PGBOUNCER}`,
        );
      for (let round = 0; round < ROUNDS; round++) {
        const isShared = await lists.begin(async (tx) => {
          const other = await sessionOf(tx);
          return other.pid === first.pid || (await sessionOf(one)).pid !== first.pid;
        });
        if (isShared) throw shared();
      }
    } finally {
      one.release();
    }
  } catch (err) {
    if (!isPgError(err)) throw err;
    if (OF_OTHER_SESSION.has(err.code)) throw shared(err);
    if (REJECTED_PARAMETER.test(err.message))
      throw new AppError(
        'unavailable',
        `The pooler of the database rejects this server's connections: ${err.message}. ${PGBOUNCER}`,
        { cause: err },
      );
    throw err;
  }
}

async function sessionOf(db: Db): Promise<{ pid: number; limited: boolean }> {
  const [row] = await db<{ pid: number; limited: boolean }[]>`
    SELECT pg_backend_pid() AS pid, current_setting('statement_timeout') <> '0' AS limited`;
  return row!;
}

function shared(cause?: unknown): AppError {
  return new AppError(
    'unavailable',
    'A pooler shares the sessions of the database between connections, as PgBouncer does with pool_mode = transaction. ' +
      'This server needs a session for each connection: it listens for notifications and holds locks. ' +
      'Set pool_mode = session, or connect to PostgreSQL directly.',
    { cause },
  );
}
