import type { WorkspaceAgentMetadata } from '@ropewalk/contract';
import { type MetadataRow, metadataOfAgent } from '../../db/queries/agent-parts.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { agentPermission } from '../find/agent.ts';
import type { Source } from '../follow/follow.ts';
import { NEVER, time } from '../values/time.ts';

/** How often a reader of an agent's metadata announces itself to the agent's server, in ms. */
export const WATCH_AGAIN_MS = 8_000;
/** How often to check without a change event, in ms. */
const LOOK_ANYWAY_MS = 5_000;

function toMetadata(row: MetadataRow, now: Date): WorkspaceAgentMetadata {
  const age = row.collected_at ? Math.max(0, Math.round((now.getTime() - row.collected_at.getTime()) / 1_000)) : 0;
  return {
    result: {
      collected_at: row.collected_at ? time(row.collected_at) : NEVER,
      age,
      value: row.value,
      error: row.error,
    },
    description: {
      display_name: row.display_name,
      key: row.key,
      script: row.script,
      interval: row.interval_seconds,
      timeout: row.timeout_seconds,
    },
  };
}

/** All values of an agent each time one changes. The agent reports changes immediately meanwhile. */
export function metadataSource(ctx: Ctx, agent: AgentIdentity): Source {
  const { events, sql, clock } = ctx;
  let due = true;
  let looked = 0;
  let last = '';
  return {
    permission: agentPermission('read', agent),
    subscribe(wake) {
      const say = () => events.publishSoon('agent_watched', { agent_id: agent.id });
      say();
      const timer = setInterval(say, WATCH_AGAIN_MS);
      const off = events.on('agent_metadata', ({ agent_ids }) => {
        if (!agent_ids.includes(agent.id)) return;
        due = true;
        wake();
      });
      return () => {
        clearInterval(timer);
        off();
      };
    },
    async next() {
      const now = performance.now();
      if (!due && now - looked < LOOK_ANYWAY_MS) return { messages: [], more: false, end: false };
      due = false;
      looked = now;
      const rows = await metadataOfAgent(sql, agent.id);
      const state = JSON.stringify(rows);
      if (state === last) return { messages: [], more: false, end: false };
      last = state;
      const values = rows.map((row) => toMetadata(row, clock.now()));
      return { messages: [JSON.stringify(values)], more: false, end: false };
    },
  };
}
