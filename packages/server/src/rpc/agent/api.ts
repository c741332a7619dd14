import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { AppError } from '@ropewalk/kit';
import type { DrpcHandlers } from '@ropewalk/wire/drpc';
import { LOG_SEQUENCE_KEY, parseLogNumbers } from '@ropewalk/wire/log-sequence';
import { type Agent, Connection_Action, type Stats } from '@ropewalk/wire/proto/agent';
import { setAppStatus } from '../../app/agent/app-status.ts';
import type { ConnectionReports } from '../../app/agent/connections.ts';
import { writeAgentLogs } from '../../app/agent/logs.ts';
import { agentMonitors } from '../../app/agent/monitoring.ts';
import type { AgentReports } from '../../app/agent/reports.ts';
import type { AgentWrites } from '../../app/agent/writes.ts';
import type { Services } from '../../app/context/context.ts';
import { NIL_UUID } from '../../app/values/ids.ts';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { LAST_TIME } from '../../db/connect.ts';
import { STARTED } from '../../db/queries/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { uuidText } from './ids.ts';
import { manifest } from './manifest.ts';
import {
  APP_STATES,
  CONNECTION_TYPES,
  HEALTH_NAMES,
  LEVELS,
  LIFECYCLES,
  STAGES,
  STATUSES,
  SUBSYSTEMS,
} from './names.ts';
import type { SecretChanges } from './secret-changes.ts';
import { subAgentApi } from './sub-agents.ts';

const STATS_INTERVAL_SECONDS = 30n;

type AgentCalls = DrpcHandlers<typeof Agent>;

/** A reported count, limited to what the database can store. */
function count(reported: bigint): number {
  return Math.min(Math.max(0, Number(reported)), Number.MAX_SAFE_INTEGER);
}

/** The numbers of sessions by type. Agents from API 2.11 on report those of SSH by the name of the app. */
function sessionCounts(stats: Stats) {
  const of = (name: string, field: bigint) => count(stats.sessionCounts[name] ?? field);
  return {
    vscode: of('vscode', stats.sessionCountVscode),
    jetbrains: of('jetbrains', stats.sessionCountJetbrains),
    reconnectingPty: count(stats.sessionCountReconnectingPty),
    ssh: of('ssh', stats.sessionCountSsh),
  };
}

/** A reported time, or now if there is none after 1970 that clients can read. */
function reportedTime(timestamp: Timestamp | undefined): Date {
  if (!timestamp || timestamp.seconds <= 0n) return new Date();
  const at = timestampDate(timestamp);
  return at <= LAST_TIME ? at : new Date();
}

/** What this server does with the reports of its agents. */
export interface AgentSinks {
  reports: AgentReports;
  writes: AgentWrites;
  reportConnection: ConnectionReports;
  secrets: Pick<SecretChanges, 'fetched'>;
  metrics: Metrics;
}

/**
 * The calls of one connected agent about itself. A failing call costs upstream's agents their whole connection, so odd
 * values are corrected instead of rejected.
 */
export function agentApi(services: Services, sinks: AgentSinks, agent: ConnectedAgent<AgentIdentity>): AgentCalls {
  return {
    getManifest: () => manifest(services, agent, (version) => sinks.secrets.fetched(agent.id, version)),
    getServiceBanner: () => ({ enabled: false }),
    getAnnouncementBanners: () => ({ announcementBanners: [] }),
    ...lifecycleCalls(services, sinks, agent),
    ...logCalls(services, agent),
    ...appCalls(services, sinks, agent),
    ...statisticsCalls(sinks, agent),
    ...monitoringCalls(services, sinks, agent),
    ...connectionCalls(sinks, agent),
    ...subAgentApi(services, agent),
  };
}

function publishChange({ events }: Services, { workspace_id, owner_id }: ConnectedAgent<AgentIdentity>): void {
  events.publishSoon('workspace_changed', { workspace_id, owner_id });
}

function lifecycleCalls(
  services: Services,
  { writes, metrics }: AgentSinks,
  agent: ConnectedAgent<AgentIdentity>,
): AgentCalls {
  const connectedAt = services.clock.now();
  let hasStarted = false;
  return {
    async updateStartup({ startup }) {
      if (!startup) throw new AppError('invalid', 'The start-up report is empty.');
      const subsystems = startup.subsystems.flatMap((subsystem) => SUBSYSTEMS[subsystem] ?? []);
      const { version, expandedDirectory } = startup;
      await writes.startup({ agent, version, expandedDirectory, subsystems });
      return startup;
    },

    async updateLifecycle({ lifecycle }) {
      const state = lifecycle && LIFECYCLES[lifecycle.state];
      if (!lifecycle || !state) throw new AppError('invalid', 'Unknown lifecycle state.');
      const now = services.clock.now();
      const reported = reportedTime(lifecycle.changedAt);
      // the future is the time of a clock that is ahead
      const at = reported < now ? reported : now;
      // The agent repeats the report if an answer was lost, and its clock may be ahead. Sessions can begin before it.
      const startedAt = at < connectedAt ? at : connectedAt;
      await writes.lifecycle({ agent, state, at, endSessionsBefore: state === 'starting' ? startedAt : undefined });
      publishChange(services, agent);
      if (!hasStarted && STARTED.includes(state)) {
        hasStarted = true;
        metrics.agentStarted(agent);
      }
      return lifecycle;
    },

    async scriptCompleted({ timing }) {
      if (!timing?.start || !timing.end) throw new AppError('invalid', 'A script timing needs its start and end.');
      const [start, end] = [reportedTime(timing.start), reportedTime(timing.end)];
      if (start > end) throw new AppError('invalid', 'A script cannot end before it starts.');
      await writes.scriptTiming({
        agent,
        scriptId: uuidText(timing.scriptId),
        start,
        end,
        exitCode: timing.exitCode,
        stage: STAGES[timing.stage] ?? 'start',
        status: STATUSES[timing.status] ?? 'ok',
      });
      return {};
    },
  };
}

