import type { RouteDef, RouteKey } from '@ropewalk/contract';
import { AppError, isAppError } from '@ropewalk/kit';
import { PROXY_TOKEN_HEADER } from '@ropewalk/wire/proxy-link';
import type { FastifyRequest } from 'fastify';
import type { Services } from '../app/context/context.ts';
import type { Sessions } from '../app/context/session.ts';
import { operatorAccess } from '../app/provisioner/operator-access.ts';
import { proxyOfToken } from '../app/workspace-proxy/credential.ts';
import type { Actor } from '../authz/actor.ts';
import { checkForgery, checkOrigin, requestToken } from './auth.ts';

export interface AuthenticateParts {
  services: Services;
  sessions: Sessions;
  /** Authenticates requests that use another credential instead of a session token. */
  pass?: ((route: RouteKey, request: FastifyRequest) => Promise<Actor | undefined>) | undefined;
}

/**
 * Finds the actor of a request. Throws or rejects with `unauthenticated` if the route needs one and there is none. A session that
 * was verified a moment ago needs no promise, which nearly every request would otherwise wait for.
 */
export type Authenticate = (key: RouteKey, def: RouteDef, request: FastifyRequest) => Actor | Promise<Actor>;

export function createAuthenticate({ services, sessions, pass }: AuthenticateParts): Authenticate {
  const operatorFor = operatorAccess(services);

  const visitor = async (request: FastifyRequest): Promise<Actor> => {
    const found = requestToken(request);
    // an expired session is as good as none
    const known = found && (await sessions.verify(found.token, request.url).catch(noneIfSignedOut));
    return known?.actor ?? { kind: 'none' };
  };

  const withoutToken = async (key: RouteKey, request: FastifyRequest): Promise<Actor> => {
    const passed = await pass?.(key, request);
    if (passed) return passed;
    throw new AppError(
      'unauthenticated',
      'You are signed out or your session has expired. Please sign in again to continue.',
      { detail: 'No session token was sent: use the Coder-Session-Token header or the session cookie.' },
    );
  };

  const verified = async (token: string, path: string): Promise<Actor> => (await sessions.verify(token, path)).actor;

  return (key, def, request) => {
    if (request.headers.upgrade !== undefined) checkForgery(request, false, services.accessUrl);
    if (def.auth === 'optional') return visitor(request);
    if (def.auth === 'proxy') {
      const token = request.headers[PROXY_TOKEN_HEADER];
      return proxyOfToken(services, typeof token === 'string' ? token : undefined);
    }
    if (def.auth !== 'session') {
      // another site could sign the browser in as a person of its choice
      if (request.method !== 'GET' && request.method !== 'HEAD') checkOrigin(request, services.accessUrl);
      return { kind: 'none' };
    }
    const found = requestToken(request);
    if (!found) return withoutToken(key, request);
    checkForgery(request, found.fromCookie, services.accessUrl);
    const operator = found.fromCookie ? undefined : operatorFor(key, found.token);
    if (operator) return operator;
    return sessions.remembered(found.token, request.url)?.actor ?? verified(found.token, request.url);
  };
}

/** Nobody, for a session that does not exist or has ended. */
export function noneIfSignedOut(err: unknown): undefined {
  if (!isAppError(err, 'unauthenticated')) throw err;
}
