// What visitors of workspace proxies may do now, by the grants that proxies present. A proxy presents a grant before it uses
// it, so a server decides for every stream, whatever the proxy believes.
import { AppError } from '@ropewalk/kit';
import type { ProxyAgentRequest } from '@ropewalk/wire/proxy-link';
import type { TunnelRequest } from '@ropewalk/wire/tunnel';
import type { Actor } from '../../authz/actor.ts';
import { authorize } from '../../authz/authorize.ts';
import { workspaceProxyById } from '../../db/queries/workspace-proxies.ts';
import type { WorkspaceProxyRow } from '../../db/rows.ts';
import type { Ctx, Services } from '../context/context.ts';
import { findReadableAgent } from '../find/agent.ts';
import { workspaceObject } from '../find/workspace.ts';
import { type AppAddress, parseAppHost, parseAppPath, parseWildcard } from '../values/app-address.ts';
import { grantAccess } from '../workspace-app/access.ts';
import { followRights, mayStill, visitorOfGrant, withExpiredSession } from '../workspace-app/grants.ts';
import { GRANT_MS, HeldGrants, type StreamWatcher } from '../workspace-app/held-grants.ts';
import { grantClaims, type ProxyGrant } from './grant-token.ts';
import type { ProxyKeys } from './keys.ts';

/** So long after it was issued a grant is good for a new one, in ms. A terminal survives such an outage of the server. */
const RENEW_MS = 10 * 60_000;

const ended = () => new AppError('forbidden', 'Your permission to use this was revoked.');

/** One per server. */
export class ProxyRights {
  readonly #services: Services;
  readonly #keys: ProxyKeys;
  readonly #held: HeldGrants<ProxyGrant, AppAddress>;
  readonly #off: (() => void)[];

