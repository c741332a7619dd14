import { beginOnce, type Sql, type Tx } from '../connect.ts';

/** The first half of the advisory locks' keys, which separates them from others. */
const SPACE = 0x7461_736b;
/** The arguments of the advisory lock of this name, as SQL. */
export const taskLockKey = (tx: Tx, name: string) => tx`${SPACE}, hashtext(${name})`;
/**
 * PostgreSQL ends a transaction that waits this long for its server, in ms. A server that hangs, or whose machine is
 * gone, keeps its connections open: only this releases its locks.
 */
const SILENT_MS = 2_000;
const HEARTBEAT_MS = 500;

/** In a SELECT: makes the locks of this transaction end soon after its server hangs. */
export const endWhenSilent = (tx: Tx) =>
  tx`set_config('idle_in_transaction_session_timeout', ${String(SILENT_MS)}, true)`;

/** The longest that a short transaction takes, in ms. */
const SHORT_MS = 3_000;

/**
 * In a SELECT: the same for a short transaction, which ends in any case after a few seconds. A server can hang between the
 * messages of one statement, which PostgreSQL does not count as silence. Releases before 17 cannot do this.
 */
export const endShortly = (tx: Tx) => tx`${endWhenSilent(tx)},
  CASE WHEN current_setting('server_version_num')::int >= 170000
    THEN set_config('transaction_timeout', ${String(SHORT_MS)}, true) END`;

/**
 * Runs `work` while this server holds the deployment's lock of this name. Returns undefined without running it when
 * another server holds the lock. A lost connection releases the lock, and so does a server that hangs. Then the signal is
 * aborted, and the call rejects.
 */
export async function withTaskLock<T>(
  sql: Sql,
  name: string,
  work: (lost: AbortSignal) => Promise<T>,
): Promise<{ result: T } | undefined> {
  return beginOnce(sql, async (tx) => {
    const [row] = await tx<{ locked: boolean }[]>`
      SELECT pg_try_advisory_xact_lock(${taskLockKey(tx, name)}) AS locked, ${endWhenSilent(tx)}`;
    if (!row!.locked) return undefined;
    const lost = new AbortController();
    const heartbeat = setInterval(() => {
      tx`SELECT 1`.catch((err) => lost.abort(err));
    }, HEARTBEAT_MS);
    try {
      return { result: await work(lost.signal) };
    } finally {
      clearInterval(heartbeat);
    }
  });
}
