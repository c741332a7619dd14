import type { Client } from '@ropewalk/client';
import type { Tunnel, TunnelOptions } from '@ropewalk/client/stream';
import type { Context } from '../../framework/context.ts';
import { type ReachOptions, reachAgent } from '../../lib/running.ts';
import { splitWorkspaceName, type Target } from '../../lib/workspace.ts';

/**
 * Opens a tunnel to a service of a workspace's agent. One request is enough if the workspace runs and its agent is ready.
 * Otherwise starts the workspace and waits for its agent.
 */
export async function openAgentTunnel(
  ctx: Context,
  client: Client,
  target: Target,
  options: { reach: ReachOptions; tunnel: TunnelOptions },
): Promise<Tunnel> {
  const { openTunnel } = await import('@ropewalk/client/stream');
  const { owner, name } = splitWorkspaceName(target.workspace);
  try {
    return await openTunnel(client, { owner, workspace: name, agent: target.agent }, options.tunnel);
  } catch (err) {
    // find out why the server rejected the request: a stopped workspace, a missing agent
    const { status } = err as { status?: number };
    if (status === undefined || status === 401) throw err;
  }
  const { agent } = await reachAgent(ctx, client, target, options.reach);
  return openTunnel(client, agent.id, options.tunnel);
}
