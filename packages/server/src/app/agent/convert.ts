import type { TailnetDERPMap, WorkspaceAgent, WorkspaceApp } from '@ropewalk/contract';
import type { Clock } from '@ropewalk/kit';
import type { LogSourceRow } from '../../db/queries/agent-parts.ts';
import type { AgentNetwork, AgentRow, AppRow, ScriptRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { relayLatencies } from '../tailnet/relay-latencies.ts';
import { subdomainName } from '../values/app-address.ts';
import { optionalTime, time } from '../values/time.ts';
import { listedUrl } from './external-apps.ts';
import { agentHealth, type Evidence } from './health.ts';
import { agentSight } from './status.ts';

export interface AgentDetails {
  evidence: Evidence | undefined;
  /** Whether the viewer sees the agent only because its workspace is shared. */
  isShared: boolean;
  /** The troubleshooting URL of agents whose template sets none. */
  fallbackTroubleshootingUrl: string;
  apps: AppRow[];
  /** The workspace and its owner, for the links of apps. Agents of a template have none, and others without need. */
  workspace: { name: string; owner: string; owner_id: string; of_sub_agent: boolean } | undefined;
  /** Who sees the agent, and at which server. */
  viewer: Pick<Ctx, 'actor' | 'accessUrl'>;
  relays: Pick<TailnetDERPMap, 'Regions'>;
  scripts: ScriptRow[];
  logSources: LogSourceRow[];
}

export function toAgent(agent: AgentRow, details: AgentDetails, clock: Clock): WorkspaceAgent {
  const sight = agentSight(agent, clock.now());
  const { status, disconnectedAt } = sight;
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
    environment_variables: details.isShared ? {} : agent.environment_variables,
    operating_system: agent.operating_system,
    logs_length: agent.logs_length,
    logs_overflowed: agent.logs_overflowed,
    directory: agent.directory,
    expanded_directory: agent.expanded_directory,
    version: agent.version,
    api_version: agent.api_version,
    ...(agent.network && status === 'connected' ? { latency: latencyOf(agent.network, details.relays) } : {}),
    apps: details.apps
      .sort((a, b) => a.display_order - b.display_order || (a.slug < b.slug ? -1 : 1))
      .map((app) => toApp(app, agent, details)),
    connection_timeout_seconds: agent.connection_timeout_seconds,
    troubleshooting_url: agent.troubleshooting_url || details.fallbackTroubleshootingUrl,
    subsystems: agent.subsystems as WorkspaceAgent['subsystems'],
    health: agentHealth(agent, sight, details.evidence),
    display_apps: agent.display_apps as WorkspaceAgent['display_apps'],
    log_sources: details.logSources.map((source) => ({ ...source, created_at: time(source.created_at) })),
    scripts: details.scripts.map((script) => ({
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
      ...(script.status === null ? {} : { status: script.status, exit_code: script.exit_code ?? 0 }),
    })),
    startup_script_behavior: details.scripts.some((script) => script.start_blocks_login) ? 'blocking' : 'non-blocking',
  };
}

function latencyOf(network: AgentNetwork, relays: AgentDetails['relays']): NonNullable<WorkspaceAgent['latency']> {
  return Object.fromEntries(
    relayLatencies(network, relays).map(({ region, seconds, preferred }) => [
      region,
      { latency_ms: Math.round(seconds * 1e6) / 1e3, preferred },
    ]),
  );
}

function toApp(app: AppRow, agent: AgentRow, { workspace, viewer }: AgentDetails): WorkspaceApp {
  return {
    id: app.id,
    url: listedUrl(app, workspace, viewer),
    external: app.external,
    slug: app.slug,
    display_name: app.display_name,
    command: app.command ?? '',
    icon: app.icon,
    subdomain: app.subdomain,
    ...(app.subdomain && workspace
      ? { subdomain_name: subdomainName(app.slug, agent.name, workspace.name, workspace.owner) }
      : {}),
    sharing_level: app.sharing_level,
    healthcheck: { url: app.healthcheck_url, interval: app.healthcheck_interval, threshold: app.healthcheck_threshold },
    health: app.health,
    group: app.display_group,
    hidden: app.hidden,
    open_in: app.open_in,
    tooltip: app.tooltip,
    statuses: app.statuses,
  };
}
