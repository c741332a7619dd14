// Connections to workspace proxies, which carry the bytes of their visitors. A server invites the agent while a proxy has
// visitors of it. The proxy presents what the server signed for each stream, and the agent verifies it.
import type { KeyObject } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { publicKeyOf, verifiedClaims } from '@ropewalk/kit/signed-token';
import { linkSession } from '@ropewalk/wire/link-session';
import { type PermitClaims, PROXY_AGENT_PATH, type ProxyAgentRequest, TICKET_HEADER } from '@ropewalk/wire/proxy-link';
import type { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { acceptTunnel, type TunnelRequest } from '@ropewalk/wire/tunnel';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { Service, Services } from '../services/service.ts';
import { proxiedTunnel } from './proxied-tunnel.ts';

const DIAL_MS = 5_000;
/** A person has one or two regions, and few people share a workspace. */
const MAX_PROXIES = 8;
/** Without streams for so long, the connection ends. The next visitor is worth another invitation. */
const IDLE_MS = 5 * 60_000;
/** Ended permits that are remembered. */
const MAX_ENDED = 1_000;
/** What a visitor of a proxy can be permitted, besides `tunnel`. */
const PERMITTED = ['tcp', 'pty'];

/** No permit is valid for longer. The clocks of a server and a workspace differ. */
const MAX_LIFETIME_MS = 3_600_000;

/** A verified permit. `lifetime`: what is left of it, in ms. */
type Permit = NonNullable<PermitClaims['permit']> & { lifetime: number };
type Invitation = Extract<ProxyAgentRequest, { does: 'connect' }>;

interface Connected {
  session: YamuxSession;
  invitation: Invitation;
  keys: Map<number, KeyObject>;
  /** What is open, by the id of its permit. */
  readonly permits: Map<string, { streams: Set<Duplex>; expiry: NodeJS.Timeout }>;
  idle: NodeJS.Timeout | undefined;
}

export class ProxyConnections {
  readonly #services: () => Services;
  /** Not among the services, which servers may ask for without a permit. */
  readonly #tunnel: Service;
  readonly #log: Logger;
  readonly #idleMs: number;
  /** By the id of the proxy. */
  readonly #connected = new Map<string, Connected>();
  /** The ids of ended permits, oldest first. */
  readonly #ended = new Set<string>();
  readonly #dialing = new Map<string, Promise<void>>();
  readonly #closed = new AbortController();

  constructor({
    services,
    sessions,
    log,
    idleMs = IDLE_MS,
  }: {
    services: () => Services;
    sessions: Pick<ResumableSessions, 'attach'>;
    log: Logger;
    idleMs?: number;
  }) {
    this.#services = services;
    this.#tunnel = proxiedTunnel(sessions);
    this.#log = log;
    this.#idleMs = idleMs;
  }

  /** `{service: 'proxy'}`: see ProxyAgentRequest. */
  readonly serve: Service = async (tunnel) => {
    const request = tunnel.request as unknown as ProxyAgentRequest;
    if (request.does === 'connect') await this.#join(checked(request));
    else if (request.does === 'end') {
      const connected = this.#connected.get(request.proxy);
      if (connected) this.#endPermit(connected, String(request.permit));
    } else if (request.does === 'leave') void this.#connected.get(request.proxy)?.session.close();
    else throw new AppError('invalid', 'The request for the service "proxy" is unknown.');
    tunnel.accept().end();
  };

  close(): void {
    this.#closed.abort(new AppError('canceled', 'The agent stops.'));
    for (const { session } of this.#connected.values()) void session.close();
  }

  async #join(invitation: Invitation): Promise<void> {
    const known = this.#connected.get(invitation.proxy);
    if (known?.invitation.url === invitation.url) {
      known.keys = keysOf(invitation);
      return;
    }
    if (!known && this.#connected.size + this.#dialing.size >= MAX_PROXIES)
      throw new AppError('unavailable', `This agent is connected to ${MAX_PROXIES} workspace proxies already.`);
    let dialing = this.#dialing.get(invitation.proxy);
    if (!dialing) {
      dialing = this.#dial(invitation).finally(() => this.#dialing.delete(invitation.proxy));
      this.#dialing.set(invitation.proxy, dialing);
    }
    await dialing;
  }

  async #dial(invitation: Invitation): Promise<void> {
    const { proxy, url, ticket } = invitation;
    const { connection } = await dialWebSocket(`${url}${PROXY_AGENT_PATH}`, {
      headers: { [TICKET_HEADER]: ticket },
      timeoutMs: DIAL_MS,
      signal: this.#closed.signal,
    }).catch((err) => {
      throw new AppError('unavailable', `The agent does not reach ${url}: ${errorText(err)}.`, { cause: err });
    });
    const session = linkSession(connection, {
      role: 'client',
      onStream: (stream) => void this.#serveStream(connected, stream),
    });
    const connected: Connected = {
      ...{ session, invitation, keys: keysOf(invitation) },
      ...{ permits: new Map(), idle: undefined },
    };
    // one that had another address
    void this.#connected.get(proxy)?.session.close();
    this.#connected.set(proxy, connected);
    this.#watchIdle(connected);
    this.#log.info('connected to a workspace proxy', { url });
    void session.closed.then(({ reason }) => {
      clearTimeout(connected.idle);
      for (const { expiry } of connected.permits.values()) clearTimeout(expiry);
      if (this.#connected.get(proxy) === connected) this.#connected.delete(proxy);
      this.#log.info('disconnected from a workspace proxy', { url, reason });
    });
  }

  /** Never rejects. */
  async #serveStream(connected: Connected, stream: Duplex): Promise<void> {
    stream.on('error', () => {});
    try {
      const tunnel = await acceptTunnel(stream);
      try {
        const permit = this.#permitted(connected, tunnel.request);
        if (tunnel.request.service === 'renewed') {
          if (connected.permits.has(permit.id)) this.#renew(connected, permit);
          tunnel.accept().end();
          return;
        }
        this.#count(connected, stream, permit);
        await this.#service(permit.request.service)!({
          request: permit.request,
          accept: () => tunnel.accept(),
          refuse: (text) => tunnel.refuse(text),
        });
      } catch (err) {
        if (tunnel.answered) throw err;
        tunnel.refuse(errorText(err));
      }
    } catch (err) {
      this.#log.debug('a stream of a workspace proxy ended', { err: errorText(err) });
    }
  }

  /** @throws AppError `forbidden` for everything that a server has not signed for this proxy, this agent and this moment */
  #permitted({ invitation, keys }: Connected, { service, permit: token }: TunnelRequest): Permit {
    const wrong = () => new AppError('forbidden', 'The permit is not valid for this agent and this proxy.');
    if ((service !== 'permitted' && service !== 'renewed') || typeof token !== 'string') throw wrong();
    const claims = verifiedClaims(token, (sequence) => keys.get(sequence)) as PermitClaims | undefined;
    const permit = claims?.permit;
    const lifetime = (claims?.exp ?? 0) * 1_000 - Date.now();
    if (claims?.aud !== invitation.proxy || !permit || lifetime <= 0) throw wrong();
    if (permit.agent !== invitation.agent || !this.#service(permit.request.service) || this.#ended.has(permit.id))
      throw wrong();
    return { ...permit, lifetime };
  }

  #service(name: string): Service | undefined {
    if (name === 'tunnel') return this.#tunnel;
    return PERMITTED.includes(name) ? this.#services().get(name) : undefined;
  }

  #count(connected: Connected, stream: Duplex, permit: Permit): void {
    clearTimeout(connected.idle);
    this.#renew(connected, permit).streams.add(stream);
    stream.once('close', () => {
      const open = connected.permits.get(permit.id);
      open?.streams.delete(stream);
      if (open?.streams.size === 0) this.#forget(connected, permit.id);
      this.#watchIdle(connected);
    });
  }

  /** Lets what is open under this permit live as long as this one. */
  #renew(connected: Connected, { id, lifetime }: Permit) {
    const known = connected.permits.get(id);
    clearTimeout(known?.expiry);
    const expiry = setTimeout(() => this.#endPermit(connected, id), Math.min(lifetime, MAX_LIFETIME_MS));
    expiry.unref();
    const open = { streams: known?.streams ?? new Set<Duplex>(), expiry };
    connected.permits.set(id, open);
    return open;
  }

  #forget(connected: Connected, id: string): void {
    clearTimeout(connected.permits.get(id)?.expiry);
    connected.permits.delete(id);
  }

  #endPermit(connected: Connected, id: string): void {
    if (this.#ended.size >= MAX_ENDED) this.#ended.delete(this.#ended.values().next().value!);
    this.#ended.add(id);
    const streams = [...(connected.permits.get(id)?.streams ?? [])];
    this.#forget(connected, id);
    for (const stream of streams) stream.destroy();
  }

  #watchIdle(connected: Connected): void {
    clearTimeout(connected.idle);
    if (connected.permits.size > 0 || connected.session.isClosed) return;
    connected.idle = setTimeout(() => void connected.session.close(), this.#idleMs);
    connected.idle.unref();
  }
}

function checked(request: Invitation): Invitation {
  const { proxy, url, agent, ticket, keys } = request;
  const isRight =
    [proxy, url, agent, ticket].every((text) => typeof text === 'string') &&
    /^https?:/.test(url) &&
    Array.isArray(keys);
  if (!isRight) throw new AppError('invalid', 'The invitation to a workspace proxy is invalid.');
  return request;
}

function keysOf({ keys }: Invitation): Map<number, KeyObject> {
  return new Map(
    keys.flatMap(({ sequence, secret }) => {
      const key = publicKeyOf(String(secret));
      return key ? [[sequence, key]] : [];
    }),
  );
}
