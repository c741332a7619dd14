import type { IncomingMessage } from 'node:http';
import { isAppError } from '@ropewalk/kit';
import { createWebConnectionLog } from '../../app/audit-entries/connection.ts';
import type { Services } from '../../app/context/context.ts';
import type { AppGrant, AppTokens } from '../../app/context/sealed-tokens.ts';
import type { Sessions } from '../../app/context/session.ts';
import { type AppAddress, subdomainOrigin, wildcardLabel } from '../../app/values/app-address.ts';
import { splitToken } from '../../app/values/token.ts';
import { explainAgent } from '../../app/workspace-app/explain.ts';
import type { AppGrants } from '../../app/workspace-app/grants.ts';
import { openSession, redeemHandover } from '../../app/workspace-app/sign-in.ts';
import { visitOf } from '../../app/workspace-app/usage.ts';
import type { Actor } from '../../authz/actor.ts';
import { SESSION_COOKIE, SESSION_HEADER } from '../auth.ts';
import type { ClientAddress } from '../client-address.ts';
import { cookieValue } from '../cookies.ts';
import { appCookie } from './cookies.ts';
import type { AppDoor } from './door.ts';
import { withoutHandover } from './handover.ts';
import { APP_SESSION_COOKIE, GRANT_COOKIE } from './headers.ts';
import type { AppPlace } from './place.ts';

export interface ServerDoorParts {
  services: Services;
  place: AppPlace;
  clientAddress: ClientAddress;
  sessions: Sessions;
  grants: AppGrants;
  tokens: AppTokens;
}

/** The door of a server: its database knows the visitors' sessions and what they may use. */
export class ServerDoor implements AppDoor {
  readonly redeemsOnPaths = false;
  readonly #parts: ServerDoorParts;
  readonly #recordConnection: ReturnType<typeof createWebConnectionLog>;

  constructor(parts: ServerDoorParts) {
    this.#parts = parts;
    this.#recordConnection = createWebConnectionLog(parts.services);
  }

  held(request: IncomingMessage, address: AppAddress): AppGrant | undefined {
    const token = cookieValue(request.headers.cookie, GRANT_COOKIE);
    return token === undefined ? undefined : this.#parts.grants.held(token, address);
  }

  /** The actor, by a session of this host or a header. Nobody if the session has ended. */
  async #actorOf(request: IncomingMessage, { kind, base }: AppAddress): Promise<Actor> {
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

  async enter(request: IncomingMessage, address: AppAddress): Promise<{ grant: AppGrant; cookie: string }> {
    const { services, grants, clientAddress } = this.#parts;
    const { grant, token } = await grants.ask(await this.#actorOf(request, address), address);
    const client = { ip: clientAddress(request), userAgent: request.headers['user-agent'] ?? '' };
    this.#recordConnection(visitOf(grant, address.app, client));
    const left = grant.expires - services.clock.now().getTime();
    const path = address.kind === 'path' ? `${address.base}/` : '/';
    return { grant, cookie: this.#cookie(GRANT_COOKIE, { value: token, path, maxAgeMs: left }) };
  }

  forAnyone(address: AppAddress): Promise<AppGrant | undefined> {
    return this.#parts.grants.askForAnyone(address);
  }

  async redeem(request: IncomingMessage, handover: string, { base }: AppAddress): Promise<string> {
    const { services, tokens, clientAddress } = this.#parts;
    const made = await redeemHandover(services, tokens, { host: base, text: handover, ip: clientAddress(request) });
    return this.#cookie(APP_SESSION_COOKIE, { value: made.sealed, path: '/', maxAgeMs: made.lifetimeMs });
  }

  watch(grant: AppGrant, address: AppAddress, end: () => void): () => void {
    return this.#parts.grants.watch(grant, address, end);
  }

  explainAgent({ agent }: AppGrant) {
    return explainAgent(this.#parts.services, agent);
  }

  close(): void {
    this.#parts.grants.close();
  }

  #cookie(name: string, cookie: Parameters<typeof appCookie>[1]): string {
    return appCookie(name, cookie, this.#parts.place.isSecure);
  }

  signInAddress(request: IncomingMessage, { kind, base }: AppAddress): string {
    if (kind === 'path') return `/login?redirect=${encodeURIComponent(request.url!)}`;
    const { accessUrl, wildcard } = this.#parts.place;
    const label = wildcardLabel(wildcard!, base)!;
    const back = `${subdomainOrigin(wildcard!, accessUrl, label)}${withoutHandover(request.url!).rest}`;
    return `${accessUrl}/api/v2/applications/auth-redirect?redirect_uri=${encodeURIComponent(back)}`;
  }
}
