import { type Logger, retry } from '@platform/kit';
import type { DrpcContext } from '@platform/wire/drpc';
import { isUnreachable } from '../../db/connect.ts';

/** So long a call waits for the database to come back. */
const PATIENCE_MS = 5 * 60_000;

type Handlers = Record<string, (request: never, ctx: DrpcContext) => unknown>;

/**
 * The same handlers, that wait for a database that is away instead of failing: a failed call costs the agent its whole
 * connection, and all who are in the workspace through it. What was cut off in the middle may be written twice.
 */
export function patient<H extends object>(handlers: H, log: Logger): H {
  const waiting = Object.entries(handlers as Handlers).map(([name, handler]) => [
    name,
    (request: never, ctx: DrpcContext) => {
      const signal = AbortSignal.any([ctx.signal, AbortSignal.timeout(PATIENCE_MS)]);
      return retry(async () => handler(request, ctx), {
        baseMs: 100,
        capMs: 2_000,
        signal,
        retryable: isUnreachable,
        onRetry: (_, waitMs) => log.debug('the database is away: a call of an agent waits', { name, wait_ms: waitMs }),
      });
    },
  ]);
  return Object.fromEntries(waiting) as H;
}
