/**
 * Limits the requests of a *caller* to each route: a signed-in person, or else the network of the client's address. Agents
 * and daemons have their own budgets. The window slides: requests of the previous minute count for the share of it
 * that is still within 60 seconds. All counts are in this server's memory.
 */
import type { RouteKey } from '@ropewalk/contract';
import { AppError, type Clock } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { UserActor } from '../authz/actor.ts';
import type { Config } from '../config/options.ts';

const WINDOW_MS = 60_000;
/** The maximum number of counts of one minute. Beyond them, the oldest are forgotten. */
const MAX_COUNTS = 100_000;

/** The requests per minute to routes that are expensive or store data, whatever --api-rate-limit says. */
const OWN_LIMITS: Readonly<Record<string, number>> = {
  'POST /files': 12,
  'GET /files/{fileID}': 12,
  'POST /oauth2/register': 12,
} satisfies Partial<Record<RouteKey | 'POST /oauth2/register', number>>;

/** The routes that --workspace-creation-rate-limit limits. */
const CREATIONS: ReadonlySet<string> = new Set<RouteKey>([
  'POST /users/{user}/workspaces',
  'POST /organizations/{organization}/members/{user}/workspaces',
]);

/** Owners send it with `true` for load tests. */
const BYPASS_HEADER = 'x-coder-bypass-ratelimit';

export interface RateLimit {
  /**
   * Counts a request to a route, such as `POST /files`, and reports the limit in its answer's headers.
   * @throws AppError `rate_limited` beyond the limit, `forbidden` if somebody else than an owner asks to bypass it
   */
  count(route: string, caller: UserActor | { network: string }, request: FastifyRequest, reply: FastifyReply): void;
}

export function createRateLimit(
  config: Pick<Config, 'apiRateLimit' | 'dangerousDisableRateLimits' | 'workspaceCreationRateLimit'>,
  clock: Clock,
): RateLimit {
  if (config.dangerousDisableRateLimits) return { count: () => {} };
  const { workspaceCreationRateLimit: creations } = config;
  let minute = 0;
  let current = new Map<string, number>();
  let previous = new Map<string, number>();

  /** Moves to the current minute and returns how much of it has passed, from 0 to 1. */
  function advance(): number {
    const now = clock.monotonic() / WINDOW_MS;
    const latest = Math.floor(now);
    if (latest !== minute) {
      previous = latest === minute + 1 ? current : new Map();
      current = new Map();
      minute = latest;
    }
    return now - latest;
  }

  return {
    count(route, caller, request, reply) {
      if (/^(1|t|true)$/i.test(String(request.headers[BYPASS_HEADER] ?? ''))) {
        if ('roles' in caller && caller.roles.includes('owner')) return;
        throw new AppError('forbidden', 'Only owners can bypass the rate limit. Remove X-Coder-Bypass-Ratelimit.');
      }
      const limit =
        CREATIONS.has(route) && creations > 0 ? creations : (ownValue(OWN_LIMITS, route) ?? config.apiRateLimit);
      if (limit <= 0) return;
      const passed = advance();
      const key = `${'id' in caller ? caller.id : caller.network} ${route}`;
      const count = current.get(key) ?? 0;
      const used = count + Math.floor((previous.get(key) ?? 0) * (1 - passed));
      const left = Math.ceil(((1 - passed) * WINDOW_MS) / 1_000);
      reply.headers({
        'X-RateLimit-Limit': limit,
        'X-RateLimit-Remaining': Math.max(0, limit - used - 1),
        'X-RateLimit-Reset': Math.ceil(clock.now().getTime() / 1_000) + left,
      });
      if (used >= limit) {
        reply.header('Retry-After', left);
        throw new AppError('rate_limited', `You've been rate limited. Try again in ${left} seconds.`);
      }
      if (count === 0 && current.size >= MAX_COUNTS) current.delete(current.keys().next().value!);
      current.set(key, count + 1);
    },
  };
}
