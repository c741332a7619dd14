import { AppError, errorText } from '@ropewalk/kit';
import type { PathNews } from '@ropewalk/wire/proxy-link';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import { whileAllowed } from '../app/context/allowed.ts';
import type { Ctx, Services } from '../app/context/context.ts';
import type { ProxyRights } from '../app/workspace-proxy/rights.ts';
import {
  type AllowedPath,
  allowTunnelPath,
  isSameProxy,
  PATH_PERMIT_MS,
  RENEW_PATH_PERMIT_MS,
  type WantedPath,
} from '../app/workspace-proxy/tunnel-path.ts';
import type { AgentReach } from '../cluster/agents.ts';
import type { AgentIdentity } from '../db/rows.ts';
import { type Exchange, requireUpgrade } from './exchange.ts';
import { watchSilence } from './heartbeat.ts';
import { Permits } from './permits.ts';
import { askAgent, askAgentSoon } from './proxy-agents.ts';

/** Paths of one person whose client is gone, and whose permits are still valid. The oldest ends first. */
const MAX_LEFT = 50;

interface Path {
  /** By the id of its permits. */
  id: string;
  user: string;
  /** Ends what is open at the agent, and stops watching the rights. */
  end(): void;
  /** Stops watching the rights. */
  forget(): void;
}

/** The paths of people's tunnels through workspace proxies. The server signs permits, and ends them with the rights. */
export class TunnelPaths {
  readonly #services: Services;
  readonly #rights: ProxyRights;
  readonly #agents: AgentReach;
  readonly #open = new Set<Path>();
  /** Paths whose client lost its connection: it continues over the proxy, and connects again. */
  readonly #left = new Map<string, { path: Path; timer: NodeJS.Timeout }>();

  constructor(services: Services, { rights, agents }: { rights: ProxyRights; agents: AgentReach }) {
    this.#services = services;
    this.#rights = rights;
    this.#agents = agents;
  }

  /** Makes the agent connect to the proxy, and sends permits until the client leaves or its rights end. */
  async accept(ctx: Ctx, http: Exchange, agent: AgentIdentity, wanted: WantedPath): Promise<undefined> {
    const allowed = await allowTunnelPath(ctx, agent, wanted, (capability) => this.#agents.offers(agent, capability));
    requireUpgrade(http);
    const gone = new AbortController();
    const path = this.#watch(ctx, agent, allowed, gone);
    try {
      const until = AbortSignal.any([ctx.signal, gone.signal]);
      const invitation = await this.#rights.invitation(allowed.proxy, agent.id);
      await askAgent(this.#agents, agent.id, invitation, until);
      gone.signal.throwIfAborted();
      this.#serve(http.upgrade(), { path, allowed, agent, url: invitation.url, gone: gone.signal });
    } catch (err) {
      path.forget();
      throw err;
    }
  }

  /** Stops watching. What is open continues until its permit expires, or under the permits of another server. */
  close(): void {
    for (const { timer } of this.#left.values()) clearTimeout(timer);
    for (const path of [...this.#open]) path.forget();
  }

  #watch(ctx: Ctx, agent: AgentIdentity, { proxy, id, request, permission }: AllowedPath, gone: AbortController): Path {
    const { events, log } = this.#services;
    const { user, key } = request.holder;
    const path: Path = {
      id,
      user,
      end: () => {
        path.forget();
        askAgentSoon({ agents: this.#agents, log }, agent.id, {
          service: 'proxy',
          does: 'end',
          proxy: proxy.id,
          permit: id,
        });
      },
      forget: () => {
        for (const stop of off) stop();
        this.#open.delete(path);
      },
    };
    const checkProxy = () =>
      isSameProxy(this.#services, proxy).then(
        (isSame) => {
          if (isSame) return;
          path.end();
          askAgentSoon({ agents: this.#agents, log }, agent.id, { service: 'proxy', does: 'leave', proxy: proxy.id });
          gone.abort(new AppError('unavailable', 'The workspace proxy was deleted, or its token was replaced.'));
        },
        (err) => log.debug('could not check a proxy', { err: errorText(err) }),
      );
    const off = [
      whileAllowed(
        ctx,
        permission,
        () => {
          path.end();
          this.#agents.forget({ users: [], keys: [key] }, agent.id);
          gone.abort(new AppError('forbidden', 'Your permission to connect to this workspace was revoked.'));
        },
        {
          also: (check) =>
            events.on('workspace_changed', ({ workspace_id: changed }) => changed === agent.workspace_id && check()),
        },
      ),
      events.on('workspace_proxies_changed', () => void checkProxy()),
    ];
    this.#open.add(path);
    return path;
  }

  #serve(
    connection: WebSocketConnection,
    {
      path,
      allowed,
      agent,
      url,
      gone,
    }: { path: Path; allowed: AllowedPath; agent: AgentIdentity; url: string; gone: AbortSignal },
  ): void {
    const { proxy, grant, id, request } = allowed;
    this.#take(id)?.forget();
    const permits = new Permits({
      ...{ id, agent: agent.id, request: { ...request }, lifetimeMs: PATH_PERMIT_MS, renewMs: RENEW_PATH_PERMIT_MS },
      sign: (permit) => this.#rights.signPermit(proxy, grant, permit),
      end: () => path.end(),
    });
    permits.sendTo((permit) => connection.sendText(JSON.stringify({ url, permit } satisfies PathNews)));
    // without a listener its end goes unnoticed
    connection.on('text', () => {});
    connection.on('binary', () => {});
    watchSilence(connection, { busy: () => false, end: () => connection.destroy() });
    const onGone = () => connection.close(1008, (gone.reason as Error).message);
    gone.addEventListener('abort', onGone, { once: true });
    void connection.closed.then(({ code }) => {
      gone.removeEventListener('abort', onGone);
      // 1000: the client does not use the path any more
      permits.stop(code === 1000 && this.#open.has(path));
      if (this.#open.has(path)) this.#leave(path);
    });
  }

  /** The client may continue until its last permit expires. Until then its rights are watched. */
  #leave(path: Path): void {
    const ofPerson = [...this.#left.values()].filter(({ path: { user } }) => user === path.user);
    if (ofPerson.length >= MAX_LEFT) this.#take(ofPerson[0]!.path.id)?.end();
    this.#take(path.id)?.forget();
    const timer = setTimeout(() => this.#take(path.id)?.forget(), PATH_PERMIT_MS);
    timer.unref();
    this.#left.set(path.id, { path, timer });
  }

  #take(id: string): Path | undefined {
    const left = this.#left.get(id);
    clearTimeout(left?.timer);
    this.#left.delete(id);
    return left?.path;
  }
}
