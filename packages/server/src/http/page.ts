import type { FastifyInstance } from 'fastify';
import type { Services } from '../app/context.ts';
import { isSetUp } from '../app/user/first.ts';

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');

/** The page at `/`: the version of the server, and what to do next. */
export function pageRoute(app: FastifyInstance, services: Services): void {
  app.get('/', async (_request, reply) => {
    // anyone may see this page, so it shows no people and no workspaces
    const url = escapeHtml(services.accessUrl);
    const next = !(await isSetUp(services))
      ? `<p>This server has no user yet. Create the first one:</p><pre>coder login ${url}</pre>`
      : `<p>Sign in from a terminal:</p><pre>coder login ${url}</pre>
<p>or <a href="/login">here</a>, for terminals in the browser: <code>/@user/workspace/terminal</code>.</p>`;
    return reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
      .send(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Coder</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:4rem auto;padding:0 1rem;color:#1c1c1c}
pre{background:#f3f3f3;padding:.75rem 1rem;border-radius:6px;overflow:auto}dt{font-weight:600}dd{margin:0 0 .5rem}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e8e8e8}pre{background:#262626}a{color:#8ab4ff}}</style></head>
<body><h1>Coder is running</h1><dl><dt>Version</dt><dd>${escapeHtml(services.version)}</dd></dl>
${next}<p>The description of the API is at <a href="/api/v2/openapi.json">/api/v2/openapi.json</a>.
Health is at <a href="/healthz">/healthz</a> and <a href="/readyz">/readyz</a>.</p></body></html>`);
  });
}
