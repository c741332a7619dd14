import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { isOversized, observeProbes } from '../app/context/observed-requests.ts';
import { isUpgrade, routePattern, whenOver } from './requests.ts';

/** Counts requests and WebSockets by route. */
export function createHttpMetrics(registry: Registry): (app: FastifyInstance) => void {
  const registers = [registry];
  const processed = new Counter({
    name: 'coderd_api_requests_processed_total',
    help: 'The number of answered HTTP requests, without WebSockets.',
    labelNames: ['code', 'method', 'path'] as const,
    registers,
  });
  const latencies = new Histogram({
    name: 'coderd_api_request_latencies_seconds',
    help: 'The time from a request to the end of its answer, in seconds.',
    labelNames: ['method', 'path'] as const,
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10, 30],
    registers,
  });
  const concurrent = new Gauge({
    name: 'coderd_api_concurrent_requests',
    help: 'The number of HTTP requests in progress, without WebSockets.',
    labelNames: ['method', 'path'] as const,
    registers,
  });
  const sockets = new Gauge({
    name: 'coderd_api_concurrent_websockets',
    help: 'The number of open WebSockets.',
    labelNames: ['path'] as const,
    registers,
  });
  const durations = new Histogram({
    name: 'coderd_api_websocket_durations_seconds',
    help: 'The time that WebSockets were open, in seconds.',
    labelNames: ['path'] as const,
    buckets: [0.001, 1, 60, 3_600, 54_000, 108_000, 216_000],
    registers,
  });
  const probes = new Counter({
    name: 'coderd_api_websocket_probes_total',
    help:
      'The number of pings of WebSockets that have ended. result: ok for an answer, timeout if the client stopped answering, ' +
      'peer_closed, canceled (this server closed the connection) or error.',
    labelNames: ['path', 'result'] as const,
    registers,
  });
  const tooLarge = new Counter({
    name: 'coderd_api_requests_too_large_total',
    help:
      'The number of HTTP requests answered with 413. reason: request_body if the body has too many bytes, other for ' +
      'anything else, such as an archive that is too large when it is unpacked.',
    labelNames: ['method', 'path', 'reason'] as const,
    registers,
  });
  return (app) => {
    app.addHook('onRequest', (request, reply, next) => {
      const began = performance.now();
      const path = routePattern(request);
      const { method } = request;
      const gauge = isUpgrade(request) ? () => sockets.labels({ path }) : () => concurrent.labels({ method, path });
      gauge().inc();
      if (isUpgrade(request)) observeProbes(request.raw, (result) => probes.inc({ path, result }));
      whenOver(request, reply, (code) => {
        gauge().dec();
        const seconds = (performance.now() - began) / 1000;
        if (code === undefined) durations.observe({ path }, seconds);
        else {
          processed.inc({ code, method, path });
          latencies.observe({ method, path }, seconds);
          if (code === '413')
            tooLarge.inc({ method, path, reason: isOversized(request.raw) ? 'request_body' : 'other' });
        }
      });
      next();
    });
  };
}
