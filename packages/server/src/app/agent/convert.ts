import type { WorkspaceAgent, WorkspaceApp } from '@platform/contract';
import type { Clock } from '@platform/kit';
import { optionalTime, time } from '../user/convert.ts';

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
  created_at: Date;
  updated_at: Date;
}

export interface AppRow {
  id: string;
  agent_id: string;
  slug: string;
  display_name: string;
  icon: string;
  command: string | null;
  url: string | null;
  external: boolean;
  subdomain: boolean;
  sharing_level: WorkspaceApp['sharing_level'];
  hidden: boolean;
  open_in: WorkspaceApp['open_in'];
  display_group: string;
  display_order: number;
  healthcheck_url: string;
  healthcheck_interval: number;
  healthcheck_threshold: number;
  health: WorkspaceApp['health'];
}

export interface ScriptRow {
  id: string;
  workspace_agent_id: string;
  log_source_id: string;
  display_name: string;
  log_path: string;
  script: string;
  cron: string;
  run_on_start: boolean;
  run_on_stop: boolean;
  start_blocks_login: boolean;
  timeout_seconds: number;
}

export interface LogSourceRow {
  id: string;
  workspace_agent_id: string;
  display_name: string;
  icon: string;
  created_at: Date;
}

/** Silence that makes an agent disconnected. */
export const AGENT_SILENCE_MS = 30_000;

export function agentStatus(
  agent: Pick<
    AgentRow,
    'first_connected_at' | 'last_connected_at' | 'disconnected_at' | 'created_at' | 'connection_timeout_seconds'
  >,
  now: Date,
): { status: WorkspaceAgent['status']; disconnectedAt: Date | null } {
  const { first_connected_at: first, last_connected_at: last, disconnected_at: gone } = agent;
  if (!first || !last) {
    const limit = agent.connection_timeout_seconds * 1000;
    const timedOut = limit > 0 && now.getTime() - agent.created_at.getTime() > limit;
    return { status: timedOut ? 'timeout' : 'connecting', disconnectedAt: null };
  }
  if (gone && gone >= last) return { status: 'disconnected', disconnectedAt: gone };
  if (now.getTime() - last.getTime() > AGENT_SILENCE_MS) return { status: 'disconnected', disconnectedAt: last };
  return { status: 'connected', disconnectedAt: null };
}

/** In words, why an agent is not healthy. */
function health(
  status: WorkspaceAgent['status'],
  lifecycle: WorkspaceAgent['lifecycle_state'],
): WorkspaceAgent['health'] {
  if (status === 'timeout') return { healthy: false, reason: 'agent is taking too long to connect' };
  if (status === 'disconnected') return { healthy: false, reason: 'agent has lost connection' };
  if (lifecycle === 'start_error') return { healthy: false, reason: 'agent startup script exited with an error' };
  if (lifecycle === 'start_timeout') return { healthy: false, reason: 'agent startup script timed out' };
  if (lifecycle === 'shutting_down') return { healthy: false, reason: 'agent is shutting down' };
  if (status === 'connecting') return { healthy: false, reason: 'agent has not yet connected' };
  if (lifecycle === 'starting') return { healthy: true, reason: 'agent startup script is still running' };
  return { healthy: true };
}

export interface AgentParts {
  apps: AppRow[];
  scripts: ScriptRow[];
  logSources: LogSourceRow[];
}

export function toAgent(agent: AgentRow, parts: AgentParts, clock: Clock): WorkspaceAgent {
  const { status, disconnectedAt } = agentStatus(agent, clock.now());
  return {
    id: agent.id,
    parent_id: agent.parent_id,
    created_at: time(agent.created_at),
    updated_at: time(agent.updated_at),
    ...optionalTime('first_connected_at', agent.first_connected_at),
    ...optionalTime('last_connected_at', agent.last_connected_at),
    ...optionalTime('disconnected_at', disconnectedAt),
    ...optionalTime('started_at', agent.started_at),
    ...optionalTime('ready_at', agent.ready_at),
    status,
    lifecycle_state: agent.lifecycle_state,
    name: agent.name,
    resource_id: agent.resource_id,
    ...(agent.auth_instance_id ? { instance_id: agent.auth_instance_id } : {}),
    architecture: agent.architecture,
    environment_variables: agent.environment_variables,
    operating_system: agent.operating_system,
    logs_length: agent.logs_length,
    logs_overflowed: agent.logs_overflowed,
    directory: agent.directory,
    expanded_directory: agent.expanded_directory,
    version: agent.version,
    api_version: agent.api_version,
    apps: parts.apps.sort((a, b) => a.display_order - b.display_order || (a.slug < b.slug ? -1 : 1)).map(toApp),
    connection_timeout_seconds: agent.connection_timeout_seconds,
    troubleshooting_url: agent.troubleshooting_url,
    subsystems: agent.subsystems as WorkspaceAgent['subsystems'],
    health: health(status, agent.lifecycle_state),
    display_apps: agent.display_apps as WorkspaceAgent['display_apps'],
    log_sources: parts.logSources.map((source) => ({ ...source, created_at: time(source.created_at) })),
    scripts: parts.scripts.map((script) => ({
      id: script.id,
      log_source_id: script.log_source_id,
      log_path: script.log_path,
      script: script.script,
      cron: script.cron,
      run_on_start: script.run_on_start,
      run_on_stop: script.run_on_stop,
      start_blocks_login: script.start_blocks_login,
      // Go's durations are nanoseconds
      timeout: script.timeout_seconds * 1e9,
      display_name: script.display_name,
    })),
    startup_script_behavior: parts.scripts.some((script) => script.start_blocks_login) ? 'blocking' : 'non-blocking',
  };
}

function toApp(app: AppRow): WorkspaceApp {
  return {
    id: app.id,
    url: app.url ?? '',
    external: app.external,
    slug: app.slug,
    display_name: app.display_name,
    command: app.command ?? '',
    icon: app.icon,
    subdomain: app.subdomain,
    sharing_level: app.sharing_level,
    healthcheck: { url: app.healthcheck_url, interval: app.healthcheck_interval, threshold: app.healthcheck_threshold },
    health: app.health,
    group: app.display_group,
    hidden: app.hidden,
    open_in: app.open_in,
    statuses: [],
  };
}
