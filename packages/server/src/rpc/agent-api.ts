import { timestampDate } from '@bufbuild/protobuf/wkt';
import { AppError } from '@platform/kit';
import type { DrpcHandlers } from '@platform/wire/drpc';
import {
  type Agent,
  AppHealth,
  Lifecycle_State,
  Log_Level,
  Startup_Subsystem,
  Timing_Stage,
  Timing_Status,
  WorkspaceApp_Health,
  WorkspaceApp_SharingLevel,
} from '@platform/wire/proto/agent';
import type { Tailnet } from '@platform/wire/proto/tailnet';
import type { AppRow, ScriptRow } from '../app/agent/convert.ts';
import type { Services } from '../app/context.ts';
import { NIL_UUID } from '../app/ids.ts';
import { type AgentIdentity, agentById, insertAgentLogs } from '../db/queries/agents.ts';

const EXTERNAL_LOG_SOURCE = '3b579bf4-1ed8-4b99-87a8-e9a1e3410410';
const STATS_INTERVAL_SECONDS = 30n;
const MOST_METADATA_VALUE = 2_048;
const MOST_METADATA_KEYS = 6_144;

/** Ids on this wire are 16 raw bytes. */
export function uuidBytes(id: string): Uint8Array {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
export function uuidText(bytes: Uint8Array): string {
  if (bytes.length === 0) return NIL_UUID;
  if (bytes.length !== 16) throw new AppError('invalid', 'An id must be 16 bytes.');
  const hex = Buffer.from(bytes).toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const LIFECYCLES: Record<number, string> = {
  [Lifecycle_State.CREATED]: 'created',
  [Lifecycle_State.STARTING]: 'starting',
  [Lifecycle_State.START_TIMEOUT]: 'start_timeout',
  [Lifecycle_State.START_ERROR]: 'start_error',
  [Lifecycle_State.READY]: 'ready',
  [Lifecycle_State.SHUTTING_DOWN]: 'shutting_down',
  [Lifecycle_State.SHUTDOWN_TIMEOUT]: 'shutdown_timeout',
  [Lifecycle_State.SHUTDOWN_ERROR]: 'shutdown_error',
  [Lifecycle_State.OFF]: 'off',
};
const LEVELS: Record<number, string> = {
  [Log_Level.TRACE]: 'trace',
  [Log_Level.DEBUG]: 'debug',
  [Log_Level.INFO]: 'info',
  [Log_Level.WARN]: 'warn',
  [Log_Level.ERROR]: 'error',
};
const SHARING = {
  owner: WorkspaceApp_SharingLevel.OWNER,
  authenticated: WorkspaceApp_SharingLevel.AUTHENTICATED,
  organization: WorkspaceApp_SharingLevel.ORGANIZATION,
  public: WorkspaceApp_SharingLevel.PUBLIC,
} as const;
const APP_HEALTH = {
  disabled: WorkspaceApp_Health.DISABLED,
  initializing: WorkspaceApp_Health.INITIALIZING,
  healthy: WorkspaceApp_Health.HEALTHY,
  unhealthy: WorkspaceApp_Health.UNHEALTHY,
} as const;
const HEALTH_NAMES: Record<number, string> = {
  [AppHealth.DISABLED]: 'disabled',
  [AppHealth.INITIALIZING]: 'initializing',
  [AppHealth.HEALTHY]: 'healthy',
  [AppHealth.UNHEALTHY]: 'unhealthy',
};
const SUBSYSTEMS: Record<number, string> = {
  [Startup_Subsystem.ENVBOX]: 'envbox',
  [Startup_Subsystem.ENVBUILDER]: 'envbuilder',
  [Startup_Subsystem.EXECTRACE]: 'exectrace',
};
const STAGES: Record<number, string> = {
  [Timing_Stage.START]: 'start',
  [Timing_Stage.STOP]: 'stop',
  [Timing_Stage.CRON]: 'cron',
};
const STATUSES: Record<number, string> = {
  [Timing_Status.OK]: 'ok',
  [Timing_Status.EXIT_FAILURE]: 'exit_failure',
  [Timing_Status.TIMED_OUT]: 'timed_out',
  [Timing_Status.PIPES_LEFT_OPEN]: 'pipes_left_open',
};

/**
 * What an agent may call, for the agent of this connection only. Any failing call costs a published agent its whole
 * connection, so what is merely odd is put right instead of refused.
 */
export function agentApi(services: Services, agent: AgentIdentity): DrpcHandlers<typeof Agent> {
  const { sql, events } = services;
  const changed = () =>
    events.publish(sql, 'workspace_changed', { workspace_id: agent.workspace_id, owner_id: agent.owner_id });
  return {
    getManifest: () => manifest(services, agent),
    getServiceBanner: () => ({ enabled: false }),
    getAnnouncementBanners: () => ({ announcementBanners: [] }),

    async updateStartup({ startup }) {
      if (!startup) throw new AppError('invalid', 'The start-up report is empty.');
      const subsystems = startup.subsystems.flatMap((subsystem) => SUBSYSTEMS[subsystem] ?? []);
      await sql`UPDATE workspace_agents SET version = ${startup.version}, api_version = '2.6',
        expanded_directory = ${startup.expandedDirectory}, subsystems = ${subsystems}, updated_at = now() WHERE id = ${agent.id}`;
      return startup;
    },

    async updateLifecycle({ lifecycle }) {
      const state = lifecycle && LIFECYCLES[lifecycle.state];
      if (!lifecycle || !state) throw new AppError('invalid', 'Unknown lifecycle state.');
      const at =
        lifecycle.changedAt && lifecycle.changedAt.seconds > 0n ? timestampDate(lifecycle.changedAt) : new Date();
      const done = state === 'ready' || state === 'start_timeout' || state === 'start_error';
      await sql`UPDATE workspace_agents SET lifecycle_state = ${state}, updated_at = now(),
        started_at = CASE WHEN ${state === 'starting'} THEN ${at} WHEN ${done} THEN coalesce(started_at, ${at}) ELSE started_at END,
        ready_at = CASE WHEN ${state === 'starting'} THEN NULL WHEN ${done} THEN ${at} ELSE ready_at END
        WHERE id = ${agent.id}`;
      await changed();
      return lifecycle;
    },

    async batchCreateLogs({ logSourceId, logs }) {
      let source = uuidText(logSourceId);
      if (source === NIL_UUID) {
        source = EXTERNAL_LOG_SOURCE;
        await sql`INSERT INTO workspace_agent_log_sources (id, workspace_agent_id, display_name, icon)
          VALUES (${source}, ${agent.id}, 'External', '/emojis/1f310.png') ON CONFLICT DO NOTHING`;
      }
      const now = new Date();
      await insertAgentLogs(
        sql,
        agent.id,
        source,
        logs.map((line) => ({ createdAt: now, level: LEVELS[line.level] ?? 'info', output: line.output })),
      );
      await events.publish(sql, 'agent_logs', { agent_id: agent.id });
      // never "exceeded": a published agent would stay silent for ever; head and tail are kept here
      return { logLimitExceeded: false };
    },

    async scriptCompleted({ timing }) {
      if (!timing?.start || !timing.end) throw new AppError('invalid', 'A script timing needs its start and end.');
      const [start, end] = [timestampDate(timing.start), timestampDate(timing.end)];
      if (start > end) throw new AppError('invalid', 'A script can not end before it starts.');
      await sql`INSERT INTO workspace_agent_script_timings (script_id, started_at, ended_at, exit_code, stage, status)
        SELECT id, ${start}, ${end}, ${timing.exitCode}, ${STAGES[timing.stage] ?? 'start'}, ${STATUSES[timing.status] ?? 'ok'}
        FROM workspace_agent_scripts WHERE id = ${uuidText(timing.scriptId)} AND workspace_agent_id = ${agent.id}`;
      return {};
    },

    async updateStats({ stats }) {
      if (stats) {
        await sql`INSERT INTO workspace_agent_stats (agent_id, workspace_id, rx_bytes, tx_bytes, session_count_vscode,
            session_count_jetbrains, session_count_reconnecting_pty, session_count_ssh, connection_median_latency_ms)
          VALUES (${agent.id}, ${agent.workspace_id}, ${Number(stats.rxBytes)}, ${Number(stats.txBytes)}, ${Number(stats.sessionCountVscode)},
            ${Number(stats.sessionCountJetbrains)}, ${Number(stats.sessionCountReconnectingPty)}, ${Number(stats.sessionCountSsh)},
            ${stats.connectionMedianLatencyMs})`;
        const sessions =
          stats.sessionCountSsh +
          stats.sessionCountVscode +
          stats.sessionCountJetbrains +
          stats.sessionCountReconnectingPty;
        if (sessions > 0n) await sql`UPDATE workspaces SET last_used_at = now() WHERE id = ${agent.workspace_id}`;
      }
      return { reportInterval: { seconds: STATS_INTERVAL_SECONDS, nanos: 0 } };
    },

    async batchUpdateMetadata({ metadata }) {
      let keys = 0;
      for (const { key, result } of metadata) {
        keys += key.length;
        if (!result || keys > MOST_METADATA_KEYS) continue;
        const cut = result.value.length > MOST_METADATA_VALUE;
        const error = cut
          ? `value of ${result.value.length} bytes exceeded ${MOST_METADATA_VALUE} bytes`
          : result.error;
        await sql`UPDATE workspace_agent_metadata SET value = ${result.value.slice(0, MOST_METADATA_VALUE).replaceAll('\0', '')},
          error = ${error.slice(0, MOST_METADATA_VALUE)}, collected_at = now() WHERE workspace_agent_id = ${agent.id} AND key = ${key}`;
      }
      return {};
    },

    async batchUpdateAppHealths({ updates }) {
      for (const { id, health } of updates) {
        const name = HEALTH_NAMES[health];
        if (name)
          await sql`UPDATE workspace_apps SET health = ${name} WHERE id = ${uuidText(id)} AND agent_id = ${agent.id}`;
      }
      if (updates.length > 0) await changed();
      return {};
    },

    // a published agent reads `config` without looking whether it is there
    getResourcesMonitoringConfiguration: () => ({
      config: { numDatapoints: 20, collectionIntervalSeconds: 10 },
      volumes: [],
    }),
    pushResourcesMonitoringUsage: () => ({}),
    reportConnection: () => ({}),
    listSubAgents: () => ({ agents: [] }),
  };
}

async function manifest(services: Services, agent: AgentIdentity) {
  const { sql } = services;
  const [fresh, scripts, apps, metadata] = await Promise.all([
    agentById(sql, agent.id),
    sql<ScriptRow[]>`SELECT * FROM workspace_agent_scripts WHERE workspace_agent_id = ${agent.id} ORDER BY created_at`,
    sql<AppRow[]>`SELECT * FROM workspace_apps WHERE agent_id = ${agent.id} ORDER BY display_order, slug`,
    sql<{ key: string; display_name: string; script: string; interval_seconds: number; timeout_seconds: number }[]>`
      SELECT * FROM workspace_agent_metadata WHERE workspace_agent_id = ${agent.id} ORDER BY display_order`,
  ]);
  return {
    agentId: uuidBytes(agent.id),
    agentName: agent.name,
    ownerUsername: agent.owner_name,
    workspaceId: uuidBytes(agent.workspace_id),
    workspaceName: agent.workspace_name,
    gitAuthConfigs: 0,
    environmentVariables: fresh!.environment_variables,
    directory: agent.directory,
    vsCodePortProxyUri: '',
    motdPath: agent.motd_file,
    disableDirectConnections: true,
    derpForceWebsockets: false,
    scripts: scripts.map((script) => ({
      id: uuidBytes(script.id),
      logSourceId: uuidBytes(script.log_source_id),
      logPath: script.log_path,
      script: script.script,
      cron: script.cron,
      runOnStart: script.run_on_start,
      runOnStop: script.run_on_stop,
      startBlocksLogin: script.start_blocks_login,
      timeout: { seconds: BigInt(script.timeout_seconds), nanos: 0 },
      displayName: script.display_name,
    })),
    apps: apps.map((app) => ({
      id: uuidBytes(app.id),
      url: app.url ?? '',
      external: app.external,
      slug: app.slug,
      displayName: app.display_name,
      command: app.command ?? '',
      icon: app.icon,
      subdomain: app.subdomain,
      subdomainName: '',
      sharingLevel: SHARING[app.sharing_level],
      healthcheck: {
        url: app.healthcheck_url,
        interval: { seconds: BigInt(app.healthcheck_interval), nanos: 0 },
        threshold: app.healthcheck_threshold,
      },
      health: APP_HEALTH[app.health],
      hidden: app.hidden,
    })),
    // published agents read the nanoseconds of these two as seconds
    metadata: metadata.map((item) => ({
      displayName: item.display_name,
      key: item.key,
      script: item.script,
      interval: { seconds: 0n, nanos: item.interval_seconds },
      timeout: { seconds: 0n, nanos: item.timeout_seconds },
    })),
    devcontainers: [],
  };
}

/** Keeps published agents content: a map without relays, and a coordinator that knows no peers. */
export function tailnetApi(): DrpcHandlers<typeof Tailnet> {
  const untilAborted = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  return {
    async *streamDERPMaps(_request, { signal }) {
      yield { homeParams: {}, regions: {} };
      await untilAborted(signal);
    },
    async *coordinate(requests, { signal }) {
      const drain = (async () => {
        for await (const request of requests) if (request.disconnect) break;
      })();
      await Promise.race([drain, untilAborted(signal)]);
    },
    refreshResumeToken: () => ({
      token: '',
      refreshIn: { seconds: 3600n, nanos: 0 },
      expiresAt: { seconds: BigInt(Math.floor(Date.now() / 1000) + 86_400), nanos: 0 },
    }),
    postTelemetry: () => ({}),
  };
}
