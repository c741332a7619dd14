import type { WorkspaceAgent } from '@platform/contract';

export interface AgentRow {
  id: string;
  parent_id: string | null;
  resource_id: string;
  name: string;
  auth_token: string;
  auth_instance_id: string | null;
  architecture: string;
  operating_system: string;
  environment_variables: Record<string, string>;
  directory: string;
  expanded_directory: string;
  motd_file: string;
  troubleshooting_url: string;
  connection_timeout_seconds: number;
  display_apps: string[];
  display_order: number;
  api_key_scope: string;
  version: string;
  api_version: string;
  subsystems: string[];
  capabilities: string[];
  ssh_host_key: string;
  lifecycle_state: WorkspaceAgent['lifecycle_state'];
  started_at: Date | null;
  ready_at: Date | null;
  first_connected_at: Date | null;
  last_connected_at: Date | null;
  disconnected_at: Date | null;
  logs_length: number;
  logs_overflowed: boolean;
  /** Whether its present connection serves streams; unknown before the first. */
  reachable: boolean | null;
  /** In words, which resources are used beyond what the template allows; mostly empty. */
  resource_alerts: string;
  created_at: Date;
  updated_at: Date;
}

export interface AgentSight {
  status: WorkspaceAgent['status'];
  disconnectedAt: Date | null;
  /** It did not end its connection: nothing was heard from it. */
  silent: boolean;
}

/** Silence that makes an agent disconnected. */
export const AGENT_SILENCE_MS = 30_000;

/** Whether an agent is there, by what its row and the clock say. */
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
