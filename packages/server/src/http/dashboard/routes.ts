import { setTimeout as sleep } from 'node:timers/promises';
import type { CSPViolation } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { wantsHtml } from '../apps/pages.ts';
import { SESSION_COOKIE } from '../auth.ts';
import type { ClientAddress } from '../client-address.ts';
import { cookieValue } from '../cookies.ts';
import { holdsTag } from '../etag.ts';
import { parseLoosely } from '../input.ts';
import type { Dashboard } from './build.ts';
import type { CspReports } from './csp-reports.ts';
import type { DashboardFile, DashboardFiles } from './pack.ts';
import { proxySources, type ServedProxy } from './proxy-sources.ts';

/** Where browsers report violations of the policy below. */
export const REPORTS_PATH = '/csp/reports';
/** How long a page waits for a build, in ms. Then a plain page reloads until the build is done. */
const WAIT_MS = 30_000;
/** Names with their content's hash never change. */
const FOR_EVER = 'public, max-age=31536000, immutable';
/** An icon changes with a release at most. */
const ONE_DAY = 'public, max-age=86400';
const NO_SNIFF = { 'x-content-type-options': 'nosniff' };

export interface DashboardRoutesOptions {
  dashboard: Dashboard;
  cspReports: CspReports;
  clientAddress: ClientAddress;
  /** Further directives of the page's Content-Security-Policy, whose values are added to its own. */
  additionalPolicy?: readonly string[];
  /** The origins of apps, which the page of a task shows in a frame. Undefined if they have no separate hosts. */
  appOrigins?: () => string | undefined;
  /** The healthy workspace proxies, to which the page connects, and whose apps it shows. */
  proxies?: () => readonly ServedProxy[];
  /** How long a page waits for a build, in ms. */
  waitMs?: number;
}

/**
 * Serves the dashboard's files and icons, and its page at every path that no other route has. The page itself shows
 * which paths do not exist.
 */
export function dashboardRoutes(
  app: FastifyInstance,
  {
    dashboard,
    cspReports,
    clientAddress,
    additionalPolicy = [],
    appOrigins,
    proxies = () => [],
    waitMs = WAIT_MS,
  }: DashboardRoutesOptions,
): void {
  const more = parseDirectives(additionalPolicy);
  app.get<{ Params: { name: string } }>('/assets/:name', async (request, reply) => {
    const file = (await dashboard.files()).get(`/assets/${request.params.name}`);
    return file ? send(request, reply, file, FOR_EVER) : reply.callNotFound();
  });
  app.get<{ Params: { name: string } }>('/icon/:name', async (request, reply) => {
    const file = (await dashboard.files()).get(`/icon/${request.params.name.replace(/\.png$/, '.svg')}`);
    return file ? send(request, reply, file, ONE_DAY) : reply.callNotFound();
  });
  app.get<{ Params: { name: string } }>('/emojis/:name', async (request, reply) => {
    const svg = emojiOf(await dashboard.files(), request.params.name);
    if (svg === undefined) return reply.callNotFound();
    return reply
      .type('image/svg+xml; charset=utf-8')
      .headers(NO_SNIFF)
      .header('cache-control', ONE_DAY)
      .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
      .send(svg);
  });
  app.post(REPORTS_PATH, async (request, reply) => {
    cspReports.take(reportOf(request.body), clientAddress(request.raw));
    return reply.code(204).send();
  });
  app.get('/*', async (request, reply) => {
    const path = request.url.replace(/\?.*$/, '');
    if (path.startsWith('/api/')) return reply.callNotFound();
    // programs that watch a server ask for / with any Accept
    if (path !== '/' && !wantsHtml(request.raw)) {
      // favicon.svg, theme.js
      const file = /^\/[\w-]+\.\w+$/.test(path) ? (await dashboard.files()).get(path) : undefined;
      return file ? send(request, reply, file, 'no-cache') : reply.callNotFound();
    }
    const files = await built(dashboard, waitMs);
    if (typeof files === 'string') return sendNotice(reply, files);
    const file = files.get(path) ?? files.get(isFirstPage(request) ? '/first-page.html' : '/index.html')!;
    if (file.type.startsWith('text/html')) reply.headers(pageHeaders(request, more, appOrigins?.(), proxies()));
    return send(request, reply, file, 'no-cache', 'accept-encoding, cookie');
  });
}

/** Whether a browser with a session opens the dashboard, without a separate search. */
const isFirstPage = ({ url, headers }: FastifyRequest) =>
  (url === '/' || url === '/workspaces') && cookieValue(headers.cookie, SESSION_COOKIE) !== undefined;

/** A browser's report, whose content type is not JSON's. */
function reportOf(body: unknown): CSPViolation {
  const parsed = Buffer.isBuffer(body) ? parseLoosely(body) : body;
  const report = (parsed as CSPViolation | undefined)?.['csp-report'];
  if (typeof report !== 'object' || report === null) {
    throw new AppError('invalid', 'Expected a JSON object with "csp-report".');
  }
  return { 'csp-report': report };
}

