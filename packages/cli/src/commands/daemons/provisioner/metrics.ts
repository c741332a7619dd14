import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AppError } from '@ropewalk/kit';
import type { DaemonMetrics } from '@ropewalk/provisioner';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** In seconds, from a plan without changes to an hour of cloud machines. */
const BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600];
const PROVISIONER = 'terraform';

export interface DaemonRegistry {
  metrics: DaemonMetrics;
  /** The text that Prometheus scrapes. */
  text(): Promise<string>;
}

/** The metrics of daemons under upstream's names, and a few more (`coder_provisioner_*`). */
export function daemonRegistry(names: readonly string[]): DaemonRegistry {
  const registry = new Registry();
  const registers = [registry];
  const current = new Gauge({
    name: 'coderd_provisionerd_jobs_current',
    help: 'Number of running jobs.',
    labelNames: ['provisioner'],
    registers,
  });
  const timings = new Histogram({
    name: 'coderd_provisionerd_job_timings_seconds',
    help: 'Duration of jobs.',
    labelNames: ['provisioner', 'status'],
    buckets: BUCKETS,
    registers,
  });
  const connected = new Gauge({
    name: 'coder_provisioner_connected',
    help: 'Whether the daemon is connected to its server.',
    labelNames: ['name'],
    registers,
  });
  const jobs = new Counter({
    name: 'coder_provisioner_jobs_total',
    help: 'Number of jobs that ended, by type and status.',
    labelNames: ['type', 'status'],
    registers,
  });
  const stages = new Histogram({
    name: 'coder_provisioner_stage_seconds',
    help: 'Duration of the stages of jobs, by their name in the log.',
    labelNames: ['stage'],
    buckets: BUCKETS,
    registers,
  });
  current.set({ provisioner: PROVISIONER }, 0);
  for (const name of names) connected.set({ name }, 0);
  return {
    metrics: {
      connected: (name, on) => connected.set({ name }, on ? 1 : 0),
      jobStarted: () => current.inc({ provisioner: PROVISIONER }),
      jobEnded(type, ended, seconds) {
        const status = ended === 'completed' ? 'success' : 'failed';
        current.dec({ provisioner: PROVISIONER });
        timings.observe({ provisioner: PROVISIONER, status }, seconds);
        jobs.inc({ type, status });
      },
      stageEnded: (stage, seconds) => stages.observe({ stage }, seconds),
    },
    text: () => registry.metrics(),
  };
}

/** Serves metrics at `http://<address>/`. Returns the address in use and a function that ends. @throws AppError `invalid`. */
export async function serveMetrics(
  address: string,
  text: () => Promise<string>,
): Promise<{ address: string; close(): void }> {
  const found = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(address);
  if (!found || Number(found[3]) > 65_535)
    throw new AppError('invalid', `Invalid --prometheus-address ${JSON.stringify(address)}: write it as host:port.`);
  const server = createServer((request, response) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return void response.writeHead(405).end();
    text().then(
      (body) => response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(body),
      () => response.writeHead(500).end(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (err) =>
      reject(new AppError('unavailable', `Cannot serve metrics at ${address}: ${err.message}`, { cause: err })),
    );
    server.listen(Number(found[3]), found[1] ?? (found[2] || '0.0.0.0'), resolve);
  });
  // the system could not accept a connection, such as for want of files: only its client notices
  server.on('error', () => {});
  server.unref();
  const { address: host, port } = server.address() as AddressInfo;
  return {
    address: `${host}:${port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
