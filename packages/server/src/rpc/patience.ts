import { AppError, type Logger } from '@platform/kit';
import type { DrpcContext } from '@platform/wire/drpc';
import { isPgError, NOT_IN_REPERTOIRE, UNTRANSLATABLE_CHARACTER } from '../db/connect.ts';
import { whenReachable } from '../db/when-reachable.ts';

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
      const onWait = (wait_ms: number) => log.debug('the database is unreachable: a call waits', { name, wait_ms });
      try {
        return await whenReachable(async () => handler(request, ctx), { signal: ctx.signal, onWait });
      } catch (err) {
        if (isPgError(err, UNTRANSLATABLE_CHARACTER) || isPgError(err, NOT_IN_REPERTOIRE))
          throw new AppError('invalid', HOLDS_NUL, { cause: err });
        throw err;
      }
    },
  ]);
  return Object.fromEntries(waiting) as H;
}
