import { retry } from '@ropewalk/kit';
import { INTERNAL_ERROR, isPgError, isTransient } from './connect.ts';

/** How long to wait for the database. */
const PATIENCE_MS = 5 * 60_000;
/** How often to run again after an error within PostgreSQL, which may be damaged data. */
const MAX_INTERNAL_ERRORS = 5;

export interface Patience {
  /** Ends the wait. */
  signal?: AbortSignal;
  /** How long to wait, in ms. Default: five minutes. */
  patienceMs?: number;
  onWait?: (waitMs: number) => void;
}

/**
 * Runs it, and again while the database is unreachable or fails for an internal reason, for up to five minutes. An
 * interrupted run may have written, so a run that writes must be able to run twice. Ends immediately when this server has
 * closed its own connections.
 */
export async function whenReachable<T>(
  run: () => Promise<T>,
  { signal, patienceMs = PATIENCE_MS, onWait }: Patience = {},
): Promise<T> {
  try {
    return await run();
  } catch (err) {
    let internal = isPgError(err, INTERNAL_ERROR) ? 1 : 0;
    // the signal and the retries are created only for those who have to wait
    if (!isTemporary(err)) throw err;
    const limit = AbortSignal.timeout(patienceMs);
    let last = err;
    const again = retry(run, {
      baseMs: 100,
      capMs: 2_000,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      retryable: (later) => {
        last = later;
        if (isPgError(later, INTERNAL_ERROR)) internal += 1;
        return isTemporary(later) && internal <= MAX_INTERNAL_ERRORS;
      },
      ...(onWait ? { onRetry: (_, waitMs) => onWait(waitMs) } : {}),
    });
    return again.catch((reason) => {
      throw limit.aborted && !signal?.aborted ? last : reason;
    });
  }
}

const isTemporary = (err: unknown): boolean =>
  isTransient(err) && (err as { code?: string }).code !== 'CONNECTION_ENDED';
