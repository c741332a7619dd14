import { createServer, type Server } from 'node:http';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import type { FastifyInstance } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { TaskRun } from '../app/context/background-task.ts';
import type { Services } from '../app/context/context.ts';
import type { OnDispatch } from '../app/notification/methods.ts';
import type { ProxyHealth } from '../app/workspace-proxy/health.ts';
import { type Address, listen } from '../config/listen.ts';
import { type AgentMetrics, createAgentMetrics } from './agent-metrics.ts';
import { createAgentStats, statsLabels } from './agent-stats.ts';
import { createEnqueuedBuildMetrics } from './enqueued-builds.ts';
import { createEventMetrics } from './events.ts';
import { createFirstConnectionMetrics } from './first-connections.ts';
import { createDatabaseGauges, type DatabaseGauges } from './gauges.ts';
import { createHttpMetrics } from './http.ts';
import { createInsightsGauges } from './insights.ts';
import { createJobMetrics } from './jobs.ts';
import type { Metrics } from './metrics.ts';
import { createNotificationMetrics } from './notifications.ts';
import { createPrebuildGauges } from './prebuilds.ts';
import { createProviderMetrics } from './provider-calls.ts';
import { createQueryMetrics } from './queries.ts';
import { createReplacementMetrics } from './replacements.ts';
import { createStartedBuildMetrics } from './started-builds.ts';
import { createTailnetMetrics, type TailnetFigures } from './tailnet.ts';
import { createTaskDurations, createTaskMetrics } from './tasks.ts';
import { createProxyMetrics } from './workspace-proxies.ts';
import { createWorkspaceGauges } from './workspaces.ts';

/** The longest time to read the database for a scrape, in ms. */
const MAX_READ_MS = 8_000;

export interface RunningMetrics extends Metrics {
  /** The URL that metrics are served on. */
  url: string;
  /** Counts a violation of the content security policy that a browser reported. */
  cspReported(): void;
  /** Counts an attempt to send a notification. */
  dispatched: OnDispatch;
  /** Counts a run of a background task. */
  taskRan(run: TaskRun): void;
  /** Shows the figures of the tailnet, undefined before its first use. */
  watchTailnet(read: () => TailnetFigures | undefined): void;
  /** Shows the health of the workspace proxies. */
  watchProxies(health: ProxyHealth): void;
  /** Counts the requests of every route of this server. Call it before the server is ready. */
  observe(app: FastifyInstance): void;
  close(): Promise<void>;
}

/**
 * Collects metrics, and serves them in Prometheus's text format on their own listener. Anyone who reaches that address
 * can read them: it needs no authentication.
 */
export async function startMetrics(services: Services, at: Address): Promise<RunningMetrics> {
  const { sql, log, config } = services;
  const registry = new Registry();
  const { failures, cspReports } = createServerMetrics(registry, services.version);
  const { gauges, agentMetrics } = createGauges(services, registry);
  const stopTiming = config.prometheusCollectDbMetrics ? createQueryMetrics(sql, registry) : () => {};
  const stopCounting = createProviderMetrics(registry);
  const stopBuilds = createEnqueuedBuildMetrics(services, registry);
  const dispatched = createNotificationMetrics(registry);
  const observe = createHttpMetrics(registry);
  const jobs = createJobMetrics(services, registry);
  const agentFirstConnected = createFirstConnectionMetrics(services, registry);
  const claimReplaced = createReplacementMetrics(services, registry);
  const agentStarted = createStartedBuildMetrics(services, registry);
  createTaskMetrics(services, registry);
  const taskRan = createTaskDurations(registry);
  createEventMetrics(services.events, registry);
  const stop = () => {
    jobs.close();
    stopTiming();
    stopCounting();
    stopBuilds();
  };
  const reads = new DatabaseReads(services, gauges, failures);
  const server = createMetricsServer(log, registry.contentType, async () => {
    await reads.read();
    return (await registry.metrics()) + ((await agentMetrics?.text()) ?? '');
  });
  try {
    const { url } = await listen(server, at, '--prometheus-address (CODER_PROMETHEUS_ADDRESS)');
    log.info('serving metrics', { url: `${url}/metrics` });
    return {
      url,
      observe,
      watchTailnet: (read) => createTailnetMetrics(registry, read),
      watchProxies: (health) => createProxyMetrics(registry, health),
      cspReported: () => cspReports.inc(),
      dispatched,
      taskRan,
      jobAcquired: jobs.jobAcquired,
      agentFirstConnected,
      agentStarted,
      agentReported: (agent, metrics) => agentMetrics?.report(agent, metrics),
      stateRejected: jobs.stateRejected,
      claimReplaced,
      async close() {
        stop();
        const closed = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeAllConnections();
        await closed;
      },
    };
  } catch (err) {
    stop();
    throw err;
  }
}

