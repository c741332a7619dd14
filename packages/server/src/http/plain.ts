import { openApiDocument } from '@ropewalk/contract';
import type { FastifyInstance } from 'fastify';
import type { Services } from '../app/context/context.ts';
import { exchange } from './exchange.ts';
import { latencyCheckRoute } from './latency-check.ts';
import { MAX_MESSAGE_BYTES } from './stream-limits.ts';

/** Routes outside the contract: health, the API's document, and the page at `/`. */
export function plainRoutes(app: FastifyInstance, services: Services, ready: () => Promise<void>): void {
  let document: string | undefined;
  app.get('/healthz', async (request, reply) => {
    const http = exchange(request, reply, { headers: {}, maxMessageBytes: MAX_MESSAGE_BYTES.watch });
    if (!http.isUpgrade) return reply.type('text/plain').send('OK');
    // shows whether proxies between client and server pass WebSockets
    http.upgrade().close();
    return reply;
  });
  app.get('/readyz', async (_request, reply) => {
    await ready();
    return reply.type('text/plain').send('OK');
  });
  app.get('/api/v2/openapi.json', async (_request, reply) => {
    document ??= JSON.stringify(openApiDocument(services.version));
    return reply.type('application/json').send(document);
  });
  latencyCheckRoute(app);
}
