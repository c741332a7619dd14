import type { FastifyInstance } from 'fastify';
import { type Assets, PAGE_HEADERS } from './assets.ts';

/** The page at /login. It exchanges email and password for a session cookie and goes on to `?redirect=`, a path of this server. */
export function loginPage(app: FastifyInstance, assets: Assets): void {
  app.get('/login', async (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .headers(PAGE_HEADERS)
      .send(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sign in</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:22rem;margin:15vh auto;padding:0 1rem;color:#1c1c1c}
label{display:block;margin:.8rem 0}input{display:block;width:100%;box-sizing:border-box;font:inherit;padding:.4rem}
button{font:inherit;padding:.4rem 1.2rem}#wrong{color:#b3261e;min-height:1.5em}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e8e8e8}#wrong{color:#ff8a80}}</style></head>
<body><h1>Sign in</h1><form id="login"><label>Email<input name="email" type="email" autocomplete="username" required></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<p id="wrong" role="alert"></p><button>Sign in</button></form>
<noscript>Signing in needs JavaScript. From a terminal: coder login</noscript>
<script type="module" src="${assets.path('login.js')}"></script></body></html>
`),
  );
}
