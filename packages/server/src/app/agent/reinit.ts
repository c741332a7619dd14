import { errorText } from '@ropewalk/kit';
import type { Db } from '../../db/connect.ts';
import { agentByToken } from '../../db/queries/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx, Services } from '../context/context.ts';
import type { Source } from '../follow/follow.ts';

export const CLAIMED = 'prebuild_claimed';

/**
 * Makes the agents of a workspace reinitialize once the transaction commits: another person has claimed the workspace.
 */
export async function askToReinit(
  { events }: Services,
  db: Db,
  workspace: { workspace_id: string; owner_id: string },
): Promise<void> {
  await events.publish(db, 'agent_reinit', { ...workspace, reason: CLAIMED });
}

/** Nothing until the agent has to start over, then one message that says so. It also ends once a newer build has agents. */
export function reinitSource(ctx: Ctx, agent: AgentIdentity): Source {
  let message: string | undefined;
  let doubtful = false;
  return {
    // the agent showed its token, and no person is behind it
    permission: () => {},
    subscribe(wake) {
      const off = [
        ctx.events.on('agent_reinit', ({ workspace_id: id, owner_id, reason }) => {
          if (id !== agent.workspace_id) return;
          // upstream's agents before 2.32 read the id by the first spelling
          message ??= JSON.stringify({ WorkspaceID: id, workspace_id: id, owner_id, reason });
          wake();
        }),
        ctx.events.on('workspace_changed', ({ workspace_id: id, agents_outdated: outdated }) => {
          if (id !== agent.workspace_id || !outdated) return;
          doubtful = true;
          wake();
        }),
      ];
      return () => {
        for (const stop of off) stop();
      };
    },
    async next() {
      if (message !== undefined) return { messages: [message], more: false, end: true };
      if (!doubtful) return { messages: [], more: false, end: false };
      doubtful = false;
      try {
        const current = await agentByToken(ctx.sql, agent.auth_token);
        return { messages: [], more: false, end: !current };
      } catch (err) {
        doubtful = true;
        ctx.log.warn('could not check the stream of an agent', { err: errorText(err) });
        return { messages: [], more: false, end: false };
      }
    },
  };
}
