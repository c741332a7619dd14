import type { FastifyInstance } from 'fastify';

/** Pages of every origin may ask, and read the time without the handshakes. Upstream's headers. */
export const LATENCY_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-allow-headers': '*',
  'access-control-allow-credentials': 'false',
  'access-control-allow-methods': '*',
  'timing-allow-origin': '*',
  'cache-control': 'no-store',
} as const;

/** Where the dashboard and upstream's clients measure the round-trip time to a region. It shows nothing and needs no session. */
export function latencyCheckRoute(app: FastifyInstance): void {
  app.get('/latency-check', async (_request, reply) => reply.headers(LATENCY_HEADERS).type('text/plain').send('OK'));
}
