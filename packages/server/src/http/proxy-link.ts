import { isIP } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { AppError, errorText, isAppError } from '@ropewalk/kit';
import { errorToText } from '@ropewalk/kit/error-text';
import { linkSession } from '@ropewalk/wire/link-session';
import { PROXY_PROCESS_HEADER, PROXY_TOKEN_HEADER, type ProxyLinkRequest } from '@ropewalk/wire/proxy-link';
import { splice } from '@ropewalk/wire/splice';
import { type AcceptedTunnel, acceptTunnel, type TunnelRequest } from '@ropewalk/wire/tunnel';
import { type YamuxClose, YamuxError, type YamuxSession } from '@ropewalk/wire/yamux';
import { type TerminalQuery, terminalRequest } from '../app/agent/terminal.ts';
import type { Ctx, Services } from '../app/context/context.ts';
import { findReadableAgent } from '../app/find/agent.ts';
import { isUuid } from '../app/values/ids.ts';
import { explainAgent } from '../app/workspace-app/explain.ts';
import { proxyOf, proxyOfToken } from '../app/workspace-proxy/credential.ts';
import type { ProxyGrant } from '../app/workspace-proxy/grant-token.ts';
import { missProcess } from '../app/workspace-proxy/register.ts';
import type { ProxyRights } from '../app/workspace-proxy/rights.ts';
import type { VerifiedProxy } from '../authz/proofs.ts';
import type { AgentReach } from '../cluster/agents.ts';
import { agentById } from '../db/queries/agents.ts';
import type { WorkspaceProxyRow } from '../db/rows.ts';
import type { TailnetHub } from '../rpc/tailnet/hub.ts';
import { ProxyPairs } from '../rpc/tailnet/proxy-pairs.ts';
import type { Exchange } from './exchange.ts';
import { Permits, permitLine } from './permits.ts';
import { askAgent, askAgentSoon } from './proxy-agents.ts';
import { openForActor } from './relay.ts';
import type { StreamLimits } from './stream-limits.ts';

interface Link {
  ctx: Ctx;
  proxy: VerifiedProxy<WorkspaceProxyRow>;
  session: YamuxSession;
  /** The agents that were invited. */
  invited: Set<string>;
  /** The stream of the proxy's relay. */
  relay?: Duplex;
}

const UNEXPECTED = 'The server could not answer. Its log has the reason.';

/** The links of workspace proxies to this server: their visitors' bytes, and what changes about their rights. */
export class ProxyLinks {
  readonly #services: Services;
  readonly #rights: ProxyRights;
  readonly #agents: AgentReach;
  readonly #streams: StreamLimits;
  readonly #hub: TailnetHub;
  readonly #sessions = new Set<YamuxSession>();
  readonly #closed = new AbortController();

  constructor(
    services: Services,
    parts: { rights: ProxyRights; agents: AgentReach; streams: StreamLimits; hub: TailnetHub },
  ) {
    this.#services = services;
    this.#rights = parts.rights;
    this.#agents = parts.agents;
    this.#streams = parts.streams;
    this.#hub = parts.hub;
  }

