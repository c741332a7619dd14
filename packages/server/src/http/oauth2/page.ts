// The pages on which a person lets an app in, or reads why that fails. They look like the dashboard's sign-in page, but
// need no script, so that nothing else runs next to the decision. The colors are those of the dashboard's tokens.css.

import type { FastifyReply } from 'fastify';
import { receiverOf } from '../../app/oauth2/redirects.ts';
import { escapeHtml } from '../apps/pages.ts';

/** The dashboard's values, which page.test.ts compares. */
export const LIGHT =
  '--page:#fbfbfa;--surface:#ffffff;--raised:#ffffff;--hover:#f1f1ef;--line:#e4e4e0;--line-strong:#cfcfca;--text-1:#1b1b1f;--text-2:#55555d;--accent:#4b4ad6;--accent-hover:#3d3cbd;--accent-text:#4342c4;--on-accent:#ffffff;--warn:#8a5a00;--warn-soft:#fcf1da';
export const DARK =
  '--page:#131315;--surface:#19191c;--raised:#202024;--hover:#232327;--line:#2a2a2f;--line-strong:#3a3a41;--text-1:#ededf0;--text-2:#b0b0ba;--accent:#5b5be6;--accent-hover:#6666e8;--accent-text:#a9a9ff;--on-accent:#ffffff;--warn:#eebb5a;--warn-soft:#35280e';

const STYLE = `
:root{color-scheme:light;${LIGHT}}
@media(prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;${DARK}}}
:root[data-theme=dark]{color-scheme:dark;${DARK}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text-1);font:.875rem/1.375rem ui-sans-serif,system-ui,sans-serif}
main{min-height:100dvh;display:flex;flex-direction:column;align-items:center;justify-content:center;padding:2.5rem 1rem}
main>div{width:100%;max-width:26rem}
.logo{display:block;height:2.5rem;max-width:12rem;margin:0 auto;object-fit:contain}
.name{margin:.5rem 0 0;text-align:center;font-weight:500;color:var(--text-2)}
h1{margin:1rem 0 0;text-align:center;font-size:1.5rem;line-height:2rem;font-weight:600;letter-spacing:-.025em;overflow-wrap:anywhere;text-wrap:balance}
.about{margin:.25rem 0 0;text-align:center;color:var(--text-2);overflow-wrap:anywhere;text-wrap:balance}
.box{margin-top:1.5rem;padding:1.5rem;border:1px solid var(--line);border-radius:12px;background:var(--surface);box-shadow:0 1px 2px rgb(0 0 0/.05)}
.box>:first-child{margin-top:0}.box>:last-child{margin-bottom:0}
h2{margin:0 0 .5rem;font-size:.875rem;line-height:1.375rem;font-weight:600}
ul{margin:0;padding:0;list-style:none}
li{padding:.5rem 0;border-top:1px solid var(--line);overflow-wrap:anywhere}
li code{display:block;color:var(--text-2);font:.75rem/1rem ui-monospace,SFMono-Regular,Menlo,monospace}
dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem;margin:1rem 0}
dt{color:var(--text-2)}dd{margin:0;overflow-wrap:anywhere}
.warn{margin:0 0 1rem;padding:.625rem .75rem;border-radius:6px;background:var(--warn-soft);color:var(--warn)}
.buttons{display:flex;gap:.5rem;margin-top:1.25rem}
.buttons>*{flex:1}
button,a.button{display:inline-flex;align-items:center;justify-content:center;height:2.25rem;padding:0 .75rem;border:1px solid var(--line-strong);border-radius:6px;background:var(--raised);color:var(--text-1);font:500 .875rem/1 inherit;font-family:inherit;text-decoration:none;cursor:pointer}
button:hover,a.button:hover{background:var(--hover)}
button.primary{border-color:transparent;background:var(--accent);color:var(--on-accent)}
button.primary:hover{background:var(--accent-hover)}
:focus-visible{outline:2px solid var(--accent-text);outline-offset:2px}
p{margin:.5rem 0}`;

