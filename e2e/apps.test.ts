import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { ADMIN, startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import { acceptWebSocket } from '@ropewalk/wire/websocket';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from './dashboard/browser.ts';
import { freePort } from './harness.ts';

/**
 * Tests apps in a real browser. The apps' hosts are subdomains of the dashboard's host. Of all setups, this one brings
 * apps nearest to the dashboard's cookies.
 */
let server: TestServer;
let dev: TestWorkspace;
let app: Server;
let browser: Browser;
let origin: string;
let host: (slug: string) => string;

/** A page with a script, a WebSocket, an event stream and uploads, all with relative addresses. */
const PAGE = '<!doctype html><title>app</title><script src="script.js"></script><h1>An app</h1>';

before(async () => {
  app = createServer((request, response) => {
    const path = new URL(request.url!, 'http://x').pathname;
    if (path.endsWith('script.js')) response.writeHead(200, { 'Content-Type': 'text/javascript' }).end('loaded = true');
    else if (path.endsWith('events')) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: one\n\n');
    } else if (path.endsWith('upload')) {
      let bytes = 0;
      request.on('data', (part: Buffer) => {
        bytes += part.length;
      });
      request.on('end', () => response.end(String(bytes)));
    } else if (path.endsWith('headers')) response.end(JSON.stringify(request.headers));
    else response.writeHead(200, { 'Content-Type': 'text/html' }).end(PAGE);
  });
  app.on('upgrade', (request, socket, head) => {
    const connection = acceptWebSocket(request, socket, head);
    connection.on('text', (text) => connection.sendText(`${text}!`));
  });
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
  const port = await freePort();
  origin = `http://coder.test:${port}`;
  host = (slug) => `http://${slug}--main--dev--admin.coder.test:${port}`;
  server = await startTestServer({
    env: {
      CODER_HTTP_ADDRESS: `127.0.0.1:${port}`,
      CODER_ACCESS_URL: origin,
      CODER_WILDCARD_ACCESS_URL: '*.coder.test',
    },
  });
  const url = `http://localhost:${(app.address() as AddressInfo).port}`;
  const apps = ['web', 'evil'].map((slug) => ({ slug, url, subdomain: true }));
  dev = await startTestWorkspace(server, 'dev', { agent: { apps } });
  browser = await startBrowser({ args: ['--host-resolver-rules=MAP *.test 127.0.0.1'] });
});
after(async () => {
  await browser.close();
  await dev.stop();
  await server.stop();
  app.closeAllConnections();
  app.close();
});

/** Opens an address, signs in on the page that appears first, and waits for the app. */
async function signedIn(url: string): Promise<Page> {
  // its own cookies
  const page = await (await browser.newContext()).newPage();
  await page.goto(url);
  await page.waitForURL((at) => at.pathname === '/login');
  assert.equal(await page.evaluate('location.origin'), origin);
  await page.getByLabel('Email').fill(ADMIN.email);
  await page.getByLabel('Password', { exact: true }).fill(ADMIN.password);
  await page.keyboard.press('Enter');
  await page.waitForURL(url);
  await page.waitForFunction(`document.title === 'app'`);
  return page;
}

/** Uses everything that an app does from its page. */
async function works(page: Page): Promise<void> {
  await page.waitForFunction('window.loaded === true');
  const echo = `new Promise((resolve, reject) => {
    const socket = new WebSocket(new URL('socket', location.href));
    socket.onopen = () => socket.send('hello');
    socket.onmessage = ({ data }) => resolve(data);
    socket.onerror = () => reject(new Error('refused'));
  })`;
  assert.equal(await page.evaluate(echo), 'hello!');
  const event = `new Promise((resolve) => {
    const source = new EventSource('events');
    source.onmessage = ({ data }) => { source.close(); resolve(data); };
  })`;
  assert.equal(await page.evaluate(event), 'one');
  const upload = `fetch('upload', { method: 'POST', body: new Uint8Array(5_000_000) }).then((answer) => answer.text())`;
  assert.equal(await page.evaluate(upload), '5000000');
  assert.doesNotMatch(await page.evaluate<string>(`fetch('headers').then((answer) => answer.text())`), /coder_/);
  assert.equal(await page.evaluate('document.cookie'), '', "scripts cannot read the page's cookies");
}

test('a subdomain app opens after a sign-in at the dashboard, and works', async () => {
  const page = await signedIn(`${host('web')}/deep?x=1`);
  await works(page);
  await page.goto(`${host('evil')}/`);
  // without signing in again
  await page.waitForFunction(`document.title === 'app'`);
  await page.context().close();
});

test('a path app opens after a sign-in, and works', async () => {
  const page = await signedIn(`${origin}/@admin/dev/apps/web/deep`);
  await works(page);
  await page.context().close();
});

test('a malicious app on its own host cannot use its visitor’s session', async () => {
  const page = await signedIn(`${host('evil')}/`);
  const tokens = async () => {
    const [row] = await server.services.sql<{ count: number }[]>`SELECT count(*) AS count FROM api_keys
      WHERE scope = 'all'`;
    return row!.count;
  };
  const before = await tokens();
  const tried = (expression: string) =>
    page.evaluate<string>(`(${expression}).then((value) => 'got ' + value, (err) => 'refused ' + err.name)`);
  const read = `fetch('${origin}/api/v2/users/me', { credentials: 'include' }).then((answer) => answer.text())`;
  assert.equal(await tried(read), 'refused TypeError');
  // The browser sends the request with the cookie, because it is the same site. The app cannot read the answer.
  for (const mode of ['no-cors', 'cors']) {
    const write = `fetch('${origin}/api/v2/users/me/keys', { method: 'POST', mode: '${mode}', credentials: 'include', body: '{}' })`;
    await tried(write);
  }
  const log = `fetch('${origin}/api/v2/users/logout', { method: 'POST', mode: 'no-cors', credentials: 'include' })`;
  await tried(log);
  assert.equal(await tokens(), before, 'no token was created or revoked');
  const socket = (path: string) => `new Promise((resolve, reject) => {
    const socket = new WebSocket('${origin.replace('http', 'ws')}${path}');
    socket.onopen = () => resolve('open');
    socket.onerror = () => reject(new Error('refused'));
  })`;
  const tunnel = `/api/v2/workspaceagents/${dev.agentId}/tunnel?service=ssh`;
  assert.equal(await tried(socket(tunnel)), 'refused Error');
  assert.equal(await tried(socket('/@admin/dev/apps/web/socket')), 'refused Error', 'also not through a path app');
  const here = `fetch('/api/v2/users/me').then((answer) => answer.text())`;
  assert.match(await tried(here), /An app/, 'on its own host the app answers');
  // the browser shows the answer to a form, and the page then belongs to the dashboard
  await page.evaluate(`{
    const form = document.createElement('form');
    Object.assign(form, { method: 'POST', action: '${origin}/api/v2/users/me/keys', enctype: 'text/plain' });
    document.body.append(form);
    form.submit();
  }`);
  await page.getByText('another site').waitFor();
  assert.equal(await tokens(), before);
  await page.context().close();
});