/** The headers of the dashboard's page. It runs only its own scripts, and connects only to this host and the proxies. */
function pageHeaders(
  { headers: { host = '' } }: FastifyRequest,
  more: Directives,
  apps: string | undefined,
  proxies: readonly ServedProxy[],
): Record<string, string> {
  const { connect, frame } = proxySources(proxies);
  const frames = [...(apps === undefined ? [] : [apps]), ...frame];
  // 'self' does not cover WebSockets in every browser
  const sockets = /^[a-z0-9.:[\]-]+$/i.test(host) ? [`ws://${host}`, `wss://${host}`] : [];
  const policy: Directives = new Map([
    ['default-src', ["'none'"]],
    ['script-src', ["'self'"]],
    // the terminal and the editor write their own style sheets and style attributes
    ['style-src', ["'self'", "'unsafe-inline'"]],
    // icons of templates and avatars may be on any host
    ['img-src', ["'self'", 'data:', 'blob:', 'https:']],
    ['font-src', ["'self'"]],
    ['manifest-src', ["'self'"]],
    ['worker-src', ["'self'"]],
    ['connect-src', ["'self'", ...sockets, ...connect]],
    // the way to an app leads through this server, which signs people in to it
    ['frame-src', frames.length === 0 ? ["'none'"] : ["'self'", ...frames]],
    ['base-uri', ["'none'"]],
    ['form-action', ["'self'"]],
    ['frame-ancestors', ["'none'"]],
    ['report-uri', [REPORTS_PATH]],
  ]);
  for (const [name, values] of more) {
    // 'none' means nothing else
    const known = (policy.get(name) ?? []).filter((value) => value !== "'none'");
    policy.set(name, [...known, ...values]);
  }
  return {
    'content-security-policy': [...policy].map(([name, values]) => [name, ...values].join(' ')).join('; '),
    'referrer-policy': 'no-referrer',
  };
}

/** Directives of a Content-Security-Policy by name. */
type Directives = Map<string, readonly string[]>;

/**
 * Parses directives such as `frame-ancestors https://example.com`.
 * @throws AppError `invalid` for anything else
 */
function parseDirectives(texts: readonly string[]): Directives {
  return new Map(
    texts.map((text) => {
      const [name = '', ...values] = text.trim().split(/\s+/);
      if (!/^[a-z-]+$/.test(name) || values.some((value) => /[;,]/.test(value))) {
        throw new AppError(
          'invalid',
          `Invalid --additional-csp-policy value ${JSON.stringify(text)}: write a directive and its values, such as "frame-ancestors https://example.com".`,
        );
      }
      return [name, values] as const;
    }),
  );
}

function send(
  request: FastifyRequest,
  reply: FastifyReply,
  file: DashboardFile,
  cacheControl: string,
  vary = 'accept-encoding',
): FastifyReply {
  const { etag, type } = file;
  reply.headers({ etag, vary, 'cache-control': cacheControl, ...NO_SNIFF });
  if (holdsTag(request.headers['if-none-match'], etag)) return reply.code(304).send();
  // opened by itself, an image runs nothing
  if (type.startsWith('image/svg')) {
    reply.header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'");
  }
  const accepted = request.headers['accept-encoding'];
  const { encoding, bytes } = file.body(Array.isArray(accepted) ? accepted.join() : accepted);
  if (encoding) reply.header('content-encoding', encoding);
  return reply.type(type).send(bytes);
}

/** `1f4bb.png` or `1f4bb.svg`. Some names contain the variation selector that ours leave out. */
function emojiOf(files: DashboardFiles, name: string): string | undefined {
  const code = /^([0-9a-f]{1,6}(?:-[0-9a-f]{1,6})*)\.(?:png|svg)$/i.exec(name)?.[1]?.toLowerCase();
  if (code === undefined) return undefined;
  const bare = code.replace(/^0+/, '');
  return files.emoji(code) ?? files.emoji(bare) ?? files.emoji(bare.replaceAll('-fe0f', ''));
}

/** The files, or the text of a page if they are not there in time. */
async function built(dashboard: Dashboard, waitMs: number): Promise<DashboardFiles | string> {
  const timer = new AbortController();
  try {
    const late = sleep(waitMs, BUILDING, { signal: timer.signal, ref: false });
    // the loser of the race is not waited for
    late.catch(() => {});
    return await Promise.race([dashboard.files(), late]);
  } catch (err) {
    if (err instanceof AppError) return FAILED;
    throw err;
  } finally {
    timer.abort();
  }
}

const notice = (title: string, text: string, again: number) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="${again}"><title>${title}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem;color:#1c1c1c}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e8e8e8}}</style></head>
<body><h1>${title}</h1><p>${text}</p></body></html>
`;
const BUILDING = notice(
  'The dashboard is being built',
  'This happens once after an update and takes a few seconds. The page reloads by itself. The API and the <code>coder</code> command work meanwhile.',
  2,
);
const FAILED = notice(
  'The dashboard could not be built',
  "The server's log contains the reason. This page tries again every ten seconds. The API and the <code>coder</code> command work meanwhile.",
  10,
);

function sendNotice(reply: FastifyReply, text: string): FastifyReply {
  return reply
    .code(503)
    .type('text/html; charset=utf-8')
    .headers({
      'cache-control': 'no-store',
      'retry-after': '5',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      ...NO_SNIFF,
    })
    .send(text);
}
