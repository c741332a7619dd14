import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError, errorText, isAppError } from '@ropewalk/kit';
import { errorToText } from '@ropewalk/kit/error-text';
import { linkSession } from '@ropewalk/wire/link-session';
import { GRANT_NEWS, type ProxyLinkRequest } from '@ropewalk/wire/proxy-link';
import { splice } from '@ropewalk/wire/splice';
import { type AcceptedTunnel, acceptTunnel } from '@ropewalk/wire/tunnel';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import { type TerminalQuery, terminalRequest } from '../app/agent/terminal.ts';
import type { Ctx, Services } from '../app/context/context.ts';
import { findReadableAgent } from '../app/find/agent.ts';
import { explainAgent } from '../app/workspace-app/explain.ts';
import { PROXY_TOKEN_HEADER, proxyOf, proxyOfToken } from '../app/workspace-proxy/credential.ts';
import type { ProxyRights } from '../app/workspace-proxy/rights.ts';
import type { AgentReach } from '../cluster/agents.ts';
import type { WorkspaceProxyRow } from '../db/rows.ts';
import type { Exchange } from './exchange.ts';
import { openForActor } from './relay.ts';
import type { StreamLimits } from './stream-limits.ts';

interface Link {
  ctx: Ctx;
  proxy: WorkspaceProxyRow;
}

const UNEXPECTED = 'The server could not answer. Its log has the reason.';

/** The links of workspace proxies to this server: their visitors' bytes, and what changes about their rights. */
export class ProxyLinks {
  readonly #services: Services;
  readonly #rights: ProxyRights;
  readonly #agents: AgentReach;
  readonly #streams: StreamLimits;
  readonly #sessions = new Set<YamuxSession>();

  constructor(
    services: Services,
    { rights, agents, streams }: { rights: ProxyRights; agents: AgentReach; streams: StreamLimits },
  ) {
    this.#services = services;
    this.#rights = rights;
    this.#agents = agents;
    this.#streams = streams;
  }

