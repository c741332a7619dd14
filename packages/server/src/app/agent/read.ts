import type { WorkspaceAgent } from '@platform/contract';
import type { Ctx } from '../context.ts';
import { readAgents } from '../workspace/resources.ts';
import { findReadableAgent } from './find.ts';

export async function getAgent(ctx: Ctx, id: string): Promise<WorkspaceAgent> {
  const { id: agentId } = await findReadableAgent(ctx, id);
  const [agent] = await readAgents(ctx, ctx.sql, { agentIds: [agentId] });
  return agent!;
}
