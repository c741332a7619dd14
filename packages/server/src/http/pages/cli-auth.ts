import type { FastifyInstance } from 'fastify';
import { type Assets, PAGE_HEADERS } from './assets.ts';

/** The page at /cli-auth, to which `coder login` sends people. It shows a session token of the signed-in person to copy. */
export function cliAuthPage(app: FastifyInstance, assets: Assets): void {
  app.get('/cli-auth', async (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .headers(PAGE_HEADERS)
      .send(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Session token</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem;color:#1c1c1c}
button{font:inherit;padding:.4rem 1.2rem}output{display:block;margin:1rem 0;font-family:monospace;user-select:all}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e8e8e8}}</style></head>
<body><h1>Session token</h1><p>Paste it into <code>coder login</code> in your terminal. Keep it secret: anyone who has it can act as you.</p>
<button id="make">Make a token</button><output id="token" role="status"></output>
<noscript>This page needs JavaScript.</noscript>
<script type="module" src="${assets.path('cli-auth.js')}"></script></body></html>
`),
  );
}