/** The name and logo of the deployment. Empty: the product's. */
export interface PageLook {
  application_name: string;
  logo_url: string;
}

function frame(look: PageLook, title: string, about: string, box: string): string {
  const { application_name: name, logo_url: logo } = look;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><link rel="icon" type="image/svg+xml" href="/favicon.svg">
<script src="/theme.js"></script><title>${escapeHtml(title)}</title><style>${STYLE}</style></head>
<body><main><div><img class="logo" src="${escapeHtml(logo || '/favicon.svg')}" alt="">
${name ? `<p class="name">${escapeHtml(name)}</p>` : ''}
<h1>${escapeHtml(title)}</h1>${about ? `<p class="about">${escapeHtml(about)}</p>` : ''}
<div class="box">${box}</div></div></main></body></html>
`;
}

export interface Consent {
  look: PageLook;
  app: { name: string; dynamically_registered: boolean };
  redirectUri: string;
  username: string;
  /** Each scope with its meaning. */
  scopes: { name: string; words: string }[];
  /** The part of the server that the app gets. Undefined: all of it. */
  resource: string | undefined;
  /** Proves that the form was sent from this page. */
  proof: string;
}

export function consentPage({ look, app, redirectUri, username, scopes, resource, proof }: Consent): string {
  const warning = app.dynamically_registered
    ? '<p class="warn">This app registered itself. Nobody has checked it, and it may have chosen a misleading name. Continue only if you just started to sign in there.</p>'
    : '';
  const list = scopes
    .map(({ name, words }) => `<li>${escapeHtml(words)}<code>${escapeHtml(name)}</code></li>`)
    .join('');
  const part = resource === undefined ? '' : `<dt>Only at</dt><dd>${escapeHtml(resource)}</dd>`;
  return frame(
    look,
    `Let ${app.name} in?`,
    `It will act as ${username} on this server.`,
    `${warning}<h2>The app may</h2><ul>${list}</ul>
<dl><dt>Returns to</dt><dd>${escapeHtml(receiverOf(redirectUri))}</dd>${part}</dl>
<p class="about">You can end this at any time in Settings, OAuth2 apps.</p>
<form method="post"><input type="hidden" name="csrf_token" value="${escapeHtml(proof)}">
<div class="buttons"><button name="decision" value="deny">Cancel</button>
<button class="primary" name="decision" value="allow">Allow</button></div></form>`,
  );
}

export interface Problem {
  look: PageLook;
  title: string;
  detail: string | undefined;
  /** Where the person can go. */
  link?: { url: string; text: string } | undefined;
}

export function problemPage({ look, title, detail, link }: Problem): string {
  const go = link ?? { url: '/', text: 'Go to your workspaces' };
  return frame(
    look,
    title,
    '',
    `${detail ? `<p>${escapeHtml(detail)}</p>` : ''}
<div class="buttons"><a class="button" rel="noreferrer" href="${escapeHtml(go.url)}">${escapeHtml(go.text)}</a></div>`,
  );
}

/** The source of a Content-Security-Policy for an address: its origin, or only its scheme. */
function sourceOf(address: string): string {
  const { protocol, origin, hostname } = new URL(address);
  const isWeb = protocol === 'http:' || protocol === 'https:';
  return isWeb && !hostname.startsWith('[') ? origin : protocol;
}

/** Sends a page that no other page can show in a frame, and whose form leads only to this server and the app. */
export function sendPage(reply: FastifyReply, status: number, html: string, redirectUri?: string): FastifyReply {
  const form = redirectUri === undefined ? '' : ` ${sourceOf(redirectUri)}`;
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .headers({
      'content-security-policy': `default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' https: data:; form-action 'self'${form}; frame-ancestors 'none'; base-uri 'none'`,
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      // the form's own request needs its origin. Other sites must not get the parameters of the address
      'referrer-policy': 'same-origin',
    })
    .send(html);
}
