import { AppError } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { type AgentIdentity, agentById, agentByToken } from '../../db/queries/agents.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { workspaceObject } from '../workspace/find.ts';

/** The agent that a token speaks for: of the latest build, or of the one before while a stop still runs. */
export async function findAgentForToken(ctx: Ctx, token: string | undefined): Promise<AgentIdentity> {
  const refuse = (detail: string) => new AppError('unauthenticated', 'Workspace agent not authorized.', { detail });
  if (!token) throw refuse('No agent token was sent.');
  if (!isUuid(token)) throw refuse('An agent token is a uuid.');
  const agent = await agentByToken(ctx.sql, token);
  if (!agent) throw refuse('The token is of no agent of the latest build of a workspace.');
  return agent;
}

/** An agent by id, of a workspace that the actor may read. */
export async function findReadableAgent(ctx: Ctx, id: string): Promise<AgentIdentity> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const agent = await agentById(ctx.sql, id);
  if (!agent) throw notFound();
  authorize(ctx, 'read', workspaceObject(agent));
  return agent;
}
