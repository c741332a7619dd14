import type { WorkspaceAgent } from '@ropewalk/contract';
import type { Ctx } from '../context/context.ts';
import { findReadableAgent } from '../find/agent.ts';
import { readAgents } from './resources.ts';

export async function getAgent(ctx: Ctx, id: string): Promise<WorkspaceAgent> {
  const { id: agentId } = await findReadableAgent(ctx, id);
  const [agent] = await readAgents(ctx, ctx.sql, { agentIds: [agentId] });
  return agent!;
}
