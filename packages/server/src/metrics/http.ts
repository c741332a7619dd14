import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** The path label of requests without a route: their path can be anything. */
const UNKNOWN = 'UNKNOWN';
/** The client disconnected before the answer. */
const CLIENT_CLOSED = '499';

/** Converts `/api/v2/users/:user` to upstream's form `/api/v2/users/{user}`. */
function pathLabel(pattern: string | undefined): string {
  // the dashboard's page is the answer at any path
  return pattern === undefined || pattern === '/*' ? UNKNOWN : pattern.replaceAll(/:(\w+)/g, '{$1}');
}

/**
 * Counts requests and WebSockets by route. The path is the route's pattern, never the request's path, which may contain
 * keys.
 */
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
  return (app) => {
    app.addHook('onRequest', (request, reply, next) => {
      const began = performance.now();
      const path = pathLabel(request.is404 ? undefined : request.routeOptions.url);
      const { method } = request;
      const upgrade = (request.raw as { upgrade?: boolean }).upgrade === true;
      const gauge = upgrade ? () => sockets.labels({ path }) : () => concurrent;
      gauge().inc();
      let over = false;
      const end = () => {
        if (over) return;
        over = true;
        gauge().dec();
        const seconds = (performance.now() - began) / 1000;
        if (upgrade && !reply.raw.headersSent) {
          durations.observe({ path }, seconds);
          return;
        }
        const code = reply.raw.writableFinished ? String(reply.raw.statusCode) : CLIENT_CLOSED;
        processed.inc({ code, method, path });
        latencies.observe({ method, path }, seconds);
      };
      if (upgrade) {
        // A rejected upgrade has an answer. Otherwise the WebSocket uses the connection.
        reply.raw.once('finish', end);
        request.raw.socket.once('close', end);
      } else {
        reply.raw.once('close', end);
      }
      next();
    });
  };
}
