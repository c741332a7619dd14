// Who may have the node of an agent: who may connect to its workspace with SSH, while its build is the workspace's latest.
import { AppError } from '@ropewalk/kit';
import { may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { currentAgents } from '../../db/queries/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { workspaceObject } from '../find/workspace.ts';
import { isUuid } from '../values/ids.ts';

/** The agents with these ids that the actor may reach. */
export async function reachableAgents(ctx: Ctx, ids: readonly string[]): Promise<AgentIdentity[]> {
  const agents = await currentAgents(ctx.sql, ids.filter(isUuid));
  return agents.filter((agent) => may(ctx.actor, 'ssh', workspaceObject(agent)));
}

/**
 * Checks that the actor may join the tailnet, and reach an agent if it names one.
 * @throws AppError `not_found` if the actor may not reach the agent, `conflict` if people may connect through the browser
 * only. Upstream's clients show both, and retry without a message after other errors.
 */
export async function mayJoinTailnet(ctx: Ctx, agentId?: string): Promise<void> {
  if (agentId !== undefined) {
    if (!isUuid(agentId)) throw new AppError('invalid', `Invalid UUID "${agentId}".`);
    if ((await reachableAgents(ctx, [agentId])).length === 0) throw notFound();
  }
  if (ctx.config.browserOnly)
    throw new AppError('conflict', 'Non-browser connections are disabled for your deployment.');
}
