import type { RouteQuery } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { Capability } from '@ropewalk/wire/capabilities';
import type { TunnelRequest } from '@ropewalk/wire/tunnel';
import { authorize } from '../../authz/authorize.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Permission } from '../context/allowed.ts';
import type { Ctx } from '../context/context.ts';
import { agentPermission } from '../find/agent.ts';
import { workspaceObject } from '../find/workspace.ts';
import { endOfAgent } from './health.ts';

type TunnelQuery = RouteQuery<'GET /workspaceagents/{workspaceagent}/tunnel'>;

/**
 * The field of a request whose client can join the tailnet. Where the agent has no tunnels, its bytes then take the client's
 * own path.
 */
export const CLIENT_JOINS = 'client_joins';

/** The services of an agent that a client may ask for. The others are for the server. */
const SERVICES = new Set(['ssh', 'tcp', 'udp', 'ping', 'speedtest']);

/** @throws AppError `forbidden` if people may connect through the browser only */
export function requireTunnels({ config }: Pick<Ctx, 'config'>): void {
  if (!config.browserOnly) return;
  throw new AppError('forbidden', 'This installation lets people connect to workspaces through the browser only.');
}

/**
 * The agent's service that a client asks for.
 * @throws AppError `forbidden` if people may connect through the browser only, `invalid` for an unknown service
 */
export function tunnelRequest(ctx: Ctx, { service = 'ssh', port }: TunnelQuery): TunnelRequest {
  requireTunnels(ctx);
  if (!SERVICES.has(service)) throw new AppError('invalid', `Unknown service ${JSON.stringify(service)}.`);
  return { service, [CLIENT_JOINS]: true, ...(port === undefined ? {} : { port }) };
}

/** A tunnel that the actor may have, for as long as `permission` holds. */
export interface AllowedTunnel {
  permission: Permission;
  /** The request for the agent. */
  request: TunnelRequest;
  /** What the client may do with the tunnel's session. None: it has no session that outlives its connection. */
  capabilities: Capability[];
  /** The API key that the session belongs to, if the client asked for one. The agent ends it when the key is revoked. */
  key: string | undefined;
}

export interface WantedTunnel {
  agent: AgentIdentity;
  request: TunnelRequest;
  /** `new` asks for a session that outlives its connection, `attach` for the next connection of such a session. */
  resume?: 'new' | 'attach' | undefined;
  /** Whether there are workspace proxies through which the session may continue. */
  hasProxies?: boolean;
}

/**
 * Decides whether the actor may have a tunnel, and of which kind. An agent that cannot resume sessions gets a plain
 * tunnel. The client sees that from the answer's headers.
 * @throws AppError `gone` or `unavailable` if a session cannot be attached any more
 */
export async function allowTunnel(
  ctx: Ctx,
  { agent, request, resume, hasProxies = false }: WantedTunnel,
  /** What the agent is capable of, if it is connected. */
  offers: (capability: Capability) => boolean,
): Promise<AllowedTunnel> {
  authorize(ctx, 'ssh', workspaceObject(agent));
  const permission = agentPermission('ssh', agent);
  const holder = ctx.actor.kind === 'user' ? { user: ctx.actor.id, key: ctx.actor.apiKeyId } : undefined;
  const resumable = resume !== undefined && holder !== undefined && offers('resume/1');
  const capabilities: Capability[] = resumable ? ['resume/1'] : [];
  if (resumable && !ctx.config.blockDirectConnections && offers('direct/1')) capabilities.push('direct/1');
  if (resumable && hasProxies && offers('proxy-path/1')) capabilities.push('proxy-path/1');
  if (resume === 'attach' && !resumable) {
    const end = await endOfAgent(ctx.sql, agent.id);
    if (end) throw new AppError('gone', `The workspace ${end}.`);
    throw new AppError('unavailable', 'The agent is not connected.');
  }
  return {
    permission,
    request: resumable ? { ...request, resume, holder } : request,
    capabilities,
    key: resume && holder?.key,
  };
}
