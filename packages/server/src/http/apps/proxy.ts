import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, isAppError } from '@ropewalk/kit';
import { createWebConnectionLog } from '../../app/audit-entries/connection.ts';
import type { Services } from '../../app/context/context.ts';
import type { AppGrant, AppTokens } from '../../app/context/sealed-tokens.ts';
import type { Sessions } from '../../app/context/session.ts';
import {
  type AppAddress,
  climbs,
  hostName,
  parsePort,
  parseWildcard,
  targetPath,
  type Wildcard,
} from '../../app/values/app-address.ts';
import { networkOf } from '../../app/values/network.ts';
import { explainAgent } from '../../app/workspace-app/explain.ts';
import type { AppGrants } from '../../app/workspace-app/grants.ts';
import { SIGN_IN_PARAMETER } from '../../app/workspace-app/sign-in.ts';
import type { ClientAddress } from '../client-address.ts';
import { statusOf, toAppError } from '../errors.ts';
import type { StreamLimits } from '../stream-limits.ts';
import { createForwarder, type Forwarder } from './forward.ts';
import { withoutTokens } from './headers.ts';
import { AppLocator, type AppRequest } from './locate.ts';
import { preflight, sharesOwner, withCors } from './origins.ts';
import { type Refusal, refuse, wantsHtml } from './pages.ts';
import { type Plan, refusalOf } from './plan.ts';
import type { Dial } from './pool.ts';
import { AppVisitors, withoutHandover } from './visitors.ts';

export interface AppProxyParts {
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

/**
 * Forwards to the app and calls `done` at the end. Returns a function that cuts the exchange. `viewer`: the person's id,
 * or empty for a visitor without a session.
 */
type Carry = (plan: Plan, done: () => void, viewer: string) => () => void;

/** @throws AppError `invalid` if --wildcard-access-url is not a pattern */
export function createAppProxy(parts: AppProxyParts): AppProxy {
  const { wildcardAccessUrl } = parts.services.config;
  const wildcard = wildcardAccessUrl === '' ? undefined : parseWildcard(wildcardAccessUrl);
  if (wildcardAccessUrl !== '' && !wildcard) {
    throw new AppError(
      'invalid',
      `--wildcard-access-url must be a pattern like *.apps.example.com, not ${JSON.stringify(wildcardAccessUrl)}.`,
    );
  }
  return new WorkspaceAppProxy(parts, wildcard);
}

class WorkspaceAppProxy implements AppProxy {
  readonly #services: Services;
  readonly #clientAddress: ClientAddress;
  readonly #streams: StreamLimits;
  readonly #grants: AppGrants;
  readonly #wildcard: Wildcard | undefined;
  readonly #locator: AppLocator;
  readonly #visitors: AppVisitors;
  readonly #forwarder: Forwarder;
  readonly #recordConnection: ReturnType<typeof createWebConnectionLog>;

  constructor(parts: AppProxyParts, wildcard: Wildcard | undefined) {
    const { services, sessions, grants, tokens, dial, answerMs } = parts;
    this.#services = services;
    this.#clientAddress = parts.clientAddress;
    this.#streams = parts.streams;
    this.#grants = grants;
    this.#wildcard = wildcard;
    this.#locator = new AppLocator(services, wildcard);
    this.#visitors = new AppVisitors({ services, sessions, grants, tokens, wildcard });
    this.#forwarder = createForwarder(dial, answerMs === undefined ? {} : { answerMs });
    this.#recordConnection = createWebConnectionLog(services);
  }

