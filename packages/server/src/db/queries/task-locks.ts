import type { Sql } from '../connect.ts';

/** The first half of the advisory locks' keys, which separates them from others. */
const SPACE = 0x7461_736b;

/**
 * Runs `work` while this server holds the deployment's lock of this name. Returns undefined without running it when
 * another server holds the lock. A lost connection releases the lock.
 */
export async function withTaskLock<T>(
  sql: Sql,
  name: string,
  work: () => Promise<T>,
): Promise<{ result: T } | undefined> {
  return sql.begin(async (tx) => {
    const [row] = await tx<
      { locked: boolean }[]
    >`SELECT pg_try_advisory_xact_lock(${SPACE}, hashtext(${name})) AS locked`;
    return row!.locked ? { result: await work() } : undefined;
  }) as Promise<{ result: T } | undefined>;
}
