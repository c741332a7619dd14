import type { FastifyInstance } from 'fastify';

/** Leads from upstream's addresses of the API's description to the dashboard's API reference, which shows it. */
export function apiPage(app: FastifyInstance): void {
  for (const path of ['/swagger', '/swagger/index.html'])
    app.get(path, async (_request, reply) => reply.redirect('/api-reference', 307));
}
