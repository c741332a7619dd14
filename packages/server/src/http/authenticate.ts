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

/** Finds the actor of a request. Throws `unauthenticated` if the route needs one and there is none. */
export type Authenticate = (key: RouteKey, def: RouteDef, request: FastifyRequest) => Promise<Actor>;

export function createAuthenticate({ services, sessions, pass }: AuthenticateParts): Authenticate {
  const operatorFor = operatorAccess(services);
  return async (key, def, request) => {
    const ownHosts = [new URL(services.accessUrl).host];
    if (request.headers.upgrade !== undefined) checkForgery(request, false, ownHosts);
    if (def.auth === 'optional') {
      const found = requestToken(request);
      // an expired session is as good as none
      const known = found && (await sessions.verify(found.token, pathOf(request)).catch(noneIfSignedOut));
      return known?.actor ?? { kind: 'none' };
    }
    if (def.auth === 'proxy') {
      const token = request.headers[PROXY_TOKEN_HEADER];
      return proxyOfToken(services, typeof token === 'string' ? token : undefined);
    }
    if (def.auth !== 'session') {
      // another site could sign the browser in as a person of its choice
      if (request.method !== 'GET' && request.method !== 'HEAD') checkOrigin(request, ownHosts);
      return { kind: 'none' };
    }
    const found = requestToken(request);
    if (!found) {
      const passed = await pass?.(key, request);
      if (passed) return passed;
      throw new AppError(
        'unauthenticated',
        'You are signed out or your session has expired. Please sign in again to continue.',
        {
          detail: 'No session token was sent: use the Coder-Session-Token header or the session cookie.',
        },
      );
    }
    checkForgery(request, found.fromCookie, ownHosts);
    const operator = found.fromCookie ? undefined : await operatorFor(key, found.token);
    if (operator) return operator;
    return (await sessions.verify(found.token, pathOf(request))).actor;
  };
}

const pathOf = ({ url }: FastifyRequest): string => url.replace(/[?#].*$/s, '');

/** Nobody, for a session that does not exist or has ended. */
export function noneIfSignedOut(err: unknown): undefined {
  if (!isAppError(err, 'unauthenticated')) throw err;
}
