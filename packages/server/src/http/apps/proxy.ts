import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, isAppError } from '@ropewalk/kit';
import type { Services } from '../../app/context/context.ts';
import type { AppGrant, AppTokens } from '../../app/context/sealed-tokens.ts';
import type { Sessions } from '../../app/context/session.ts';
import { createWebConnectionLog } from '../../app/record/connection.ts';
import {
  type AppAddress,
  climbs,
  hostName,
  isPathAppTarget,
  parseAppHost,
  parseAppPath,
  parsePort,
  parseWildcard,
  subdomainOrigin,
  targetPath,
  type Wildcard,
  wildcardLabel,
} from '../../app/values/app-address.ts';
import { networkOf } from '../../app/values/network.ts';
import { splitToken } from '../../app/values/token.ts';
import { explainAgent } from '../../app/workspace-app/explain.ts';
import type { AppGrants } from '../../app/workspace-app/grants.ts';
import { openSession, redeemHandover, SIGN_IN_PARAMETER } from '../../app/workspace-app/sign-in.ts';
import type { Actor } from '../../authz/actor.ts';
import { SESSION_COOKIE, SESSION_HEADER } from '../auth.ts';
import type { ClientAddress } from '../client-address.ts';
import { cookieValue } from '../cookies.ts';
import { statusOf, toAppError } from '../errors.ts';
import type { StreamLimits } from '../stream-limits.ts';
import { createForwarder, type Plan, refusalOf } from './forward.ts';
import { APP_SESSION_COOKIE, GRANT_COOKIE, withoutTokens } from './headers.ts';
import { preflight, sharesOwner, withCors } from './origins.ts';
import { type Refusal, refuse, wantsHtml } from './pages.ts';
import type { Dial } from './pool.ts';

export interface AppProxyOptions {
  services: Services;
  clientAddress: ClientAddress;
  sessions: Sessions;
  grants: AppGrants;
  tokens: AppTokens;
  dial: Dial;
  streams: StreamLimits;
  /** How long an app may take until it answers, in ms. */
  answerMs?: number;
}

/** Serves the requests for apps before the API receives them. */
export interface AppProxy {
  /** Returns whether the request was for an app. */
  request(request: IncomingMessage, response: ServerResponse): boolean;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  close(): void;
}

type Seen = { address: AppAddress; rest: string } | { refusal: Refusal };

const MAX_HOSTS = 2_000;
/** No host name with its port is longer. Longer ones are not cached. */
const LONGEST_HOST = 260;
const NO_APP: Refusal = {
  status: 404,
  title: 'There is no such app.',
  detail: 'This address serves only workspace apps.',
};

