import type { IncomingMessage } from 'node:http';
import { isAppError } from '@ropewalk/kit';
import type { Services } from '../../app/context/context.ts';
import type { AppGrant, AppTokens } from '../../app/context/sealed-tokens.ts';
import type { Sessions } from '../../app/context/session.ts';
import { type AppAddress, subdomainOrigin, type Wildcard, wildcardLabel } from '../../app/values/app-address.ts';
import { splitToken } from '../../app/values/token.ts';
import type { AppGrants } from '../../app/workspace-app/grants.ts';
import { openSession, redeemHandover, SIGN_IN_PARAMETER } from '../../app/workspace-app/sign-in.ts';
import type { Actor } from '../../authz/actor.ts';
import { SESSION_COOKIE, SESSION_HEADER } from '../auth.ts';
import { cookieValue } from '../cookies.ts';
import { APP_SESSION_COOKIE, GRANT_COOKIE } from './headers.ts';

export interface VisitorParts {
  services: Services;
  sessions: Sessions;
  grants: AppGrants;
  tokens: AppTokens;
  wildcard: Wildcard | undefined;
}

/** The visitors of apps: their sessions and grants, the cookies that hold these, and where they sign in. */
export class AppVisitors {
  readonly #parts: VisitorParts;

  constructor(parts: VisitorParts) {
    this.#parts = parts;
  }

  /** Whether browsers reach this server and its apps over TLS. */
  isSecure(): boolean {
    const { services, wildcard } = this.#parts;
    return services.config.secureAuthCookie || services.accessUrl.startsWith('https:') || wildcard?.scheme === 'https';
  }

  heldGrant(request: IncomingMessage, address: AppAddress): AppGrant | undefined {
    const token = cookieValue(request.headers.cookie, GRANT_COOKIE);
    return token === undefined ? undefined : this.#parts.grants.held(token, address);
  }

  /** The actor, by a session of this host or a header. Nobody if the session has ended. */
  async actorOf(request: IncomingMessage, { kind, base }: AppAddress): Promise<Actor> {
    const { cookie, authorization } = request.headers;
    const bearer = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1];
    const header = request.headers[SESSION_HEADER];
    const found = [
      kind === 'path'
        ? cookieValue(cookie, SESSION_COOKIE)
        : openSession(this.#parts.tokens, base, cookieValue(cookie, APP_SESSION_COOKIE)),
      typeof header === 'string' ? header : undefined,
      bearer,
    ].find((text) => text !== undefined && splitToken(text));
    if (!found) return { kind: 'none' };
    try {
      return (await this.#parts.sessions.verify(found)).actor;
    } catch (err) {
      if (isAppError(err, 'unauthenticated')) return { kind: 'none' };
      throw err;
    }
  }

  /** Starts the session at an app's host for a browser that comes back from signing in. Returns its cookie. */
  async redeem(handover: string, { base }: AppAddress, ip: string): Promise<string> {
    const { services, tokens } = this.#parts;
    const made = await redeemHandover(services, tokens, { host: base, text: handover, ip });
    return this.#cookie(APP_SESSION_COOKIE, made.sealed, '/', made.lifetimeMs);
  }

  grantCookie({ base, kind }: AppAddress, grant: AppGrant, token: string): string {
    const left = grant.expires - this.#parts.services.clock.now().getTime();
    return this.#cookie(GRANT_COOKIE, token, kind === 'path' ? `${base}/` : '/', left);
  }

  #cookie(name: string, value: string, path: string, maxAgeMs: number): string {
    const secure = this.isSecure() ? '; Secure' : '';
    return `${name}=${value}; Path=${path}; Max-Age=${Math.floor(maxAgeMs / 1000)}; HttpOnly; SameSite=Lax${secure}`;
  }

  /** The address where a browser signs in and from which it comes back. */
  signInAddress(request: IncomingMessage, { kind, base }: AppAddress): string {
    if (kind === 'path') return `/login?redirect=${encodeURIComponent(request.url!)}`;
    const { services } = this.#parts;
    const wildcard = this.#parts.wildcard!;
    const label = wildcardLabel(wildcard, base)!;
    const back = `${subdomainOrigin(wildcard, services.accessUrl, label)}${withoutHandover(request.url!).rest}`;
    return `${services.accessUrl}/api/v2/applications/auth-redirect?redirect_uri=${encodeURIComponent(back)}`;
  }
}

/** Removes the handover of a sign-in from a request target. */
export function withoutHandover(target: string): { handover: string | undefined; rest: string } {
  if (!target.includes(SIGN_IN_PARAMETER)) return { handover: undefined, rest: target };
  const at = target.indexOf('?');
  const parts = target.slice(at + 1).split('&');
  const mine = `${SIGN_IN_PARAMETER}=`;
  const kept = parts.filter((part) => !part.startsWith(mine));
  const handover = parts.find((part) => part.startsWith(mine))?.slice(mine.length);
  return { handover, rest: target.slice(0, at) + (kept.length > 0 ? `?${kept.join('&')}` : '') };
}
