import type { IncomingMessage } from 'node:http';
import type { IssueTokenRequest, RedeemSignInRequest, RedeemSignInResponse } from '@ropewalk/contract';
import { AppError, type Clock, isAppError } from '@ropewalk/kit';
import { VISITOR_HEADER } from '@ropewalk/wire/proxy-link';
import type { AppGrant } from '../app/context/sealed-tokens.ts';
import { type AppAddress, hostName, subdomainOrigin, wildcardLabel } from '../app/values/app-address.ts';
import { splitToken } from '../app/values/token.ts';
import { appCookie } from '../http/apps/cookies.ts';
import type { AppDoor } from '../http/apps/door.ts';
import { withoutHandover } from '../http/apps/handover.ts';
import { APP_SESSION_COOKIE, GRANT_COOKIE } from '../http/apps/headers.ts';
import type { AppPlace } from '../http/apps/place.ts';
import type { ClientAddress } from '../http/client-address.ts';
import { cookieValue } from '../http/cookies.ts';
import type { ProxyGrants } from './grants.ts';
import type { ProxyAddresses } from './options.ts';
import type { Primary } from './primary.ts';
import type { VerificationKeys } from './verification-keys.ts';

export interface ProxyDoorParts {
  addresses: ProxyAddresses;
  place: AppPlace;
  clientAddress: ClientAddress;
  primary: Primary;
  keys: VerificationKeys;
  grants: ProxyGrants;
  clock: Clock;
}

/** The door of a workspace proxy: a server decides, and the proxy verifies its grants. */
export class ProxyDoor implements AppDoor {
  readonly redeemsOnPaths = true;
  readonly #parts: ProxyDoorParts;

  constructor(parts: ProxyDoorParts) {
    this.#parts = parts;
  }

  held(request: IncomingMessage, address: AppAddress): AppGrant | undefined {
    const token = cookieValue(request.headers.cookie, GRANT_COOKIE);
    return token === undefined ? undefined : this.#parts.grants.of(token, address);
  }

  async enter(request: IncomingMessage, address: AppAddress): Promise<{ grant: AppGrant; cookie: string }> {
    const token = await this.#ask(address, sessionOf(request), this.#visitor(request));
    const grant = await this.#grantOf(token, address);
    const left = grant.expires - this.#parts.clock.now().getTime();
    const path = address.kind === 'path' ? `${address.base}/` : '/';
    return { grant, cookie: this.#cookie(GRANT_COOKIE, { value: token, path, maxAgeMs: left }) };
  }

  async forAnyone(address: AppAddress): Promise<AppGrant | undefined> {
    try {
      return await this.#grantOf(await this.#ask(address, '', {}), address);
    } catch (err) {
      if (isAppError(err)) return undefined;
      throw err;
    }
  }

  async redeem(request: IncomingMessage, handover: string, { kind, base }: AppAddress): Promise<string> {
    const { primary, addresses } = this.#parts;
    const host = kind === 'subdomain' ? base : hostName(new URL(addresses.accessUrl).host);
    const body: RedeemSignInRequest = { handover, host };
    const made = await primary
      .call<RedeemSignInResponse>('POST', '/redeem-sign-in', { body, headers: this.#visitor(request) })
      .catch((err) => {
        // signing in again would bring the browser back with the same result
        if (!isAppError(err, 'unauthenticated')) throw err;
        throw new AppError('forbidden', err.message, err.detail === undefined ? {} : { detail: err.detail });
      });
    return this.#cookie(APP_SESSION_COOKIE, { value: made.session, path: '/', maxAgeMs: made.lifetime_ms });
  }

  signInAddress(request: IncomingMessage, { kind, base }: AppAddress): string {
    const { place, addresses } = this.#parts;
    const origin =
      kind === 'path'
        ? addresses.accessUrl
        : subdomainOrigin(place.wildcard!, addresses.accessUrl, wildcardLabel(place.wildcard!, base)!);
    const back = `${origin}${withoutHandover(request.url!).rest}`;
    return `${addresses.primaryUrl}/api/v2/applications/auth-redirect?redirect_uri=${encodeURIComponent(back)}`;
  }

  watch(grant: AppGrant, _address: AppAddress, end: () => void): () => void {
    return this.#parts.grants.watch(grant, end);
  }

  /** The server's rejection of the stream has the reason. */
  async explainAgent(): Promise<undefined> {}

  close(): void {
    this.#parts.grants.close();
  }

  #visitor(request: IncomingMessage): Record<string, string> {
    const agent = request.headers['user-agent'];
    return { [VISITOR_HEADER]: this.#parts.clientAddress(request), ...(agent ? { 'User-Agent': agent } : {}) };
  }

  async #ask(address: AppAddress, session: string, headers: Record<string, string>): Promise<string> {
    const { primary, addresses } = this.#parts;
    const { kind, base, user, workspace, agent, app } = address;
    const body: IssueTokenRequest = {
      app_request: {
        access_method: kind,
        base_path: kind === 'path' ? base : '/',
        username_or_id: user,
        workspace_name_or_id: workspace,
        agent_name_or_id: agent,
        app_slug_or_port: app,
      },
      path_app_base_url: addresses.accessUrl,
      app_hostname: addresses.wildcardHostname,
      session_token: session,
    };
    return primary.issue(body, { headers });
  }

  async #grantOf(token: string, address: AppAddress): Promise<AppGrant> {
    const { keys, grants } = this.#parts;
    await keys.readFresh(token);
    const grant = grants.of(token, address);
    if (grant) return grant;
    throw new AppError('unavailable', 'This workspace proxy does not accept what its server signed.', {
      detail: 'Their clocks differ, or the server is another one. The health page of the server may show which.',
    });
  }

  #cookie(name: string, cookie: Parameters<typeof appCookie>[1]): string {
    return appCookie(name, cookie, this.#parts.place.isSecure);
  }
}

/** A session token as programs send it, or what the server sealed for this host. Empty without one. */
export function sessionOf({ headers }: IncomingMessage): string {
  const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1];
  const header = headers['coder-session-token'];
  const sent = [typeof header === 'string' ? header : undefined, bearer].find((text) => text && splitToken(text));
  return sent ?? cookieValue(headers.cookie, APP_SESSION_COOKIE) ?? '';
}