/** @throws AppError `invalid` if --wildcard-access-url is not a pattern */
export function createAppProxy(options: AppProxyOptions): AppProxy {
  const { services, clientAddress, sessions, grants, tokens, streams } = options;
  const { config, log } = services;
  const forwarder = createForwarder(options.dial, options.answerMs === undefined ? {} : { answerMs: options.answerMs });
  const wildcard = config.wildcardAccessUrl === '' ? undefined : parseWildcard(config.wildcardAccessUrl);
  if (config.wildcardAccessUrl !== '' && !wildcard) {
    throw new AppError(
      'invalid',
      `--wildcard-access-url must be a pattern like *.apps.example.com, not ${JSON.stringify(config.wildcardAccessUrl)}.`,
    );
  }
  const recordConnection = createWebConnectionLog(services);
  const hosts = new Map<string, AppAddress | 'api' | 'nothing'>();
  const secure = () =>
    config.secureAuthCookie || services.accessUrl.startsWith('https:') || wildcard?.scheme === 'https';

  function ofHost(pattern: Wildcard, host: string): AppAddress | 'api' | 'nothing' {
    let found = hosts.get(host);
    if (found === undefined) {
      const ours = hostName(host) === hostName(new URL(services.accessUrl).host);
      if (ours || wildcardLabel(pattern, host) === undefined) found = 'api';
      else found = parseAppHost(pattern, host) ?? 'nothing';
      if (hosts.size >= MAX_HOSTS) hosts.clear();
      if (host.length <= LONGEST_HOST) hosts.set(host, found);
    }
    return found;
  }

  /** The app that a request is for. Undefined if the request is not for an app. */
  function see(request: IncomingMessage): Seen | undefined {
    let target = request.url!;
    const host = request.headers.host ?? '';
    if (!target.startsWith('/') && target !== '*') {
      const url = URL.canParse(target) ? new URL(target) : undefined;
      if (url?.host.toLowerCase() !== host.toLowerCase() || !/^https?:$/.test(url.protocol)) {
        return { refusal: { status: 400, title: 'The request names two hosts.' } };
      }
      target = target.replace(/^[^:]+:\/\/[^/?]*/, '');
      if (!target.startsWith('/')) target = `/${target}`;
      request.url = target;
    }
    const of = wildcard ? ofHost(wildcard, host) : 'api';
    if (of === 'nothing') return { refusal: NO_APP };
    if (of !== 'api') {
      const doubled = request.rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length > 1;
      if (doubled || target === '*') return { refusal: { status: 400, title: 'The request could not be read.' } };
      return { address: of, rest: target };
    }
    if (!target.startsWith('/@') || !isPathAppTarget(target)) return undefined;
    if (config.disablePathApps) {
      return {
        refusal: {
          status: 404,
          title: 'Path apps are switched off here.',
          detail: 'Open the app at its own host name.',
        },
      };
    }
    if (climbs(target)) return { refusal: { status: 400, title: 'The path leads out of the app.' } };
    return parseAppPath(target) ?? { refusal: NO_APP };
  }

  function heldGrant(request: IncomingMessage, address: AppAddress): AppGrant | undefined {
    const token = cookieValue(request.headers.cookie, GRANT_COOKIE);
    return token === undefined ? undefined : grants.held(token, address);
  }

  /** The actor, by a session of this host or a header. Nobody if the session has ended. */
  async function actorOf(request: IncomingMessage, { kind, base }: AppAddress): Promise<Actor> {
    const { cookie, authorization } = request.headers;
    const bearer = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1];
    const header = request.headers[SESSION_HEADER];
    const found = [
      kind === 'path'
        ? cookieValue(cookie, SESSION_COOKIE)
        : openSession(tokens, base, cookieValue(cookie, APP_SESSION_COOKIE)),
      typeof header === 'string' ? header : undefined,
      bearer,
    ].find((text) => text !== undefined && splitToken(text));
    if (!found) return { kind: 'none' };
    try {
      return (await sessions.verify(found)).actor;
    } catch (err) {
      if (isAppError(err, 'unauthenticated')) return { kind: 'none' };
      throw err;
    }
  }

  const cookie = (name: string, value: string, path: string, maxAgeMs: number) =>
    `${name}=${value}; Path=${path}; Max-Age=${Math.floor(maxAgeMs / 1000)}; HttpOnly; SameSite=Lax${secure() ? '; Secure' : ''}`;

  function grantCookie({ base, kind }: AppAddress, grant: AppGrant, token: string): string {
    const left = grant.expires - services.clock.now().getTime();
    return cookie(GRANT_COOKIE, token, kind === 'path' ? `${base}/` : '/', left);
  }

  function planFor(
    request: IncomingMessage,
    { address, rest }: { address: AppAddress; rest: string },
    grant: AppGrant,
    answerHeaders: string[],
  ): Plan {
    const host = request.headers.host ?? '';
    return {
      target: grant,
      kind: address.kind,
      path: targetPath(address, grant, withoutTokens(rest)),
      forwardedFor: [...new Set([clientAddress(request), request.socket.remoteAddress ?? ''])].join(', '),
      host,
      hostName: hostName(host),
      proto: secure() ? 'https' : 'http',
      answerHeaders,
      cors: withCors(wildcard, request, address),
      async explain(err) {
        // the agent may be disconnected, for a known reason
        const why = isAppError(err, 'unavailable')
          ? await explainAgent(services, grant.agent).catch(() => undefined)
          : undefined;
        return why ? { status: 502, ...why } : refusalOf(err);
      },
    };
  }

  /** The answer that the server gives instead of the app, if any. */
  function before(request: IncomingMessage, { address, rest }: { address: AppAddress; rest: string }, grant: AppGrant) {
    if (!sharesOwner(wildcard, services.accessUrl, request, address) && grant.user !== '') {
      return {
        status: 403,
        title: 'Requests from another site are not allowed.',
        detail: `Origin: ${request.headers.origin}`,
      };
    }
    if (grant.path !== '' && climbs(rest)) return { status: 400, title: 'The path leads out of the app.' };
    if (grant.query !== '' && rest === '/' && request.method === 'GET' && request.headers.upgrade === undefined) {
      return { location: `${address.kind === 'path' ? address.base : ''}/${grant.query}` };
    }
    return undefined;
  }

  function redirect(response: ServerResponse, location: string, headers: Record<string, string> = {}): void {
    response
      .writeHead(307, { Location: location, 'Cache-Control': 'no-store', 'Content-Length': '0', ...headers })
      .end();
  }

  function failed(request: IncomingMessage, response: ServerResponse, address: AppAddress, thrown: unknown): void {
    const err = toAppError(thrown, log, { app: address.base });
    if (err.code === 'unauthenticated' && wantsHtml(request) && request.method === 'GET' && !request.headers.upgrade) {
      redirect(response, signIn(request, address));
      return;
    }
    refuse(request, response, {
      status: statusOf[err.code],
      title: err.message,
      detail: err.detail,
      ...(err.code === 'unavailable' || err.code === 'not_found'
        ? { link: { url: `${services.accessUrl}/`, text: 'Go to the dashboard' } }
        : {}),
    });
  }

  /** The address where a browser signs in and from which it comes back. */
  function signIn(request: IncomingMessage, { kind, base }: AppAddress): string {
    if (kind === 'path') return `/login?redirect=${encodeURIComponent(request.url!)}`;
    const label = wildcardLabel(wildcard!, base)!;
    const back = `${subdomainOrigin(wildcard!, services.accessUrl, label)}${withoutHandover(request.url!).rest}`;
    return `${services.accessUrl}/api/v2/applications/auth-redirect?redirect_uri=${encodeURIComponent(back)}`;
  }

  /** `viewer`: the person's id, or empty for a visitor without a session. */
  type Carry = (plan: Plan, done: () => void, viewer: string) => () => void;

  async function slow(
    request: IncomingMessage,
    response: ServerResponse,
    seen: Exclude<Seen, { refusal: Refusal }>,
    carry: Carry,
  ) {
    const { address } = seen;
    try {
      const { handover, rest } = withoutHandover(seen.rest);
      if (address.kind === 'subdomain' && handover !== undefined) {
        const ip = clientAddress(request);
        const made = await redeemHandover(services, tokens, { host: address.base, text: handover, ip });
        // two slashes would name another host
        return redirect(response, rest.replace(/^[/\\]+/, '/'), {
          'Set-Cookie': cookie(APP_SESSION_COOKIE, made.sealed, '/', made.lifetimeMs),
          'Referrer-Policy': 'no-referrer',
        });
      }
      const actor = await actorOf(request, address);
      const { grant, token } = await grants.ask(actor, address);
      recordConnection({
        workspaceId: grant.workspace,
        agentId: grant.agent,
        app: address.app,
        isPort: parsePort(address.app) !== undefined,
        userId: grant.user || null,
        ip: clientAddress(request),
        userAgent: request.headers['user-agent'] ?? '',
      });
      if (response.destroyed) return;
      go(request, response, seen, grant, ['Set-Cookie', grantCookie(address, grant, token)], carry);
    } catch (err) {
      failed(request, response, address, err);
    }
  }

  function go(
    request: IncomingMessage,
    response: ServerResponse,
    seen: Exclude<Seen, { refusal: Refusal }>,
    grant: AppGrant,
    headers: string[],
    carry: Carry,
  ): void {
    const first = before(request, seen, grant);
    if (first) {
      if ('location' in first)
        redirect(response, first.location!, headers.length > 0 ? { 'Set-Cookie': headers[1]! } : {});
      else refuse(request, response, first);
      return;
    }
    let over = false;
    let release: (() => void) | undefined;
    const done = () => {
      over = true;
      release?.();
    };
    const cut = carry(planFor(request, seen, grant, headers), done, grant.user);
    if (!over) release = grants.watch(grant, seen.address, cut);
  }

  function take(request: IncomingMessage, response: ServerResponse, seen: Seen, carry: Carry): void {
    if ('refusal' in seen) {
      refuse(request, response, seen.refusal);
      return;
    }
    const { address, rest } = seen;
    if (address.kind === 'path' && !rest.startsWith('/')) {
      redirect(response, `${address.base}/${rest}`);
      return;
    }
    const allowed = preflight(wildcard, request, address);
    if (allowed) {
      response.writeHead(204, allowed).end();
      return;
    }
    const grant = rest.includes(SIGN_IN_PARAMETER) ? undefined : heldGrant(request, address);
    if (!grant) {
      void slow(request, response, seen, carry);
      return;
    }
    try {
      go(request, response, seen, grant, [], carry);
    } catch (err) {
      failed(request, response, address, err);
    }
  }

  return {
    request(request, response) {
      const seen = see(request);
      if (!seen) return false;
      take(request, response, seen, (plan, done) => forwarder.request(request, response, plan, done));
      return true;
    },
    upgrade(request, socket, head) {
      const seen = see(request);
      if (!seen) return false;
      socket.on('error', () => socket.destroy());
      const response = new ServerResponse(request);
      response.shouldKeepAlive = false;
      response.assignSocket(socket as never);
      response.on('finish', () => socket.end());
      take(request, response, seen, (plan, done, viewer) => {
        const release = streams.hold(
          'tunnel',
          viewer === '' ? { kind: 'network', id: networkOf(clientAddress(request)) } : { kind: 'person', id: viewer },
        );
        return forwarder.upgrade(request, socket, head, response, plan, () => {
          release();
          done();
        });
      });
      return true;
    },
    close() {
      forwarder.close();
      grants.close();
    },
  };
}

/** Removes the handover of a sign-in from a request target. */
function withoutHandover(target: string): { handover: string | undefined; rest: string } {
  if (!target.includes(SIGN_IN_PARAMETER)) return { handover: undefined, rest: target };
  const at = target.indexOf('?');
  const parts = target.slice(at + 1).split('&');
  const mine = `${SIGN_IN_PARAMETER}=`;
  const kept = parts.filter((part) => !part.startsWith(mine));
  const handover = parts.find((part) => part.startsWith(mine))?.slice(mine.length);
  return { handover, rest: target.slice(0, at) + (kept.length > 0 ? `?${kept.join('&')}` : '') };
}
