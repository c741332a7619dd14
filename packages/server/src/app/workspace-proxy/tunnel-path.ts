// The path of a person's tunnels through a workspace proxy. A session begins through the server, which authorizes it. On this
// path it only continues. The server signs permits for the person, one agent and one proxy while the person uses the path, so
// a proxy cannot keep one for longer than the last permit is valid.
import { createHash } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import type { Capability } from '@ropewalk/wire/capabilities';
import type { PermittedTunnel } from '@ropewalk/wire/proxy-link';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { workspaceProxyWithSecret } from '../../db/queries/workspace-proxies.ts';
import type { AgentIdentity, WorkspaceProxyRow } from '../../db/rows.ts';
import { endOfAgent } from '../agent/health.ts';
import { requireTunnels } from '../agent/tunnel.ts';
import type { Permission } from '../context/allowed.ts';
import type { Ctx, Services } from '../context/context.ts';
import { agentPermission } from '../find/agent.ts';
import { workspaceObject } from '../find/workspace.ts';
import { isUuid } from '../values/ids.ts';
import type { ProxyGrant } from './grant-token.ts';

/** So long a permit of this path is valid, in ms: as long as a session survives an outage of the server, and a little more. */
export const PATH_PERMIT_MS = 120_000;
export const RENEW_PATH_PERMIT_MS = 40_000;

type KnownProxy = WorkspaceProxyRow & { hashed_secret: Buffer };

export interface WantedPath {
  /** The id of the proxy. */
  proxy?: string;
  /** A UUID with which the client names this use of the path. */
  path?: string;
}

export interface AllowedPath {
  proxy: KnownProxy;
  grant: ProxyGrant;
  /** The id of its permits. The same for the same person and the same path, at every server. */
  id: string;
  request: PermittedTunnel;
  /** Holds while the person may use tunnels to the agent, and the agent runs. */
  permission: Permission;
}

/**
 * Decides whether the actor may use tunnels to an agent through a proxy.
 * @throws AppError `forbidden`, `not_found`, `invalid`, or `unsupported` if the agent is older
 */
export async function allowTunnelPath(
  ctx: Ctx,
  agent: AgentIdentity,
  { proxy: proxyId = '', path = '' }: WantedPath,
  offers: (capability: Capability) => boolean,
): Promise<AllowedPath> {
  requireTunnels(ctx);
  authorize(ctx, 'ssh', workspaceObject(agent));
  const { actor } = ctx;
  if (actor.kind !== 'user') throw new AppError('forbidden', 'Only people can use workspace proxies.');
  for (const [name, id] of Object.entries({ proxy: proxyId, path }))
    if (!isUuid(id)) throw new AppError('invalid', `Invalid ${name} ${JSON.stringify(id)}: it must be a UUID.`);
  const proxy = await workspaceProxyWithSecret(ctx.sql, proxyId);
  if (!proxy || proxy.derp_only) throw notFound();
  if (!offers('proxy-path/1'))
    throw new AppError('unsupported', 'The agent has no tunnels through workspace proxies, or it is not connected.');
  const { id: user, apiKeyId: key } = actor;
  const now = ctx.clock.now().getTime();
  const ssh = agentPermission('ssh', agent);
  return {
    proxy,
    grant: {
      ...{ kind: 'tunnel', base: '', user, key, owner: agent.owner_id, workspace: agent.workspace_id, agent: agent.id },
      ...{ template: '', port: 0, https: false, path: '', query: '', issued: now, expires: now + PATH_PERMIT_MS },
    },
    // nobody can choose the id of another person's permits
    id: createHash('sha256')
      .update([user, key, agent.id, proxy.id, path.toLowerCase()].join())
      .digest('hex')
      .slice(0, 32),
    request: { service: 'tunnel', holder: { user, key } },
    permission: async (later) => {
      await ssh(later);
      const end = await endOfAgent(later.sql, agent.id);
      if (end) throw new AppError('gone', `The workspace ${end}.`);
    },
  };
}

/** Whether the proxy still has the token with which its processes were connected. */
export async function isSameProxy({ sql }: Pick<Services, 'sql'>, proxy: KnownProxy): Promise<boolean> {
  const now = await workspaceProxyWithSecret(sql, proxy.id);
  return now?.hashed_secret.equals(proxy.hashed_secret) ?? false;
}
