import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { type AppError, isAppError } from '@ropewalk/kit';
import type { AppGrant } from '../../app/context/sealed-tokens.ts';
import { type AppAddress, climbs, hostName, SIGN_IN_PARAMETER, targetPath } from '../../app/values/app-address.ts';
import { networkOf } from '../../app/values/network.ts';
import type { ClientAddress } from '../client-address.ts';
import { statusOf } from '../status.ts';
import type { StreamLimits } from '../stream-limits.ts';
import type { AppDoor } from './door.ts';
import { createForwarder, type Forwarder } from './forward.ts';
import { withoutHandover } from './handover.ts';
import { withoutTokens } from './headers.ts';
import { AppLocator, type AppRequest } from './locate.ts';
import { preflight, sharesOwner, withCors } from './origins.ts';
import { type Refusal, refuse, wantsHtml } from './pages.ts';
import type { AppPlace } from './place.ts';
import { type Plan, refusalOf } from './plan.ts';
import type { Dial, Target } from './pool.ts';

export interface AppProxyParts {
  place: AppPlace;
  door: AppDoor;
  /** Makes an error for people of any other, and logs that. */
  toError(thrown: unknown, context: Record<string, unknown>): AppError;
  clientAddress: ClientAddress;
  dial: Dial;
  /** See AppConnections. */
  poolOf?: (target: Target) => string;
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

export function createAppProxy(parts: AppProxyParts): AppProxy {
  return new WorkspaceAppProxy(parts);
}

class WorkspaceAppProxy implements AppProxy {
  readonly #place: AppPlace;
  readonly #door: AppDoor;
  readonly #toError: AppProxyParts['toError'];
  readonly #clientAddress: ClientAddress;
  readonly #streams: StreamLimits;
  readonly #locator: AppLocator;
  readonly #forwarder: Forwarder;

  constructor({ place, door, toError, clientAddress, streams, dial, poolOf, answerMs }: AppProxyParts) {
    this.#place = place;
    this.#door = door;
    this.#toError = toError;
    this.#clientAddress = clientAddress;
    this.#streams = streams;
    this.#locator = new AppLocator(place);
    this.#forwarder = createForwarder(dial, {
      ...(answerMs === undefined ? {} : { answerMs }),
      ...(poolOf ? { poolOf } : {}),
    });
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
    this.#door.close();
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
    const allowed = preflight(this.#place.wildcard, request, address);
    if (allowed) {
      void this.#answerPreflight(request, response, seen, allowed, carry);
      return;
    }
    const grant = rest.includes(SIGN_IN_PARAMETER) ? undefined : this.#door.held(request, address);
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
      const grant = await this.#door.forAnyone(seen.address);
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
      if ((address.kind === 'subdomain' || this.#door.redeemsOnPaths) && handover !== undefined) {
        const cookie = await this.#door.redeem(request, handover, address);
        const start = address.kind === 'path' ? address.base : '';
        // two slashes would name another host
        return redirect(response, start + rest.replace(/^[/\\]+/, '/'), {
          'Set-Cookie': cookie,
          'Referrer-Policy': 'no-referrer',
        });
      }
      const { grant, cookie } = await this.#door.enter(request, address);
      if (response.destroyed) return;
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
    if (!over) release = this.#door.watch(grant, seen.address, cut);
  }

  /** The answer that the server gives instead of the app, if any. */
  #before(request: IncomingMessage, { address, rest }: AppRequest, grant: AppGrant) {
    if (!sharesOwner(this.#place.wildcard, this.#place.dashboardUrl, request, address) && grant.user !== '') {
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
      proto: this.#place.isSecure ? 'https' : 'http',
      answerHeaders,
      cors: grant.passthru ? [] : withCors(this.#place.wildcard, request, address),
      explain: (err) => this.#explain(grant, err),
    };
  }

  async #explain(grant: AppGrant, err: Error): Promise<Refusal> {
    // the agent may be disconnected, for a known reason
    const why =
      isAppError(err, 'unavailable') || isAppError(err, 'unsupported')
        ? await this.#door.explainAgent(grant).catch(() => undefined)
        : undefined;
    return why ? { status: 502, ...why } : refusalOf(err);
  }

  #failed(request: IncomingMessage, response: ServerResponse, address: AppAddress, thrown: unknown): void {
    const err = this.#toError(thrown, { app: address.base });
    if (err.code === 'unauthenticated' && wantsHtml(request) && request.method === 'GET' && !request.headers.upgrade) {
      redirect(response, this.#door.signInAddress(request, address));
      return;
    }
    refuse(request, response, {
      status: statusOf[err.code],
      title: err.message,
      detail: err.detail,
      ...(err.code === 'unavailable' || err.code === 'unsupported' || err.code === 'not_found'
        ? { link: { url: `${this.#place.dashboardUrl}/`, text: 'Go to the dashboard' } }
        : {}),
    });
  }
}

function redirect(response: ServerResponse, location: string, headers: Record<string, string> = {}): void {
  response.writeHead(307, { Location: location, 'Cache-Control': 'no-store', 'Content-Length': '0', ...headers }).end();
}
