import type { AgentIdentity } from '../../db/queries/agents.ts';
import type { Services } from '../context.ts';
import type { AgentReports, Usage } from './reports.ts';

/** What published agents are told: so many points, taken so often. */
const POINTS = 20;
const INTERVAL_SECONDS = 10;
/** So much of the points too high makes an alert. (The other published rule, half of them in a row, implies this one.) */
const HIGH_PERCENT = 20;
/** After an alert the next is told no sooner. */
const QUIET_MINUTES = 30;

interface MonitorRow {
  path: string;
  threshold: number;
  alerting: boolean;
  used: number | null;
  total: number | null;
}

interface Monitor extends MonitorRow {
  /** What is said of it while it alerts. */
  words: string;
}

/** One reading of an agent. */
export interface UsagePoint {
  memory?: Usage;
  volumes: (Usage & { path: string })[];
}

export interface Monitors {
  /** What the agent is to measure; never without `config`, which a published agent reads without looking. */
  configuration(): Promise<{
    config: { numDatapoints: number; collectionIntervalSeconds: number };
    memory?: { enabled: boolean };
    volumes: { enabled: boolean; path: string }[];
  }>;
  /** The newest points, oldest first. Costs the database something only where the state changes. */
  take(points: readonly UsagePoint[]): Promise<void>;
}

/** Whether readings make an alert: many high ones do, only low ones end it, else it stays as it was. */
export function nextAlert(alerting: boolean, high: readonly boolean[]): boolean {
  const count = high.filter(Boolean).length;
  if (high.length > 0 && count * 100 >= high.length * HIGH_PERCENT) return true;
  return count > 0 && alerting;
}

function words({ path, threshold }: MonitorRow, { used, total }: Usage): string {
  const percent = total > 0 ? Math.round((used * 100) / total) : 0;
  return `${path === '' ? 'memory' : `volume ${path}`} is used by ${percent} % (threshold ${threshold} %)`;
}

/** The resource monitors of one agent's connection. */
export function agentMonitors(services: Services, reports: AgentReports, agent: AgentIdentity): Monitors {
  const { sql, events } = services;
  let known: Promise<Monitor[]> | undefined;
  async function read(): Promise<Monitor[]> {
    const rows = await sql<MonitorRow[]>`SELECT path, threshold, alerting, used, total FROM workspace_agent_monitors
      WHERE agent_id = ${agent.id} AND enabled ORDER BY path`;
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
        await sql`WITH monitor AS (
            UPDATE workspace_agent_monitors SET alerting = ${alerting}, changed_at = now(), used = ${newest.used},
              total = ${newest.total}, measured_at = now(), quiet_until = CASE
                WHEN ${alerting} AND (quiet_until IS NULL OR quiet_until < now())
                  THEN now() + ${QUIET_MINUTES} * interval '1 minute' ELSE quiet_until END
            WHERE agent_id = ${agent.id} AND path = ${monitor.path})
          UPDATE workspace_agents SET resource_alerts = ${alerts.join('; ')} WHERE id = ${agent.id}`;
        monitor.alerting = alerting;
        events.publishSoon('workspace_changed', {
          workspace_id: agent.workspace_id,
          owner_id: agent.owner_id,
        });
      }
      if (last.size > 0) reports.usage(agent.id, last);
    },
  };
}
