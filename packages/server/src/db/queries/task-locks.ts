import { AppError } from '@ropewalk/kit';
import { beginOnce, isUnreachable, type Sql, type Tx } from '../connect.ts';
import { endWhenSilent, SILENT_MS } from '../transaction-limits.ts';

/** The first half of the advisory locks' keys, which separates them from others. */
const SPACE = 0x7461_736b;
/** The arguments of the advisory lock of this name, as SQL. */
export const taskLockKey = (tx: Tx, name: string) => tx`${SPACE}, hashtext(${name})`;
const HEARTBEAT_MS = 500;

/**
 * Runs `work` while this server holds the deployment's lock of this name. Returns undefined without running it when
 * another server holds the lock. A lost connection releases the lock, and so does a server that hangs. Then the signal is
 * aborted, and the call rejects with AppError `unavailable`.
 */
export async function withTaskLock<T>(
  sql: Sql,
  name: string,
  work: (lost: AbortSignal) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const lost = new AbortController();
  let held = false;
  let failure: unknown;
  try {
    return await beginOnce(sql, async (tx) => {
      const [row] = await tx<{ locked: boolean }[]>`
        SELECT pg_try_advisory_xact_lock(${taskLockKey(tx, name)}) AS locked, ${endWhenSilent(tx)}`;
      if (!row!.locked) return undefined;
      held = true;
      const heartbeat = setInterval(() => {
        tx`SELECT 1`.catch((err) => lost.abort(err));
      }, HEARTBEAT_MS);
      try {
        return { result: await work(lost.signal) };
      } catch (err) {
        failure = err;
        throw err;
      } finally {
        clearInterval(heartbeat);
      }
    });
  } catch (err) {
    // work can fail because of another connection
    const isLost = held && isUnreachable(err) && (lost.signal.aborted || err !== failure);
    throw isLost ? new AppError('unavailable', LOST, { cause: err }) : err;
  }
}

const LOST =
  'It lost its lock. The connection to the database ended, ' +
  `or this server did not run for ${SILENT_MS / 1_000} seconds because its processor is busy or its machine stood still`;