/** The metrics of the process and of this server as a whole. */
function createServerMetrics(registry: Registry, version: string): { failures: Counter; cspReports: Counter } {
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: 'coderd_build_info',
    help: 'The version of this server.',
    labelNames: ['version'] as const,
    registers: [registry],
  }).set({ version }, 1);
  const failures = new Counter({
    name: 'coderd_metrics_read_failures_total',
    help: 'The number of scrapes without the gauges of the database because the database did not answer in time.',
    registers: [registry],
  });
  const cspReports = new Counter({
    name: 'coderd_csp_reports_total',
    help: 'The number of violations of the content security policy that browsers reported.',
    registers: [registry],
  });
  return { failures, cspReports };
}

/** The gauges that are read from the database for each scrape, and the metrics of agents, if they are collected. */
function createGauges(
  services: Services,
  registry: Registry,
): { gauges: DatabaseGauges[]; agentMetrics: AgentMetrics | undefined } {
  const { config, clock } = services;
  const gauges = [
    createDatabaseGauges(registry),
    createWorkspaceGauges(services, registry),
    createInsightsGauges(registry, clock),
    createPrebuildGauges(services, registry),
  ];
  if (!config.prometheusCollectAgentStats) return { gauges, agentMetrics: undefined };
  const by = statsLabels(config.prometheusAggregateAgentStatsBy);
  const agentMetrics = createAgentMetrics(registry, clock, by);
  return { gauges: [...gauges, createAgentStats(registry, by), agentMetrics], agentMetrics };
}

/** Reads the gauges of the database for scrapes. */
class DatabaseReads {
  readonly #services: Services;
  readonly #gauges: readonly DatabaseGauges[];
  /** Counts scrapes without these gauges. */
  readonly #failures: Counter;
  #reading: Promise<void> | undefined;

  constructor(services: Services, gauges: readonly DatabaseGauges[], failures: Counter) {
    this.#services = services;
    this.#gauges = gauges;
    this.#failures = failures;
  }

  /** Never rejects: without an answer of the database, the gauges are empty. */
  async read(): Promise<void> {
    // one read at a time, even if the previous one is late
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined;
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new AppError('timeout', 'the database did not answer in time')), MAX_READ_MS);
    });
    try {
      await Promise.race([this.#reading, late]);
    } catch (err) {
      this.#failures.inc();
      for (const each of this.#gauges) each.forget();
      this.#services.log.warn('could not read metrics from the database', { err: errorText(err) });
    } finally {
      clearTimeout(timer);
    }
  }

  async #readAll(): Promise<void> {
    // as searches: their cost depends on the data, and they must not delay lookups
    for (const each of this.#gauges) await each.read(this.#services.lists);
  }
}

function createMetricsServer(log: Logger, contentType: string, textOf: () => Promise<string>): Server {
  return createServer({ requestTimeout: 10_000, keepAliveTimeout: 75_000 }, (request, response) => {
    const path = (request.url ?? '').replace(/\?.*$/, '');
    if (path !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('Metrics are at /metrics.\n');
      return;
    }
    textOf().then(
      (text) => {
        // the library writes "Nan", which strict parsers reject
        const spelt = text.replaceAll(/ Nan$/gm, ' NaN');
        response.writeHead(200, { 'content-type': contentType }).end(spelt);
      },
      (err) => {
        log.error('could not write metrics', { err: errorText(err) });
        response.writeHead(500).end();
      },
    );
  });
}
