import type {
  AccessURLReport,
  BackgroundTasksReport,
  DatabaseReport,
  HealthcheckReport,
  HealthMessage,
  HealthSection,
  HealthSettings,
  ProvisionerDaemonsReport,
  ReplicasReport,
  UpdateHealthSettings,
  WebsocketReport,
} from '@ropewalk/contract';
import { errorText } from '@ropewalk/kit';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { authorize } from '../../authz/authorize.ts';
import { ping } from '../../db/connect.ts';
import { allOrganizations } from '../../db/queries/organizations.ts';
import { liveReplicas } from '../../db/queries/replicas.ts';
import { siteSettings } from '../audit-entries/site-settings.ts';
import { type Ctx, type Services, systemContext } from '../context/context.ts';
import { textForAdministrators } from '../context/unexpected.ts';
import { listDaemons } from '../provisioner/list.ts';
import { time } from '../values/time.ts';
import type { ProxyHealth } from '../workspace-proxy/health.ts';
import { checkRelays } from './derp-health.ts';
import { checkProxies } from './proxies-health.ts';

const settings = siteSettings<HealthSettings>({
  key: 'health_settings',
  resourceType: 'health_settings',
  initial: { dismissed_healthchecks: [] },
});
const REACH_TIMEOUT_MS = 5_000;
const PINGS = 5;

type Severity = 'ok' | 'warning' | 'error';
const worst = (severities: Severity[]): Severity =>
  severities.includes('error') ? 'error' : severities.includes('warning') ? 'warning' : 'ok';
const severityOf = (error: string | null, warnings: HealthMessage[]): Severity =>
  error !== null ? 'error' : warnings.length > 0 ? 'warning' : 'ok';

/** The sections of the report whose warnings people have dismissed. */
export async function getHealthSettings(ctx: Ctx): Promise<HealthSettings> {
  authorize(ctx, 'read', { type: 'debug_info' });
  return settings.read(ctx);
}

export async function updateHealthSettings(ctx: Ctx, input: UpdateHealthSettings): Promise<UpdateHealthSettings> {
  authorize(ctx, 'read', { type: 'debug_info' });
  const value: HealthSettings = { dismissed_healthchecks: [...new Set(input.dismissed_healthchecks ?? [])] };
  await settings.replace(ctx, value);
  return value;
}

async function checkDatabase(services: Services): Promise<DatabaseReport> {
  const { sql, clock, config } = services;
  const times: number[] = [];
  let error: string | null = null;
  try {
    for (let i = 0; i < PINGS; i++) {
      const begun = clock.monotonic();
      await ping(sql);
      times.push(clock.monotonic() - begun);
    }
  } catch (err) {
    error = textForAdministrators(err, services.log, { check: 'database' });
  }
  const median = times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
  const warnings: HealthMessage[] =
    median > config.healthCheckThresholdDatabase
      ? [{ code: 'EDB02', message: `The database took ${median.toFixed(1)} ms to answer.` }]
      : [];
  return {
    dismissed: false,
    error,
    healthy: error === null,
    reachable: error === null,
    severity: severityOf(error, warnings),
    latency: `${median.toFixed(3)}ms`,
    latency_ms: Math.round(median),
    threshold_ms: config.healthCheckThresholdDatabase,
    warnings,
  };
}

async function checkAccessUrl(services: Services): Promise<AccessURLReport> {
  let error: string | null = null;
  let status = 0;
  let body = '';
  try {
    const response = await fetch(`${services.accessUrl}/healthz`, { signal: AbortSignal.timeout(REACH_TIMEOUT_MS) });
    status = response.status;
    body = (await response.text()).slice(0, 1024);
    if (status !== 200) error = `EACS04: the access URL answered with status ${status}`;
  } catch (err) {
    const { cause } = err as Error;
    error = `EACS03: the access URL cannot be reached: ${errorText(cause ?? err)}`;
  }
  const loopback = /^https?:\/\/(localhost|127\.|\[::1\])/.test(services.accessUrl);
  const warnings: HealthMessage[] = loopback
    ? [
        {
          code: 'EACS02',
          message:
            'The access URL names this machine only. Workspaces on other machines cannot reach it. Set --access-url.',
        },
      ]
    : [];
  return {
    access_url: services.accessUrl,
    dismissed: false,
    error,
    healthy: error === null,
    reachable: status > 0,
    healthz_response: body,
    status_code: status,
    severity: severityOf(error, warnings),
    warnings,
  };
}

/** Whether WebSockets work through the proxies in front of the server. Agents need them. */
async function checkWebsocket(services: Services): Promise<WebsocketReport> {
  let error: string | null = null;
  let code = 0;
  try {
    const { connection } = await dialWebSocket(`${services.accessUrl.replace(/^http/, 'ws')}/healthz`, {
      signal: AbortSignal.timeout(REACH_TIMEOUT_MS),
    });
    code = 101;
    connection.close();
  } catch (err) {
    error = `EWS01: ${errorText(err)}`;
  }
  return {
    dismissed: false,
    error,
    healthy: error === null,
    code,
    body: '',
    severity: severityOf(error, []),
    warnings: [],
  };
}

