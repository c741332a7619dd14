import { AppError } from '@ropewalk/kit';
import { type Allowed, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { type ConnectedAgent, connectedAgent } from '../../authz/proofs.ts';
import { agentById, agentByToken, agentsOfRunning } from '../../db/queries/agents.ts';
import { workspacePlace } from '../../db/queries/workspaces.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx, Services } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';
import { ownerIdOf, workspaceObject } from './workspace.ts';

/** Finds the agent of a token: in the latest build, or in the previous one while a stop runs. */
export async function findAgentForToken(
  { sql }: Pick<Services, 'sql'>,
  token: string | undefined,
): Promise<ConnectedAgent<AgentIdentity>> {
  const unauthorized = (detail: string) =>
    new AppError('unauthenticated', 'Workspace agent not authorized.', { detail });
  if (!token) throw unauthorized('The request has no agent token.');
  if (!isUuid(token)) throw unauthorized('An agent token must be a UUID.');
  const agent = await agentByToken(sql, token);
  if (!agent) throw unauthorized('The token belongs to no agent of the latest build of a workspace.');
  return connectedAgent(agent);
}

/** Finds an agent by id, of a workspace that the actor may read. */
export async function findReadableAgent(ctx: Ctx, id: string): Promise<Allowed<'read', AgentIdentity>> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const agent = await agentById(ctx.sql, id);
  if (!agent) throw notFound();
  return allow(ctx, 'read', agent, workspaceObject(agent));
}

/**
 * The permission for an action on an agent's workspace, for streams: the workspace is read again each time, because it may
 * no longer be shared.
 */
export const agentPermission =
  (action: Action, { workspace_id: id }: Pick<AgentIdentity, 'workspace_id'>) =>
  async (ctx: Ctx): Promise<void> => {
    const place = await workspacePlace(ctx.sql, id);
    if (!place) throw notFound();
    authorize(ctx, action, workspaceObject(place));
  };

/**
 * Finds the named agent of a running workspace, or without a name the only one that is not a dev container's.
 * @throws AppError `not_found` if the workspace has no such agent, `conflict` if the agent is not ready
 */
export async function findReadyAgent(
  ctx: Ctx,
  user: string,
  workspace: string,
  name: string,
): Promise<Allowed<'read', AgentIdentity>> {
  const found = await agentsOfRunning(ctx.sql, await ownerIdOf(ctx, user), workspace);
  if (found.length === 0) throw notFound();
  const agents = found.map((agent) => allow(ctx, 'read', agent, workspaceObject(agent)));
  const wanted = agents.filter((agent) => (name === '' ? agent.parent_id === null : agent.name === name));
  if (wanted.length !== 1) {
    const names = agents.map((agent) => agent.name).join(', ');
    const why = name === '' ? 'Choose an agent' : `Agent ${JSON.stringify(name)} not found`;
    throw new AppError('not_found', `${why}. The workspace has: ${names}.`);
  }
  const agent = wanted[0]!;
  if (agent.lifecycle_state !== 'ready')
    throw new AppError('conflict', `The agent is not ready: its state is ${agent.lifecycle_state}.`);
  return agent;
}