  request(request: IncomingMessage, response: ServerResponse): boolean {
    const seen = this.#locator.locate(request);
    if (!seen) return false;
    this.#take(request, response, seen, (plan, done) => this.#forwarder.request(request, response, plan, done));
    return true;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean {
    const seen = this.#locator.locate(request);
    if (!seen) return false;
    socket.on('error', () => socket.destroy());
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as never);
    response.on('finish', () => socket.end());
    this.#take(request, response, seen, (plan, done, viewer) => {
      const release = this.#streams.hold(
        'tunnel',
        viewer === ''
          ? { kind: 'network', id: networkOf(this.#clientAddress(request)) }
          : { kind: 'person', id: viewer },
      );
      return this.#forwarder.upgrade(request, socket, head, response, plan, () => {
        release();
        done();
      });
    });
    return true;
  }

  close(): void {
    this.#forwarder.close();
    this.#grants.close();
  }

  /** Answers by itself, or carries the request to the app: immediately for a visitor who holds a grant. */
  #take(
    request: IncomingMessage,
    response: ServerResponse,
    seen: AppRequest | { refusal: Refusal },
    carry: Carry,
  ): void {
    if ('refusal' in seen) {
      refuse(request, response, seen.refusal);
      return;
    }
    const { address, rest } = seen;
    if (address.kind === 'path' && !rest.startsWith('/')) {
      redirect(response, `${address.base}/${rest}`);
      return;
    }
    const allowed = preflight(this.#wildcard, request, address);
    if (allowed) {
      void this.#answerPreflight(request, response, seen, allowed, carry);
      return;
    }
    const grant = rest.includes(SIGN_IN_PARAMETER) ? undefined : this.#visitors.heldGrant(request, address);
    if (!grant) {
      void this.#takeWithoutGrant(request, response, seen, carry);
      return;
    }
    try {
      this.#go(request, response, seen, grant, [], carry);
    } catch (err) {
      this.#failed(request, response, address, err);
    }
  }

  /**
   * A preflight has no cookies. So an app that decides itself which origins may use it gets a preflight only if everyone may
   * use the app. For other apps, the server answers.
   */
  async #answerPreflight(
    request: IncomingMessage,
    response: ServerResponse,
    seen: AppRequest,
    allowed: string[],
    carry: Carry,
  ): Promise<void> {
    try {
      const grant = await this.#grants.askForAnyone(seen.address);
      if (response.destroyed) return;
      if (grant?.passthru) this.#go(request, response, seen, grant, [], carry);
      else response.writeHead(204, allowed).end();
    } catch (err) {
      this.#failed(request, response, seen.address, err);
    }
  }

  async #takeWithoutGrant(
    request: IncomingMessage,
    response: ServerResponse,
    seen: AppRequest,
    carry: Carry,
  ): Promise<void> {
    const { address } = seen;
    try {
      const { handover, rest } = withoutHandover(seen.rest);
      if (address.kind === 'subdomain' && handover !== undefined) {
        const cookie = await this.#visitors.redeem(handover, address, this.#clientAddress(request));
        // two slashes would name another host
        return redirect(response, rest.replace(/^[/\\]+/, '/'), {
          'Set-Cookie': cookie,
          'Referrer-Policy': 'no-referrer',
        });
      }
      const actor = await this.#visitors.actorOf(request, address);
      const { grant, token } = await this.#grants.ask(actor, address);
      this.#recordConnection({
        workspaceId: grant.workspace,
        agentId: grant.agent,
        app: address.app,
        isPort: parsePort(address.app) !== undefined,
        userId: grant.user || null,
        ip: this.#clientAddress(request),
        userAgent: request.headers['user-agent'] ?? '',
      });
      if (response.destroyed) return;
      const cookie = this.#visitors.grantCookie(address, grant, token);
      this.#go(request, response, seen, grant, ['Set-Cookie', cookie], carry);
    } catch (err) {
      this.#failed(request, response, address, err);
    }
  }

  /** Carries the request to the app, and cuts the exchange when the grant ends. `headers`: further ones of the answer. */
  #go(
    request: IncomingMessage,
    response: ServerResponse,
    seen: AppRequest,
    grant: AppGrant,
    headers: string[],
    carry: Carry,
  ): void {
    const first = this.#before(request, seen, grant);
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
    const cut = carry(this.#planFor(request, seen, grant, headers), done, grant.user);
    if (!over) release = this.#grants.watch(grant, seen.address, cut);
  }

  /** The answer that the server gives instead of the app, if any. */
  #before(request: IncomingMessage, { address, rest }: AppRequest, grant: AppGrant) {
    if (!sharesOwner(this.#wildcard, this.#services.accessUrl, request, address) && grant.user !== '') {
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

  #planFor(request: IncomingMessage, { address, rest }: AppRequest, grant: AppGrant, answerHeaders: string[]): Plan {
    const host = request.headers.host ?? '';
    return {
      target: grant,
      kind: address.kind,
      path: targetPath(address, grant, withoutTokens(rest)),
      forwardedFor: [...new Set([this.#clientAddress(request), request.socket.remoteAddress ?? ''])].join(', '),
      host,
      hostName: hostName(host),
      proto: this.#visitors.isSecure() ? 'https' : 'http',
      answerHeaders,
      cors: grant.passthru ? [] : withCors(this.#wildcard, request, address),
      explain: (err) => this.#explain(grant, err),
    };
  }

  async #explain(grant: AppGrant, err: Error): Promise<Refusal> {
    // the agent may be disconnected, for a known reason
    const why =
      isAppError(err, 'unavailable') || isAppError(err, 'unsupported')
        ? await explainAgent(this.#services, grant.agent).catch(() => undefined)
        : undefined;
    return why ? { status: 502, ...why } : refusalOf(err);
  }

  #failed(request: IncomingMessage, response: ServerResponse, address: AppAddress, thrown: unknown): void {
    const err = toAppError(thrown, this.#services.log, { app: address.base });
    if (err.code === 'unauthenticated' && wantsHtml(request) && request.method === 'GET' && !request.headers.upgrade) {
      redirect(response, this.#visitors.signInAddress(request, address));
      return;
    }
    refuse(request, response, {
      status: statusOf[err.code],
      title: err.message,
      detail: err.detail,
      ...(err.code === 'unavailable' || err.code === 'unsupported' || err.code === 'not_found'
        ? { link: { url: `${this.#services.accessUrl}/`, text: 'Go to the dashboard' } }
        : {}),
    });
  }
}

function redirect(response: ServerResponse, location: string, headers: Record<string, string> = {}): void {
  response.writeHead(307, { Location: location, 'Cache-Control': 'no-store', 'Content-Length': '0', ...headers }).end();
}
