import type { FastifyInstance } from 'fastify';
import { type Assets, PAGE_HEADERS } from './assets.ts';

/** The page of the web terminal. It reads everything from the API, as the signed-in person. */
export function terminalPage(app: FastifyInstance, assets: Assets): void {
  app.get('/@:user/:workspace/terminal', async (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .headers(PAGE_HEADERS)
      .send(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Terminal</title>
<link rel="stylesheet" href="${assets.path('xterm.css')}">
<style>html,body{height:100%;margin:0;background:#141414;color:#e8e8e8;font:14px/1.5 system-ui,sans-serif}
body{display:flex;flex-direction:column}#terminal{flex:1;min-height:0;padding:.4rem}
#notice{padding:.4rem .8rem;background:#5a4500;white-space:pre-wrap}#notice[hidden]{display:none}
#notice[data-kind=error]{background:#6b1f1f}#notice a{color:#9cc3ff}#notice button{font:inherit;margin-left:.8rem}</style></head>
<body><div id="notice" role="status" hidden></div><div id="terminal"></div>
<noscript>The terminal needs JavaScript. Without it: coder ssh</noscript>
<script type="module" src="${assets.path('terminal.js')}"></script></body></html>
`),
  );
}