  /** Serves the streams of a proxy's process until its connection ends or its token is not valid any more. */
  accept(ctx: Ctx, http: Exchange): undefined {
    const proxy = proxyOf(ctx);
    const token = String(http.request.headers[PROXY_TOKEN_HEADER]);
    const { log, events } = this.#services;
    const session = linkSession(http.upgrade(), {
      role: 'server',
      onStream: (stream) => void this.#serve(link, stream),
    });
    const link: Link = { ctx, proxy, session, invited: new Set() };
    this.#sessions.add(session);
    const check = () =>
      proxyOfToken(this.#services, token).catch((err) => {
        if (!isAppError(err, 'unauthenticated')) return log.debug('could not check a proxy', { err: errorText(err) });
        log.info('a workspace proxy lost its token', { proxy: proxy.name });
        for (const agent of link.invited)
          askAgentSoon({ agents: this.#agents, log }, agent, { service: 'proxy', does: 'leave', proxy: proxy.id });
        void session.close();
      });
    const off = [events.on('workspace_proxies_changed', () => void check()), events.onResync(() => void check())];
    // the token may have been replaced between its check and this listener
    void check();
    log.info('a workspace proxy connected', { proxy: proxy.name });
    const id = http.request.headers[PROXY_PROCESS_HEADER];
    void session.closed.then((close) => {
      this.#sessions.delete(session);
      for (const stop of off) stop();
      log.info('a workspace proxy disconnected', { proxy: proxy.name });
      if (typeof id === 'string' && isUuid(id)) void this.#miss(link, id, close);
    });
  }

  /** Never rejects. */
  async #miss({ proxy, session }: Link, id: string, { error }: YamuxClose): Promise<void> {
    const { signal } = this.#closed;
    const isSilent = error instanceof YamuxError && error.code === 'timeout';
    const silentMs = isSilent && session.lastPong !== undefined ? performance.now() - session.lastPong : 0;
    await missProcess(this.#services, proxy, { id, silentMs }, signal).catch((err) => {
      if (!signal.aborted) this.#services.log.debug('could not record the end of a process', { err: errorText(err) });
    });
  }

  async close(): Promise<void> {
    this.#closed.abort();
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
      // in an accepted stream, the bytes of a refusal would be the service's
      if (tunnel?.answered) stream.destroy();
      else tunnel?.refuse(errorToText(err, UNEXPECTED));
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
    if (service === 'permit') return this.#permit(link, tunnel, gone);
    if (service === 'invite') return this.#invite(link, tunnel, gone);
    if (service === 'renew') return this.#renew(link, tunnel);
    if (service === 'relay') return this.#relay(link, tunnel);
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

  async #terminal(link: Link, tunnel: AcceptedTunnel, gone: AbortSignal): Promise<void> {
    const { inside, release } = await this.#openTerminal(link, tunnel, this.#agents, gone);
    this.#carry(tunnel.accept(), inside, release);
  }

  /** Opens the terminal that a request names, through `agents`. Call `release` at its end. */
  async #openTerminal(
    { ctx, proxy }: Link,
    { request }: AcceptedTunnel,
    agents: AgentReach,
    gone: AbortSignal,
  ): Promise<{ inside: Duplex; release: () => void; grant: ProxyGrant }> {
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
      return { inside: await openForActor(visitor, agents, { agent, request: wanted }, gone), release, grant };
    } catch (err) {
      release();
      throw err;
    }
  }

  async #watch(link: Link, tunnel: AcceptedTunnel): Promise<void> {
    const open = await this.#rights.app(link.proxy, tunnel.request['grant']);
    const { grant } = open;
    const permits = await this.#permitsFor(link, tunnel, grant, { service: 'tcp', port: grant.port });
    const stream = tunnel.accept();
    stream.resume();
    const stop = this.#rights.watch(open, {
      changed: () => void stream.write('changed\n'),
      end: () => {
        permits?.end();
        stream.end('ended\n');
      },
    });
    permits?.sendTo((permit) => void stream.write(permitLine(permit)));
    stream.once('end', () => stream.end());
    whenClosed(stream, () => {
      stop();
      permits?.stop(!link.session.isClosed);
    });
  }

  /** A terminal over the agent's own connection: this stream ends with the permission, and the other way round. */
  async #permit(link: Link, tunnel: AcceptedTunnel, gone: AbortSignal): Promise<void> {
    // nothing passes: its end is that of the permission
    const [near] = duplexPair();
    let request: TunnelRequest | undefined;
    const agents: AgentReach = {
      offers: (agent, capability) => this.#agents.offers(agent, capability),
      forget: (holders, agentId) => this.#agents.forget(holders, agentId),
      open: async (_agentId, wanted) => {
        request = wanted;
        return near;
      },
    };
    const { release, grant } = await this.#openTerminal(link, tunnel, agents, gone);
    const permits = await this.#permitsFor(link, tunnel, grant, request!);
    if (!permits) {
      near.destroy();
      release();
      throw new AppError('unsupported', 'The agent does not connect to workspace proxies.');
    }
    const stream = tunnel.accept();
    stream.resume();
    permits.sendTo((permit) => void stream.write(permitLine(permit)));
    stream.once('end', () => stream.end());
    whenClosed(near, () => {
      // the permission has ended
      if (stream.destroyed) return;
      permits.end();
      stream.end('ended\n');
    });
    whenClosed(stream, () => {
      release();
      permits.stop(!link.session.isClosed);
      near.destroy();
    });
  }

  /** Undefined if the agent does not connect to proxies. */
  async #permitsFor(
    { proxy }: Link,
    tunnel: AcceptedTunnel,
    grant: ProxyGrant,
    request: TunnelRequest,
  ): Promise<Permits | undefined> {
    const agent = await agentById(this.#services.sql, grant.agent);
    if (!agent || !this.#agents.offers(agent, 'proxy/1')) return undefined;
    return new Permits({
      id: this.#rights.permitId(proxy, tunnel.request['grant']),
      sign: (permit) => this.#rights.signPermit(proxy, grant, permit),
      end: (id) =>
        askAgentSoon({ agents: this.#agents, log: this.#services.log }, grant.agent, {
          service: 'proxy',
          does: 'end',
          proxy: proxy.id,
          permit: id,
        }),
      agent: grant.agent,
      request,
    });
  }

  /** The agent of a grant connects to the proxy. */
  async #invite(link: Link, tunnel: AcceptedTunnel, gone: AbortSignal): Promise<void> {
    const { ctx, proxy } = link;
    const token = await this.#rights.renew(ctx, proxy, tunnel.request['grant']);
    const { agent } = this.#rights.read(proxy, token);
    const row = await agentById(this.#services.sql, agent);
    if (!row || !this.#agents.offers(row, 'proxy/1'))
      throw new AppError('unsupported', 'The agent does not connect to workspace proxies.');
    await askAgent(this.#agents, agent, await this.#rights.invitation(proxy, agent), gone);
    link.invited.add(agent);
    tunnel.accept().end();
  }

  async #renew({ ctx, proxy }: Link, tunnel: AcceptedTunnel): Promise<void> {
    const token = await this.#rights.renew(ctx, proxy, tunnel.request['grant']);
    tunnel.accept().end(token);
  }

  /** A process has one relay: a second stream ends the first. */
  async #relay(link: Link, tunnel: AcceptedTunnel): Promise<void> {
    link.relay?.destroy();
    link.relay = tunnel.accept();
    await new ProxyPairs(this.#hub, link.relay)
      .serve()
      .catch((err) => this.#services.log.debug('the relay of a workspace proxy ended', { err: errorText(err) }));
  }

  /** Calls `ended` when both have closed. */
  #carry(outside: Duplex, inside: Duplex, ended: () => void): void {
    splice(outside, inside)
      .catch((err) => this.#services.log.debug('a stream of a workspace proxy ended', { err: errorText(err) }))
      .finally(ended);
  }
}

/** Calls back when a stream has closed, which may be before now. */
function whenClosed(stream: Duplex, then: () => void): void {
  if (stream.closed) then();
  else stream.once('close', then);
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