  constructor(services: Services, keys: ProxyKeys) {
    const { log, clock } = services;
    this.#services = services;
    this.#keys = keys;
    this.#held = new HeldGrants<ProxyGrant, AppAddress>({
      // proxies verify tokens, and here each is presented once
      read: () => undefined,
      now: () => clock.now().getTime(),
      mayStill: (stream) => mayStill(services, stream),
      withExpiredSession: (streams) => withExpiredSession(services, streams),
      log,
    });
    this.#off = followRights(services, this.#held);
  }

  /** @throws AppError `forbidden` for a text that is not the token of a grant of this proxy, or of one that is too old */
  read(proxy: WorkspaceProxyRow, token: unknown): ProxyGrant {
    const now = this.#services.clock.now();
    const grant = typeof token === 'string' ? this.#keys.read(proxy.id, token, now) : undefined;
    if (!grant || grant.issued + RENEW_MS < now.getTime())
      throw new AppError('forbidden', 'The grant is not valid for this proxy, or it is too old.');
    // a permit lives longer, and as a grant it does not
    return { ...grant, expires: Math.min(grant.expires, grant.issued + GRANT_MS) };
  }

  /**
   * The grant of an app in a token, if it is valid now, and otherwise a new one.
   * @throws AppError `forbidden` if the visitor may not use the app any more
   */
  async app(proxy: WorkspaceProxyRow, token: unknown): Promise<{ grant: ProxyGrant; address: AppAddress }> {
    const grant = this.read(proxy, token);
    const address = await this.#addressOf(proxy, grant);
    if (this.#held.isValid(grant)) return { grant, address };
    return { grant: await this.#againForApp(grant, address), address };
  }

  /** Calls back when rights change. Returns a function that stops watching. */
  watch({ grant, address }: { grant: ProxyGrant; address: AppAddress }, watcher: StreamWatcher): () => void {
    return this.#held.watch(grant, address, watcher);
  }

  /** The token of a new grant. @throws AppError `forbidden` if the visitor may not use the app or the terminal any more */
  async renew(ctx: Ctx, proxy: WorkspaceProxyRow, token: unknown): Promise<string> {
    const grant = this.read(proxy, token);
    return this.#keys.sign(proxy.id, await this.#again(ctx, proxy, grant), this.#services.clock.now());
  }

  async #again(ctx: Ctx, proxy: WorkspaceProxyRow, grant: ProxyGrant): Promise<ProxyGrant> {
    if (grant.kind === 'terminal')
      return grantTerminal(ctx, await this.visitor(grant), { agentId: grant.agent, base: grant.base });
    return this.#againForApp(grant, await this.#addressOf(proxy, grant));
  }

  /** @param proxy as it was when it connected. It may have registered other addresses since */
  async #addressOf(proxy: WorkspaceProxyRow, grant: ProxyGrant): Promise<AppAddress> {
    const known = addressOf(proxy, grant);
    if (known) return known;
    const now = await workspaceProxyById(this.#services.sql, proxy.id);
    const address = now && addressOf(now, grant);
    if (!address) throw ended();
    return address;
  }

  async #againForApp(grant: ProxyGrant, address: AppAddress): Promise<ProxyGrant> {
    return grantAccess(this.#services, await this.visitor(grant), address);
  }

  /**
   * A permit for streams of an agent's own connection to the proxy. It has the grant, too, so that a proxy which has lost its
   * link presents it instead of an older one.
   */
  signPermit(
    proxy: WorkspaceProxyRow,
    grant: ProxyGrant,
    { lifetimeMs, ...permit }: { id: string; agent: string; request: TunnelRequest; lifetimeMs: number },
  ): string {
    const now = this.#services.clock.now();
    const issued = now.getTime();
    const claims = { ...grantClaims({ ...grant, issued, expires: issued + lifetimeMs }), permit };
    return this.#keys.signClaims(proxy.id, claims, now);
  }

  /** The id for the permits of a grant: that of the permit which the proxy presents as its grant, so that streams continue. */
  permitId({ id }: WorkspaceProxyRow, token: unknown): string {
    const known = typeof token === 'string' ? this.#keys.permitId(id, token, this.#services.clock.now()) : undefined;
    return known ?? crypto.randomUUID();
  }

  /** What makes an agent connect to the proxy. @throws AppError `conflict` if the proxy has no address */
  async invitation({ id }: WorkspaceProxyRow, agent: string): Promise<Extract<ProxyAgentRequest, { does: 'connect' }>> {
    const { sql, clock } = this.#services;
    const proxy = await workspaceProxyById(sql, id);
    if (!proxy?.url) throw new AppError('conflict', 'The workspace proxy has not registered.');
    const now = clock.now();
    const ticket = this.#keys.signClaims(id, { ticket: agent, exp: (now.getTime() + GRANT_MS) / 1_000 }, now);
    const keys = this.#keys.publicKeys(now).map(({ sequence, secret }) => ({ sequence, secret }));
    return { service: 'proxy', does: 'connect', proxy: id, url: proxy.url, agent, ticket, keys };
  }

  /** The visitor with the rights of now. @throws AppError `forbidden` if the session has ended */
  async visitor(grant: ProxyGrant): Promise<Actor> {
    const actor = await visitorOfGrant(this.#services, grant);
    if (!actor) throw ended();
    return actor;
  }

  close(): void {
    this.#held.close();
    for (const stop of this.#off) stop();
  }
}

/** The address of a grant's app at the proxy. Undefined if the proxy has other addresses now. */
function addressOf({ wildcard_hostname: pattern }: WorkspaceProxyRow, grant: ProxyGrant): AppAddress | undefined {
  if (grant.kind === 'path') return parseAppPath(grant.base)?.address;
  const wildcard = grant.kind === 'subdomain' ? parseWildcard(pattern) : undefined;
  return wildcard && parseAppHost(wildcard, grant.base);
}

/**
 * The permission for the terminal of an agent. The rule is that of the terminal of the server itself.
 * @param base the path of the terminal at the proxy
 */
export async function grantTerminal(
  ctx: Ctx,
  actor: Actor,
  { agentId, base }: { agentId: string; base: string },
): Promise<ProxyGrant> {
  // taken before anything is read: a change that is announced later invalidates this grant
  const now = ctx.clock.now().getTime();
  if (actor.kind !== 'user') throw new AppError('unauthenticated', 'Sign in to open a terminal.');
  const visitor = { ...ctx, actor, signal: ctx.signal };
  const agent = await findReadableAgent(visitor, agentId);
  authorize(visitor, 'ssh', workspaceObject(agent));
  return {
    kind: 'terminal',
    base,
    user: actor.id,
    key: actor.apiKeyId,
    owner: agent.owner_id,
    workspace: agent.workspace_id,
    template: '',
    agent: agent.id,
    port: 0,
    https: false,
    path: '',
    query: '',
    issued: now,
    expires: now + GRANT_MS,
  };
}
