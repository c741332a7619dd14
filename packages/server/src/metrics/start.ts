import { createServer } from 'node:http';
import { AppError, errorText } from '@platform/kit';
import type { FastifyInstance } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Services } from '../app/context.ts';
import { type Address, listen } from '../config/listen.ts';
import { createDatabaseGauges } from './gauges.ts';
import { createHttpMetrics } from './http.ts';
import { createJobMetrics } from './jobs.ts';
import type { Metrics } from './metrics.ts';
import { createTaskMetrics } from './tasks.ts';

/** However the database is: a scrape is answered within this. */
const MOST_READ_MS = 8_000;

export interface RunningMetrics extends Metrics {
  /** Where they are served. */
  url: string;
  /** Watches every route of this server; before it is made ready. */
  observe(app: FastifyInstance): void;
  close(): Promise<void>;
}

/**
 * Counts, and serves what was counted in the text format of Prometheus on a listener of its own. Whoever reaches that
 * address reads it: no token is asked for.
 */
export async function startMetrics(services: Services, at: Address): Promise<RunningMetrics> {
  const { sql, log, version } = services;
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  new Gauge({
    name: 'coderd_build_info',
    help: 'The version of this server.',
    labelNames: ['version'] as const,
    registers: [registry],
  }).set({ version }, 1);
  const failures = new Counter({
    name: 'coderd_metrics_read_failures_total',
    help: 'How often the gauges of the database were left out since it could not be read in time.',
    registers: [registry],
  });
  const gauges = createDatabaseGauges(registry);
  const observe = createHttpMetrics(registry);
  const jobs = createJobMetrics(services, registry);
  createTaskMetrics(services, registry);

  let reading: Promise<void> | undefined;
  async function read(): Promise<void> {
    // one at a time, also where the one before is late
    reading ??= gauges.read(sql).finally(() => {
      reading = undefined;
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new AppError('timeout', 'the database did not answer in time')), MOST_READ_MS);
    });
    try {
      await Promise.race([reading, late]);
    } catch (err) {
      failures.inc();
      gauges.forget();
      log.warn('could not read metrics from the database', { err: errorText(err) });
    } finally {
      clearTimeout(timer);
    }
  }

  const server = createServer({ requestTimeout: 10_000, keepAliveTimeout: 75_000 }, (request, response) => {
    const path = (request.url ?? '').replace(/\?.*$/, '');
    if (path !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('Metrics are at /metrics.\n');
      return;
    }
    read()
      .then(() => registry.metrics())
      .then(
        (text) => {
          // the library spells it as no strict reader takes it
          const spelt = text.replaceAll(/ Nan$/gm, ' NaN');
          response.writeHead(200, { 'content-type': registry.contentType }).end(spelt);
        },
        (err) => {
          log.error('could not write metrics', { err: errorText(err) });
          response.writeHead(500).end();
        },
      );
  });
  try {
    const { url } = await listen(server, at, '--prometheus-address (CODER_PROMETHEUS_ADDRESS)');
    log.info('metrics are served', { url: `${url}/metrics` });
    return {
      url,
      observe,
      jobAcquired: jobs.jobAcquired,
      stateRefused: jobs.stateRefused,
      async close() {
        jobs.close();
        const closed = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeAllConnections();
        await closed;
      },
    };
  } catch (err) {
    jobs.close();
    throw err;
  }
}
