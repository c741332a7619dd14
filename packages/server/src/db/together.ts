import { IN_FAILED_TRANSACTION, isPgError } from './connect.ts';

/**
 * Runs independent steps of one transaction at the same time, so that their statements share round trips. The database executes the
 * statements in the order in which they are sent. Resolves or rejects when every step has ended: one that went on after
 * the transaction would write outside of it, which `Promise.all` allows.
 * @throws the error of the first step that failed by itself. A failed statement makes the later ones of all steps fail.
 */
export async function together<const T extends readonly unknown[]>(
  steps: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const ended = await Promise.allSettled(steps);
  const failed = ended.filter((one) => one.status === 'rejected').map(({ reason }) => reason as unknown);
  if (failed.length > 0) throw failed.find((reason) => !isPgError(reason, IN_FAILED_TRANSACTION)) ?? failed[0];
  return ended.map((one) => (one as PromiseFulfilledResult<unknown>).value) as never;
}
