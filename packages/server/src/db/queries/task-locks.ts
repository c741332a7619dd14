import { beginOnce, type Sql, type Tx } from '../connect.ts';
import { endWhenSilent } from '../transaction-limits.ts';

/** The first half of the advisory locks' keys, which separates them from others. */
const SPACE = 0x7461_736b;
/** The arguments of the advisory lock of this name, as SQL. */
export const taskLockKey = (tx: Tx, name: string) => tx`${SPACE}, hashtext(${name})`;
const HEARTBEAT_MS = 500;

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
