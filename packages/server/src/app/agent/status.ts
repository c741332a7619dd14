import type { WorkspaceAgent } from '@ropewalk/contract';
import type { AgentRow } from '../../db/rows.ts';

export interface AgentSight {
  status: WorkspaceAgent['status'];
  disconnectedAt: Date | null;
  /** Whether the agent stopped sending without closing its connection. */
  silent: boolean;
}

/** The silence after which an agent counts as disconnected, in ms. */
export const AGENT_SILENCE_MS = 30_000;

/** Whether an agent is connected, from its row and the current time. */
export function agentSight(
  agent: Pick<
    AgentRow,
    'first_connected_at' | 'last_connected_at' | 'disconnected_at' | 'created_at' | 'connection_timeout_seconds'
  >,
  now: Date,
): AgentSight {
  const { first_connected_at: first, last_connected_at: last, disconnected_at: gone } = agent;
  if (!first || !last) {
    const limit = agent.connection_timeout_seconds * 1000;
    const timedOut = limit > 0 && now.getTime() - agent.created_at.getTime() > limit;
    return { status: timedOut ? 'timeout' : 'connecting', disconnectedAt: null, silent: false };
  }
  if (gone && gone >= last) return { status: 'disconnected', disconnectedAt: gone, silent: false };
  if (now.getTime() - last.getTime() > AGENT_SILENCE_MS)
    return { status: 'disconnected', disconnectedAt: last, silent: true };
  return { status: 'connected', disconnectedAt: null, silent: false };
}
