import type { Tx } from '../../db/connect.ts';
import type { Ctx } from '../context/context.ts';

/** The last work of each key that has not ended. */
const last = new Map<string, Promise<unknown>>();

/** Runs `work` after the earlier work of the same key, on this server, has ended. Rejects as `work` does. */
export async function inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
  const before = last.get(key);
  const mine = before ? before.then(work, work) : work();
  last.set(key, mine);
  try {
    return await mine;
  } finally {
    if (last.get(key) === mine) last.delete(key);
  }
}

/**
 * Runs a transaction that makes other transactions of the same person wait. On this server they wait without a database
 * connection, so that one person's requests cannot take all connections. `about`: only those with the same text wait.
 */
export function beginInTurn<T>({ actor, sql }: Ctx, run: (tx: Tx) => Promise<T>, about = ''): Promise<T> {
  const begin = async () => (await sql.begin(run)) as T;
  return actor.kind === 'user' ? inTurn(`transaction ${actor.id} ${about}`, begin) : begin();
}