function logCalls(services: Services, agent: ConnectedAgent<AgentIdentity>): AgentCalls {
  return {
    async batchCreateLogs({ logSourceId, logs }, { metadata }) {
      const source = uuidText(logSourceId);
      const lines = logs.map((line) => ({ level: LEVELS[line.level] ?? 'info', output: line.output }));
      const numbers = parseLogNumbers(metadata[LOG_SEQUENCE_KEY], lines.length);
      await writeAgentLogs(services, agent, source === NIL_UUID ? undefined : source, lines, numbers);
      // never true: upstream's agents would send no more logs. The server keeps head and tail of a long log
      return { logLimitExceeded: false };
    },
    // The firewall in a workspace keeps its log there as well. The server stores none of it.
    reportBoundaryLogs: () => ({}),
  };
}

function appCalls(services: Services, { writes }: AgentSinks, agent: ConnectedAgent<AgentIdentity>): AgentCalls {
  return {
    async batchUpdateAppHealths({ updates }) {
      const known = updates.flatMap(({ id, health }) => {
        const name = HEALTH_NAMES[health];
        return name ? [{ id: uuidText(id), health: name }] : [];
      });
      if (known.length > 0 && (await writes.appHealths({ agent, healths: known }))) publishChange(services, agent);
      return {};
    },

    async updateAppStatus({ slug, state, message, uri }) {
      const name = APP_STATES[state];
      if (!name) throw new AppError('invalid', 'Unknown state of an app.');
      await setAppStatus(services, agent, { app_slug: slug, state: name, message, uri });
      return {};
    },
  };
}

function statisticsCalls({ reports, metrics }: AgentSinks, agent: ConnectedAgent<AgentIdentity>): AgentCalls {
  return {
    updateStats({ stats }) {
      if (stats) {
        metrics.agentReported(agent, stats.metrics);
        reports.stats(agent, {
          rxBytes: count(stats.rxBytes),
          txBytes: count(stats.txBytes),
          rxPackets: count(stats.rxPackets),
          txPackets: count(stats.txPackets),
          ...sessionCounts(stats),
          connections: count(stats.connectionCount),
          protocols: Object.fromEntries(
            Object.entries(stats.connectionsByProto).map(([name, n]) => [name.replaceAll('\0', ''), count(n)]),
          ),
          latencyMs: Number.isFinite(stats.connectionMedianLatencyMs) ? stats.connectionMedianLatencyMs : -1,
        });
      }
      return { reportInterval: { seconds: STATS_INTERVAL_SECONDS, nanos: 0 } };
    },

    batchUpdateMetadata({ metadata }) {
      const results = metadata.flatMap(({ key, result }) => (result ? [{ key, ...result }] : []));
      reports.metadata(agent, results);
      return {};
    },
  };
}

function monitoringCalls(
  services: Services,
  { reports }: AgentSinks,
  agent: ConnectedAgent<AgentIdentity>,
): AgentCalls {
  const monitors = agentMonitors(services, reports, agent);
  return {
    getResourcesMonitoringConfiguration: () => monitors.configuration(),

    async pushResourcesMonitoringUsage({ datapoints }) {
      const points = datapoints.map(({ memory, volumes }) => ({
        ...(memory ? { memory: { used: count(memory.used), total: count(memory.total) } } : {}),
        volumes: volumes.map(({ volume, used, total }) => ({
          path: volume,
          used: count(used),
          total: count(total),
        })),
      }));
      await monitors.take(points);
      return {};
    },
  };
}

function connectionCalls({ reportConnection }: AgentSinks, agent: ConnectedAgent<AgentIdentity>): AgentCalls {
  return {
    async reportConnection({ connection }) {
      if (!connection) throw new AppError('invalid', 'The report of a connection is empty.');
      const type = CONNECTION_TYPES[connection.type];
      if (!type) throw new AppError('invalid', 'Unknown type of connection.');
      const { timestamp } = connection;
      await reportConnection(agent, {
        id: uuidText(connection.id),
        ended: connection.action === Connection_Action.DISCONNECT,
        type,
        at: reportedTime(timestamp),
        ip: connection.ip,
        statusCode: connection.statusCode,
        reason: connection.reason ?? '',
      });
      return {};
    },
  };
}
