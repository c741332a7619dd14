import { createCloser, systemClock } from '@ropewalk/kit';
import type { Services } from './app/context/context.ts';
import { ProxyHealth } from './app/workspace-proxy/health.ts';
import { createBackgroundDriver } from './background/driver.ts';
import { createDrain } from './builtin-daemons/drain.ts';
import { Leaving } from './cluster/leaving.ts';
import { startBackgroundTasks, startBuiltin } from './start/background.ts';
import { joinCluster } from './start/cluster.ts';
import { startConnections } from './start/connections.ts';
import { startDatabase, surviveLostStatements } from './start/database.ts';
import { presentClientCertificate, startHttp, startHttps, warnOfRejectedCookies } from './start/http.ts';
import { startMetrics, startProfiles, startTraces, traceJobs } from './start/observability.ts';
import { readInstallation, startServices } from './start/services.ts';
import type { LateParts, ServerOptions, Starting } from './start/starting.ts';

export type { ServerOptions } from './start/starting.ts';

export interface RunningServer {
  /** Where it listens, without a trailing slash. */
  url: string;
  /** Where it listens for TLS, if it does, without a trailing slash. */
  tlsUrl?: string;
  accessUrl: string;
  /** Where metrics are served, if they are. */
  metricsUrl?: string;
  /** Where profiles are served, if they are. */
  profilesUrl?: string;
  services: Services;
  /**
   * Ends the builds of the built-in daemons while everything goes on: the first call waits for them up to
   * --provisioner-drain-timeout, the second cancels them, the third kills them. From the first call on the server is not
   * ready. Waits at least for --shutdown-delay, unless `hurried`.
   */
  drain(options?: { hurried?: boolean }): Promise<void>;
  /** Ends everything immediately; builds that still run go on without the server. */
  close(): Promise<void>;
}

/** Starts everything, in order. On failure what was started is ended again. */
export async function startServer(given: ServerOptions): Promise<RunningServer> {
  const closer = createCloser(given.log);
  try {
    return await startParts({ ...given, clock: given.clock ?? systemClock, closer });
  } catch (err) {
    await closer.close();
    throw err;
  }
}

/**
 * The only wiring. Each step adds what ends its parts to the closer, which ends them in the reverse order: first the
 * built-in daemons, then the connections of daemons and agents, then the HTTP server, and the database last.
 */
async function startParts(start: Starting): Promise<RunningServer> {
  const { config, clock, closer, stop } = start;
  const late: LateParts = { builtin: undefined, certificates: () => [], phase: 'starting' };

  surviveLostStatements(start);
  const tracing = await startTraces(start);
  await presentClientCertificate(start);
  const database = await startDatabase(start);
  const installation = await readInstallation(start, database);
  const background = createBackgroundDriver({ locks: database.locks, clock, log: start.log });
  const services = await startServices(start, database, installation, {
    backgroundTasks: background.status,
    builtinDaemonsProblem: () => late.builtin?.problem(),
  });
  if (tracing) traceJobs(start, tracing, services);
  const metrics = await startMetrics(start, services);
  const { profiler, url: profilesUrl } = await startProfiles(start);
  const connections = startConnections(start, services, installation, {
    metrics,
    isReady: () => late.phase === 'ready',
  });
  const proxyHealth = new ProxyHealth(services);
  const parts = { services, database, installation, connections, tracing, metrics, profiler, late, proxyHealth };
  const http = await startHttp(start, parts);
  const tlsUrl = await startHttps(start, parts, http);
  warnOfRejectedCookies(start, services);
  stop?.throwIfAborted();
  if (metrics) background.onRun(metrics.taskRan);
  // not before daemons can come back: from here on their leases run again
  const { providers } = http;
  const { dispatched } = metrics ?? {};
  startBackgroundTasks(start, background, { services, connections, providers, dispatched, proxyHealth });
  metrics?.watchProxies(proxyHealth);
  metrics?.watchTailnet(() => connections.tailnet.figures());
  closer.add('relay of the tailnet', async () => connections.tailnet.endRelay());
  closer.add('agents', () => connections.agents.close());
  closer.add('coordinator of the tailnet', async () => connections.tailnet.endCoordination());
  await joinCluster(start, services, connections.cluster, http);
  closer.add('provisioner daemons', () => connections.daemons.close());
  late.builtin = await startBuiltin(start, services, http, connections);
  stop?.throwIfAborted();

  const { cluster, departure } = connections;
  const leaving = new Leaving({ peers: cluster.peers, departure, log: start.log });
  closer.add('departure', async () => leaving.end());

  late.phase = 'ready';
  return {
    url: http.url,
    ...(tlsUrl === undefined ? {} : { tlsUrl }),
    accessUrl: services.accessUrl,
    ...(metrics ? { metricsUrl: metrics.url } : {}),
    ...(profilesUrl === undefined ? {} : { profilesUrl }),
    services,
    drain: createDrain({
      daemons: late.builtin,
      limitMs: config.provisionerDrainTimeout,
      delayMs: config.shutdownDelay,
      onBegin: () => {
        late.phase = 'stopping';
        http.unanswered.leave();
        leaving.begin();
      },
      log: start.log,
    }),
    close: () => closer.close(),
  };
}
