import { AppError, type Logger } from '@ropewalk/kit';
import type { DrpcContext } from '@ropewalk/wire/drpc';
import { isPgError, isTransient, NOT_IN_REPERTOIRE, UNTRANSLATABLE_CHARACTER } from '../db/connect.ts';
import { whenReachable } from '../db/when-reachable.ts';

const HOLDS_NUL =
  'A text contains a NUL character ("\\u0000"), which cannot be stored. Remove it, from the template for example.';

// biome-ignore lint/suspicious/noExplicitAny: handlers of any request
type Handler = (request: any, ctx: DrpcContext) => unknown;

export interface PatientOptions {
  /** Called with each request first. */
  prepare?: (request: object) => void;
  /** Called when the database has failed for too long, before the call fails. */
  giveUp?: () => void;
  /** How long a call waits, in ms. Default: five minutes. */
  patienceMs?: number;
}

/**
 * Wraps handlers of unary calls so that they wait while the database is unreachable or fails, instead of failing. A
 * failed call costs an agent its whole connection, with everyone who uses the workspace through it. It costs an upstream
 * daemon its job. A call that was interrupted may write twice.
 */
export function patient<H extends { [K in keyof H]: Handler }>(
  handlers: H,
  log: Logger,
  { prepare = () => {}, giveUp = () => {}, patienceMs }: PatientOptions = {},
): H {
  const waiting = Object.entries<Handler>(handlers).map(([name, handler]) => [
    name,
    async (request: object, ctx: DrpcContext) => {
      prepare(request);
      const onWait = (wait_ms: number) =>
        log.debug('the database fails or is unreachable: a call waits', { name, wait_ms });
      try {
        const patience = { signal: ctx.signal, onWait, ...(patienceMs === undefined ? {} : { patienceMs }) };
        return await whenReachable(async () => handler(request, ctx), patience);
      } catch (err) {
        if (isTransient(err) && !ctx.signal.aborted) giveUp();
        if (isPgError(err, UNTRANSLATABLE_CHARACTER) || isPgError(err, NOT_IN_REPERTOIRE))
          throw new AppError('invalid', HOLDS_NUL, { cause: err });
        throw err;
      }
    },
  ]);
  return Object.fromEntries(waiting) as H;
}
