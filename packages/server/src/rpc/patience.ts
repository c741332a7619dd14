import { AppError, type Logger, retry } from '@platform/kit';
import type { DrpcContext } from '@platform/wire/drpc';
import { isPgError, isUnreachable, NOT_IN_REPERTOIRE, UNTRANSLATABLE_CHARACTER } from '../db/connect.ts';

/** How long a call waits for the database. */
const PATIENCE_MS = 5 * 60_000;

const HOLDS_NUL =
  'A text contains a NUL character ("\\u0000"), which cannot be stored. Remove it, from the template for example.';

// biome-ignore lint/suspicious/noExplicitAny: handlers of any request
type Handler = (request: any, ctx: DrpcContext) => unknown;

/**
 * Wraps handlers of unary calls so that they wait while the database is unreachable instead of failing. A failed call
 * costs an agent its whole connection, with everyone who uses the workspace through it. It costs a daemon its job. A
 * call that was interrupted may write twice. `prepare` is called with each request first.
 */
export function patient<H extends { [K in keyof H]: Handler }>(
  handlers: H,
  log: Logger,
  prepare: (request: object) => void = () => {},
): H {
  const waiting = Object.entries<Handler>(handlers).map(([name, handler]) => [
    name,
    async (request: object, ctx: DrpcContext) => {
      prepare(request);
      try {
        return await handler(request, ctx);
      } catch (err) {
        // the signal and the retries are created only for calls that have to wait
        if (isPgError(err, UNTRANSLATABLE_CHARACTER) || isPgError(err, NOT_IN_REPERTOIRE))
          throw new AppError('invalid', HOLDS_NUL, { cause: err });
        if (!isUnreachable(err)) throw err;
        const signal = AbortSignal.any([ctx.signal, AbortSignal.timeout(PATIENCE_MS)]);
        return retry(async () => handler(request, ctx), {
          baseMs: 100,
          capMs: 2_000,
          signal,
          retryable: isUnreachable,
          onRetry: (_, waitMs) => log.debug('the database is unreachable: a call waits', { name, wait_ms: waitMs }),
        });
      }
    },
  ]);
  return Object.fromEntries(waiting) as H;
}
