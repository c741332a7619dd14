import { retry } from '@platform/kit';
import { isUnreachable } from './connect.ts';

/** How long to wait for the database. */
const PATIENCE_MS = 5 * 60_000;

export interface Patience {
  /** Ends the wait. */
  signal?: AbortSignal;
  onWait?: (waitMs: number) => void;
}

/**
 * Runs it, and again while the database is unreachable, for up to five minutes. An interrupted run may have written, so
 * a run that writes must be able to run twice. Ends at once when this server has closed its own connections.
 */
export async function whenReachable<T>(run: () => Promise<T>, { signal, onWait }: Patience = {}): Promise<T> {
  try {
    return await run();
  } catch (err) {
    // the signal and the retries are created only for those who have to wait
    if (!isTemporary(err)) throw err;
    const limit = AbortSignal.timeout(PATIENCE_MS);
    return retry(run, {
      baseMs: 100,
      capMs: 2_000,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      retryable: isTemporary,
      ...(onWait ? { onRetry: (_, waitMs) => onWait(waitMs) } : {}),
    });
  }
}

const isTemporary = (err: unknown): boolean =>
  isUnreachable(err) && (err as { code?: string }).code !== 'CONNECTION_ENDED';