async function checkDaemons(services: Services): Promise<ProvisionerDaemonsReport> {
  const ctx = systemContext(services, 'health');
  const organizations = await allOrganizations(services.sql);
  const seen = (await Promise.all(organizations.map(({ id }) => listDaemons(ctx, id, {}))))
    .flat()
    .filter((daemon) => daemon.status !== 'offline');
  const items = seen.map((provisioner_daemon) => {
    const warnings: HealthMessage[] = [];
    if (provisioner_daemon.version !== services.version) {
      const message = `Its version ${provisioner_daemon.version} differs from the server's version ${services.version}.`;
      warnings.push({ code: 'EPD02', message });
    }
    return { provisioner_daemon, warnings };
  });
  const problem = services.builtinDaemonsProblem();
  const warnings: HealthMessage[] = [...services.warnings, ...(problem === undefined ? [] : [problem])].map(
    (message) => ({ code: 'EUNKNOWN' as const, message }),
  );
  const error =
    seen.length === 0
      ? `EPD01: no provisioner daemon is connected, so the server cannot build workspaces${problem === undefined ? '' : `. ${problem}`}`
      : null;
  const inner = items.flatMap((item) => item.warnings);
  return { dismissed: false, error, items, severity: severityOf(error, [...warnings, ...inner]), warnings };
}

function checkBackgroundTasks({ backgroundTasks }: Services): BackgroundTasksReport {
  const tasks = backgroundTasks();
  const items = tasks.map(({ name, periodMs, lastRun, durationMs, error, runs }) => ({
    name,
    period_ms: periodMs,
    last_run_at: lastRun ? time(lastRun) : null,
    duration_ms: Math.round(durationMs),
    error: error ?? null,
    failures: runs.failed,
  }));
  const warnings: HealthMessage[] = tasks.flatMap(({ name, error }) =>
    error === undefined ? [] : [{ code: 'EUNKNOWN', message: `The background task "${name}" failed: ${error}` }],
  );
  return { items, severity: severityOf(null, warnings), warnings };
}

/** Whether the servers reach each other. While they don't, people cannot connect to some workspaces. */
async function checkReplicas(services: Services): Promise<ReplicasReport> {
  const rows = await liveReplicas(services.sql).catch(() => []);
  const items = rows.map((row) => ({
    id: row.id,
    hostname: row.hostname,
    version: row.version,
    relay_address: row.relay_address,
    started_at: time(row.started_at),
    database_latency_ms: row.database_latency_us / 1_000,
    error: row.problem || null,
  }));
  const warnings: HealthMessage[] = items.flatMap(({ hostname, error }) =>
    error === null ? [] : [{ code: 'EUNKNOWN', message: `The server "${hostname}" cannot reach ${error}` }],
  );
  return { items, severity: severityOf(null, warnings), warnings };
}

/** Runs all checks. `judged` adds the dismissals. */
async function makeReport(services: Services, proxies: ProxyHealth): Promise<HealthcheckReport> {
  const [database, access_url, websocket, provisioner_daemons, replicas, derp, workspace_proxy] = await Promise.all([
    checkDatabase(services),
    checkAccessUrl(services),
    checkWebsocket(services),
    checkDaemons(services),
    checkReplicas(services),
    checkRelays(services),
    checkProxies(services, proxies),
  ]);
  return {
    time: time(services.clock.now()),
    coder_version: services.version,
    healthy: true,
    severity: 'ok',
    access_url,
    background_tasks: checkBackgroundTasks(services),
    database,
    websocket,
    provisioner_daemons,
    replicas,
    derp,
    workspace_proxy,
  };
}

/** A report with the current dismissals and the resulting overall severity. */
function judged(report: HealthcheckReport, { dismissed_healthchecks }: HealthSettings): HealthcheckReport {
  const mark = <T extends { dismissed: boolean }>(section: HealthSection, part: T): T => ({
    ...part,
    dismissed: dismissed_healthchecks.includes(section),
  });
  const parts = {
    access_url: mark('AccessURL', report.access_url),
    database: mark('Database', report.database),
    derp: mark('DERP', report.derp),
    provisioner_daemons: mark('ProvisionerDaemons', report.provisioner_daemons),
    websocket: mark('Websocket', report.websocket),
    workspace_proxy: mark('WorkspaceProxy', report.workspace_proxy),
  };
  const severity = worst([
    report.background_tasks.severity,
    report.replicas.severity,
    ...Object.values(parts).map((part) => (part.dismissed ? 'ok' : part.severity)),
  ]);
  return { ...report, ...parts, healthy: severity !== 'error', severity };
}

/**
 * The health report of one server. Created on request, once for all concurrent callers, and kept for the configured
 * time.
 */
export function createHealth(services: Services, proxies: ProxyHealth) {
  let last: { report: HealthcheckReport; at: number } | undefined;
  let running: Promise<HealthcheckReport> | undefined;
  return {
    async report(ctx: Ctx, force: boolean): Promise<HealthcheckReport> {
      authorize(ctx, 'read', { type: 'debug_info' });
      const { clock, config } = services;
      const believed = !force && last && clock.monotonic() - last.at < config.healthCheckRefresh;
      return judged(believed ? last!.report : await look(), await settings.read(services));
    },
  };

  function look(): Promise<HealthcheckReport> {
    const { clock } = services;
    running ??= makeReport(services, proxies)
      .then((report) => {
        last = { report, at: clock.monotonic() };
        return report;
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  }
}
export type Health = ReturnType<typeof createHealth>;
