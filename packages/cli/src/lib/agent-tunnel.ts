import type { Client } from '@platform/client';
import type { Tunnel, TunnelOptions } from '@platform/client/stream';
import type { Context } from '../framework/context.ts';
import { type ReachOptions, reachAgent } from './running.ts';
import { splitWorkspaceName, type Target } from './workspace.ts';

/**
 * A stream to a service of a workspace's agent: in one request where the workspace runs and the agent is ready; else what
 * is missing is started and waited for, or said.
 */
export async function openWayIn(
  ctx: Context,
  client: Client,
  target: Target,
  options: { reach: ReachOptions; tunnel: TunnelOptions },
): Promise<Tunnel> {
  const { openTunnel } = await import('@platform/client/stream');
  const { owner, name } = splitWorkspaceName(target.workspace);
  try {
    return await openTunnel(client, { owner, workspace: name, agent: target.agent }, options.tunnel);
  } catch (err) {
    // what the server refuses is looked at one by one, and told in words of what is wrong
    const { status } = err as { status?: number };
    if (status === undefined || status === 401) throw err;
  }
  const { agent } = await reachAgent(ctx, client, target, options.reach);
  return openTunnel(client, agent.id, options.tunnel);
}
