import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { Db } from '../../db/connect.ts';
import { type MonitorRow, monitorsOfAgent, setMonitorAlert } from '../../db/queries/agent-parts.ts';
import type { Usage } from '../../db/queries/agent-reports.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { notify } from '../notification/enqueue.ts';
import type { AgentReports } from './reports.ts';

/** How many readings agents send, and how often they take them. */
const POINTS = 20;
const INTERVAL_SECONDS = 10;
/**
 * The share of high readings that raises an alert. (Upstream's other rule, half of them in a row, implies this one.)
 */
const HIGH_PERCENT = 20;

interface Monitor extends MonitorRow {
  /** The text that people see while it alerts. */
  words: string;
}

/** One reading of an agent. */
export interface UsagePoint {
  memory?: Usage;
  volumes: (Usage & { path: string })[];
}

export interface Monitors {
  /** The resources to measure. Upstream's agents require `config`. */
  configuration(): Promise<{
    config: { numDatapoints: number; collectionIntervalSeconds: number };
    memory?: { enabled: boolean };
    volumes: { enabled: boolean; path: string }[];
  }>;
  /** Receives the newest readings, oldest first. Writes to the database only when the state changes. */
  take(points: readonly UsagePoint[]): Promise<void>;
}

/** Whether readings raise an alert. Many high readings do, and only low readings end it. Otherwise the state stays. */
export function nextAlert(alerting: boolean, high: readonly boolean[]): boolean {
  const count = high.filter(Boolean).length;
  if (high.length > 0 && count * 100 >= high.length * HIGH_PERCENT) return true;
  return count > 0 && alerting;
}

function words({ path, threshold }: MonitorRow, { used, total }: Usage): string {
  const percent = total > 0 ? Math.round((used * 100) / total) : 0;
  return `${path === '' ? 'memory' : `volume ${path}`} is used by ${percent} % (threshold ${threshold} %)`;
}

/** Notifies the owner of a workspace that its memory or a volume is nearly full. */
async function notifyAlert(
  services: Services,
  db: Db,
  agent: AgentIdentity,
  { path, threshold }: MonitorRow,
): Promise<void> {
  await notify(services, db, {
    template: path === '' ? 'outOfMemory' : 'outOfDisk',
    to: [agent.owner_id],
    labels: {
      workspace: agent.workspace_name,
      owner: agent.owner_name,
      threshold: `${threshold} %`,
      ...(path === '' ? {} : { volume: path }),
    },
    targets: [agent.workspace_id, agent.owner_id, agent.organization_id],
  });
}

/** The resource monitors of one agent's connection. */
export function agentMonitors(
  services: Services,
  reports: AgentReports,
  agent: ConnectedAgent<AgentIdentity>,
): Monitors {
  const { sql, events } = services;
  let known: Promise<Monitor[]> | undefined;
  async function read(): Promise<Monitor[]> {
    const rows = await monitorsOfAgent(sql, agent.id);
    return rows.map((row) => ({
      ...row,
      words: row.alerting ? words(row, { used: row.used ?? 0, total: row.total ?? 0 }) : '',
    }));
  }
  const load = () => {
    known ??= read().catch((err) => {
      known = undefined;
      throw err;
    });
    return known;
  };
  return {
    async configuration() {
      const monitors = await load();
      return {
        config: { numDatapoints: POINTS, collectionIntervalSeconds: INTERVAL_SECONDS },
        ...(monitors.some(({ path }) => path === '') ? { memory: { enabled: true } } : {}),
        volumes: monitors.filter(({ path }) => path !== '').map(({ path }) => ({ enabled: true, path })),
      };
    },
    async take(points) {
      const last = new Map<string, Usage>();
      const monitors = await load();
      for (const monitor of monitors) {
        const readings = points.flatMap(({ memory, volumes }) => {
          const found = monitor.path === '' ? memory : volumes.find(({ path }) => path === monitor.path);
          return found && found.total > 0 ? [found] : [];
        });
        const newest = readings.at(-1);
        if (!newest) continue;
        last.set(monitor.path, { used: newest.used, total: newest.total });
        const high = readings.map(({ used, total }) => used * 100 >= total * monitor.threshold);
        const alerting = nextAlert(monitor.alerting, high);
        if (alerting === monitor.alerting) continue;
        monitor.words = alerting ? words(monitor, newest) : '';
        const alerts = monitors.map((one) => one.words).filter((text) => text !== '');
        await sql.begin(async (tx) => {
          const { path } = monitor;
          const state = { path, alerting, used: newest.used, total: newest.total, alerts: alerts.join('; ') };
          if (await setMonitorAlert(tx, agent, state)) await notifyAlert(services, tx, agent, monitor);
        });
        monitor.alerting = alerting;
        events.publishSoon('workspace_changed', {
          workspace_id: agent.workspace_id,
          owner_id: agent.owner_id,
        });
      }
      if (last.size > 0) reports.usage(agent, last);
    },
  };
}
