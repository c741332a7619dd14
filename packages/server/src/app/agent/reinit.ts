import { errorText } from '@platform/kit';
import type { FastifyReply } from 'fastify';
import type { Db } from '../../db/connect.ts';
import { type AgentIdentity, agentByToken } from '../../db/queries/agents.ts';
import type { Ctx, Services } from '../context.ts';
import { openEventStream } from '../event-stream.ts';

export const CLAIMED = 'prebuild_claimed';

/** Has the agents of a workspace start over, once the transaction commits: it was claimed, and is another person's now. */
export async function askToReinit({ events }: Services, db: Db, workspaceId: string): Promise<void> {
  await events.publish(db, 'agent_reinit', { workspace_id: workspaceId, reason: CLAIMED });
}

/** The published stream: pings until the agent has to start over, then says so once and ends. */
export function streamReinit(ctx: Ctx, reply: FastifyReply, agent: AgentIdentity): void {
  const { raw, stopPings } = openEventStream(reply);
  const off = ctx.events.on('agent_reinit', ({ workspace_id: id, reason }) => {
    if (id !== agent.workspace_id) return;
    // said once: nothing may be written after the end
    stop();
    // the published agent knows the id by this spelling
    raw.end(`event: data\ndata: ${JSON.stringify({ WorkspaceID: id, reason })}\n\n`);
  });
  // another build's agents speak now
  const outdated = ctx.events.on('workspace_changed', ({ workspace_id: id, agents_outdated: ended }) => {
    if (id !== agent.workspace_id || !ended) return;
    agentByToken(ctx.sql, agent.auth_token).then(
      (current) => current ?? raw.end(),
      (err) => ctx.log.warn('could not check the stream of an agent', { err: errorText(err) }),
    );
  });
  const stop = () => {
    stopPings();
    off();
    outdated();
  };
  raw.on('close', stop);
}