  /** Serves the streams of a proxy's process until its connection ends or its token is not valid any more. */
  accept(ctx: Ctx, http: Exchange): undefined {
    const proxy = proxyOf(ctx);
    const token = String(http.request.headers[PROXY_TOKEN_HEADER]);
    const { log, events } = this.#services;
    const session = linkSession(http.upgrade(), {
      role: 'server',
      onStream: (stream) => void this.#serve({ ctx, proxy }, stream),
    });
    this.#sessions.add(session);
    const check = () =>
      proxyOfToken(this.#services, token).catch((err) => {
        if (!isAppError(err, 'unauthenticated')) return log.debug('could not check a proxy', { err: errorText(err) });
        log.info('a workspace proxy lost its token', { proxy: proxy.name });
        void session.close();
      });
    const off = [events.on('workspace_proxies_changed', () => void check()), events.onResync(() => void check())];
    // the token may have been replaced between its check and this listener
    void check();
    log.info('a workspace proxy connected', { proxy: proxy.name });
    void session.closed.then(() => {
      this.#sessions.delete(session);
      for (const stop of off) stop();
      log.info('a workspace proxy disconnected', { proxy: proxy.name });
    });
  }

  async close(): Promise<void> {
    const sessions = [...this.#sessions];
    for (const session of sessions) session.close();
    await Promise.all(sessions.map(({ closed }) => closed));
    this.#rights.close();
  }

  /** Never rejects. */
  async #serve(link: Link, stream: Duplex): Promise<void> {
    // its end is handled, and between two steps nothing else listens
    stream.on('error', () => {});
    const gone = new AbortController();
    const onGone = () => gone.abort(new AppError('canceled', 'The proxy has closed the stream.'));
    stream.once('close', onGone);
    let tunnel: AcceptedTunnel | undefined;
    try {
      tunnel = await acceptTunnel(stream);
      await this.#answer(link, tunnel, gone.signal);
    } catch (err) {
      if (!isAppError(err)) this.#services.log.warn('a stream of a workspace proxy failed', { err: errorText(err) });
      if (tunnel) tunnel.refuse(errorToText(err, UNEXPECTED));
    } finally {
      stream.off('close', onGone);
    }
  }

  #answer(link: Link, tunnel: AcceptedTunnel, gone: AbortSignal): Promise<void> {
    const { request } = tunnel;
    const { service } = request as ProxyLinkRequest;
    if (service === 'app') return this.#app(link, tunnel, gone);
    if (service === 'terminal') return this.#terminal(link, tunnel, gone);
    if (service === 'watch') return this.#watch(link, tunnel);
    if (service === 'renew') return this.#renew(link, tunnel);
    throw new AppError('unsupported', `This server has no service ${JSON.stringify(service)} for proxies.`, {
      detail: 'The proxy may be newer than the server. Update the server.',
    });
  }

  async #app({ proxy }: Link, tunnel: AcceptedTunnel, gone: AbortSignal): Promise<void> {
    const open = await this.#rights.app(proxy, tunnel.request['grant']);
    const { agent, port } = open.grant;
    const inside = await this.#agents.open(agent, { service: 'tcp', port }, gone).catch(async (err) => {
      const why = isAppError(err, 'unavailable') && (await explainAgent(this.#services, agent).catch(() => undefined));
      throw why ? new AppError('unavailable', why.title, { detail: why.detail }) : err;
    });
    const stop = this.#rights.watch(open, { end: () => inside.destroy() });
    this.#carry(tunnel.accept(), inside, stop);
  }

  async #terminal({ ctx, proxy }: Link, tunnel: AcceptedTunnel, gone: AbortSignal): Promise<void> {
    const { request } = tunnel;
    const { grant: token, query, ip, userAgent } = request as Extract<ProxyLinkRequest, { service: 'terminal' }>;
    const grant = this.#rights.read(proxy, token);
    if (grant.kind !== 'terminal') throw new AppError('forbidden', 'The grant is not one of a terminal.');
    const actor = await this.#rights.visitor(grant);
    const visitor: Ctx = {
      ...ctx,
      actor,
      ip: typeof ip === 'string' && isIP(ip) !== 0 ? ip : ctx.ip,
      userAgent: typeof userAgent === 'string' ? userAgent : '',
      signal: gone,
    };
    const agent = await findReadableAgent(visitor, grant.agent);
    const wanted = terminalRequest(visitor, terminalQuery(query));
    const release = this.#streams.hold('tunnel', { kind: 'person', id: grant.user });
    try {
      const inside = await openForActor(visitor, this.#agents, { agent, request: wanted }, gone);
      this.#carry(tunnel.accept(), inside, release);
    } catch (err) {
      release();
      throw err;
    }
  }

  async #watch({ proxy }: Link, tunnel: AcceptedTunnel): Promise<void> {
    const grant = await this.#rights.app(proxy, tunnel.request['grant']);
    const stream = tunnel.accept();
    stream.resume();
    const news = (what: keyof typeof GRANT_NEWS) => Buffer.from([GRANT_NEWS[what]]);
    const stop = this.#rights.watch(grant, {
      changed: () => void stream.write(news('changed')),
      end: () => void stream.end(news('ended')),
    });
    stream.once('end', () => stream.end());
    stream.once('close', stop);
    if (stream.destroyed) stop();
  }

  async #renew({ ctx, proxy }: Link, tunnel: AcceptedTunnel): Promise<void> {
    const token = await this.#rights.renew(ctx, proxy, tunnel.request['grant']);
    tunnel.accept().end(token);
  }

  /** Calls `ended` when both have closed. */
  #carry(outside: Duplex, inside: Duplex, ended: () => void): void {
    splice(outside, inside)
      .catch((err) => this.#services.log.debug('a stream of a workspace proxy ended', { err: errorText(err) }))
      .finally(ended);
  }
}

/** The query of a visitor's request, as the route of the server itself reads it. */
function terminalQuery(query: unknown): TerminalQuery {
  const given = (typeof query === 'object' && query !== null ? query : {}) as Record<string, unknown>;
  const text = (name: string) => {
    const value = given[name];
    return typeof value === 'string' ? { [name]: value } : {};
  };
  const size = (name: string) => {
    const value = Number(given[name]);
    return Number.isInteger(value) && value > 0 && value <= 65_535 ? { [name]: value } : {};
  };
  return {
    ...text('reconnect'),
    ...text('command'),
    ...text('container'),
    ...text('container_user'),
    ...size('width'),
    ...size('height'),
    no_wait: given['no_wait'] === 'true' || given['no_wait'] === '',
  };
}
