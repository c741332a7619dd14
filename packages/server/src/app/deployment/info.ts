import type {
  AppHostResponse,
  AvailableExperiments,
  DeploymentConfig,
  DeploymentStats,
  Entitlements,
  Experiment,
  SSHConfigResponse,
} from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import type { Config } from '../../config/options.ts';
import { deploymentConfig } from '../../config/values.ts';
import { agentTraffic, sessionCounts, workspaceCounts } from '../../db/queries/deployment-stats.ts';
import type { Ctx, Services } from '../context/context.ts';
import { appHost } from '../values/app-address.ts';
import { time } from '../values/time.ts';

/** Every option with its value. Secrets are blank. */
export function getDeploymentConfig(ctx: Ctx): DeploymentConfig {
  authorize(ctx, 'read', { type: 'deployment_config' });
  return deploymentConfig(ctx.config, ctx.optionSources);
}

/** The options that the command line writes into people's SSH configuration. */
export function sshConfig({ config }: Ctx): SSHConfigResponse {
  return {
    hostname_prefix: config.sshHostnamePrefix,
    hostname_suffix: config.workspaceHostnameSuffix,
    ssh_config_options: Object.fromEntries(
      config.sshConfigOptions.map((text) => {
        const at = text.search(/[\s=]/);
        return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1).trim()];
      }),
    ),
  };
}

const WINDOW_MS = 15 * 60_000;
const STATS_LIVE_MS = 60_000;
/** Agents report every 30 seconds while they have sessions, and the server writes reports every 15. */
const SESSIONS_MS = 60_000;

/** The number of workspaces by status, and the traffic of the last 15 minutes. */
export async function deploymentStats(ctx: Ctx): Promise<DeploymentStats> {
  authorize(ctx, 'read', { type: 'deployment_stats' });
  const now = ctx.clock.now();
  const from = new Date(now.getTime() - WINDOW_MS);
  const builds = await workspaceCounts(ctx.sql);
  const traffic = await agentTraffic(ctx.lists, from);
  const sessions = await sessionCounts(ctx.lists, new Date(now.getTime() - SESSIONS_MS));
  return {
    aggregated_from: time(from),
    collected_at: time(now),
    next_update_at: time(new Date(now.getTime() + STATS_LIVE_MS)),
    session_count: sessions,
    workspaces: {
      ...builds,
      rx_bytes: traffic.rx,
      tx_bytes: traffic.tx,
      connection_latency_ms: { P50: traffic.p50, P95: traffic.p95 },
    },
  };
}

/**
 * Upstream's experiments whose functions are always on here. Its dashboard and its command offer a function only if the
 * server lists its experiment.
 */
const ALWAYS_ON: readonly Experiment[] = [
  'notifications',
  'workspace-usage',
  'web-push',
  'oauth2',
  'mcp-server-http',
  'workspace-build-updates',
  'minimum-implicit-member',
];
/** Upstream's other experiments up to version 2.36. */
const MISSING: readonly string[] = [
  'example',
  'auto-fill-parameters',
  'nats_pubsub',
  'workspace-capable-licensing',
  'ai-gateway-seat-exclusion',
  'chat-advisor',
  'chat-virtual-desktop',
];

/** The enabled experiments, which no option changes. */
export function experiments(): readonly Experiment[] {
  return ALWAYS_ON;
}

/** Logs a warning for each configured experiment that has no effect. */
export function warnOfExperiments({ config, log }: Pick<Services, 'config' | 'log'>): void {
  const on: readonly string[] = ALWAYS_ON;
  for (const experiment of config.experiments) {
    if (on.includes(experiment)) continue;
    const known = experiment === '*' || MISSING.includes(experiment);
    log.warn(known ? 'an experiment has no effect on this server' : 'an experiment is unknown', { experiment });
  }
}

/** The experiments that are safe to enable together: none. */
export function availableExperiments(): AvailableExperiments {
  return { safe: [] };
}

/** Upstream's features up to version 2.36, and whether this server has them. None requires a license. */
const FEATURES: Readonly<Record<string, boolean | ((config: Config) => boolean)>> = {
  access_control: true,
  advanced_template_scheduling: true,
  ai_governance_user_limit: false,
  aibridge: false,
  appearance: true,
  audit_log: true,
  boundary: false,
  browser_only: (config) => config.browserOnly,
  connection_log: true,
  control_shared_ports: true,
  custom_roles: true,
  external_provisioner_daemons: true,
  external_token_encryption: (config) => config.externalTokenEncryptionKeys.length > 0,
  high_availability: false,
  managed_agent_limit: false,
  multiple_external_auth: true,
  multiple_organizations: true,
  scim: (config) => config.scimAuthHeader !== '',
  service_accounts: true,
  task_batch_actions: false,
  template_rbac: true,
  user_limit: false,
  user_role_management: true,
  // upstream's dashboard starts, stops and deletes the workspaces one by one
  workspace_batch_actions: true,
  workspace_external_agent: true,
  workspace_prebuilds: true,
  workspace_proxy: true,
};

/** Upstream's dashboard looks at `has_license` before any feature, and shows walls without it. */
export function entitlements({ clock, config }: Ctx): Entitlements {
  return {
    errors: [],
    warnings: [],
    has_license: true,
    trial: false,
    require_telemetry: false,
    refreshed_at: time(clock.now()),
    features: Object.fromEntries(
      Object.entries(FEATURES).map(([name, there]) => [
        name,
        { enabled: typeof there === 'function' ? there(config) : there, entitlement: 'entitled' as const },
      ]),
    ),
  };
}

export function applicationsHost(ctx: Ctx): AppHostResponse {
  return { host: appHost(ctx) };
}
