import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import type { UpdateWorkspaceProxyResponse } from '@ropewalk/contract';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import type { Browser, Page } from 'playwright-core';
import { eventually, freePort, PROGRAM, type RunningProgram, startProgram } from '../harness.ts';
import { assertAccessible, keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { shows, startTextBrowser, typed } from './terminal-screen.ts';

let server: TestServer;
let dev: TestWorkspace;
let browser: Browser;
/** A web app in the workspace, whose agent runs on this machine. */
let app: Server;
/** The process of the workspace proxy, and where it is. */
let proxy: RunningProgram | undefined;
let proxyPort: number;
let proxyUrl: string;
before(async () => {
  if (needsBrowser.skip) return;
  app = createServer((_request, response) =>
    response.setHeader('content-type', 'text/html').end('<h1>The manual</h1>'),
  );
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
  proxyPort = await freePort();
  proxyUrl = `http://127.0.0.1:${proxyPort}`;
  [server, browser] = await Promise.all([
    // every host below localhost is this machine
    startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.localhost' } }),
    startTextBrowser(),
  ]);
  const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}`;
  const apps = [
    { slug: 'web', displayName: 'Web', url, subdomain: true },
    { slug: 'docs', displayName: 'Docs', url },
  ];
  const agent = { apps, displayApps: { portForwardingHelper: true } };
  dev = await startTestWorkspace(server, 'dev', { agent, env: { PS1: '$ ' } });
});
after(async () => {
  await browser?.close();
  await stopProxy();
  await dev?.stop();
  await server?.stop();
  app?.closeAllConnections();
  app?.close();
});

/** Starts the proxy with the variables that the dashboard shows. */
function startProxy(token: string): void {
  const env = {
    ...process.env,
    CODER_PRIMARY_ACCESS_URL: server.accessUrl,
    CODER_PROXY_SESSION_TOKEN: token,
    CODER_ACCESS_URL: proxyUrl,
    CODER_WILDCARD_ACCESS_URL: `*.eu.localhost:${proxyPort}`,
    CODER_HTTP_ADDRESS: `127.0.0.1:${proxyPort}`,
  };
  proxy = startProgram(PROGRAM, ['wsproxy', 'server'], { env });
}

async function stopProxy(): Promise<void> {
  proxy?.child.kill();
  await proxy?.ended;
  proxy = undefined;
}

async function open(t: TestContext, path: string, token = server.adminToken) {
  const viewer = await openAs(browser, server, token);
  t.after(() => viewer.context.close());
  await viewer.page.goto(path);
  return viewer;
}

async function bothSizes(page: Page, name: string): Promise<void> {
  for (const [width, height] of [
    [1440, 900],
    [390, 844],
  ] as const) {
    await page.setViewportSize({ width, height });
    assert.equal(await page.evaluate('document.documentElement.scrollWidth > innerWidth'), false, 'fits');
    await keepScreenshots(page, `${name}-${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}

test('creates a proxy, shows its token once, changes and deletes it', needsBrowser, async (t) => {
  const { page, errors: problems } = await open(t, '/deployment/workspace-proxies');
  await page.getByText('No workspace proxies').waitFor();
  assert.equal(await page.getByRole('button', { name: /^Region/ }).count(), 0);
  await bothSizes(page, 'proxies-empty');
  await page.getByRole('button', { name: 'Create proxy' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('primary');
  await dialog.getByRole('button', { name: 'Create proxy' }).click();
  await dialog.getByText('"primary" is reserved').waitFor();
  await dialog.getByLabel('Name', { exact: true }).fill('eu');
  await dialog.getByLabel('Display name').fill('Europe');
  await dialog.getByLabel('Icon', { exact: true }).fill('/emojis/1f30d.png');
  await assertAccessible(page);
  await bothSizes(page, 'proxies-create');
  await dialog.getByRole('button', { name: 'Create proxy' }).click();
  await dialog.getByRole('heading', { name: 'Europe was created' }).waitFor();
  const token = await dialog.locator('code').first().innerText();
  assert.match(token, /^[0-9a-f-]{36}:[0-9A-Za-z]{64}$/);
  const commands = await dialog.locator('pre').innerText();
  assert.match(commands, new RegExp(`CODER_PRIMARY_ACCESS_URL=${server.accessUrl}\n`));
  assert.ok(commands.includes(`CODER_PROXY_SESSION_TOKEN=${token}\n`), commands);
  assert.match(commands, /\ncoder wsproxy server$/);
  await assertAccessible(page);
  await bothSizes(page, 'proxies-token');
  await dialog.getByRole('button', { name: 'Done' }).click();
  const row = page.getByRole('row').filter({ hasText: 'Europe' });
  await row.getByText('Not registered').waitFor();
  await row.getByText('Never').waitFor();
  await page.reload();
  await row.getByText('Not registered').waitFor();
  assert.ok(!(await page.content()).includes(token), 'shown once');

  startProxy(token);
  await row.getByText('Healthy').waitFor();
  await row.getByText(proxyUrl).waitFor();
  await row.getByText('just now').waitFor();
  await stopProxy();
  await row.getByText('Unreachable').waitFor();
  await row.getByText(`This server cannot reach ${proxyUrl}`).waitFor();
  await assertAccessible(page);
  await bothSizes(page, 'proxies');

  await row.getByRole('button', { name: 'Actions for eu' }).click();
  await page.getByRole('menuitem', { name: 'Edit' }).click();
  await dialog.getByLabel('Name', { exact: true }).fill('frankfurt');
  await dialog.getByLabel('Display name').fill('Frankfurt');
  await dialog.getByRole('button', { name: 'Save' }).click();
  const renamed = page.getByRole('row').filter({ hasText: 'Frankfurt' });
  await renamed.getByRole('button', { name: 'Actions for frankfurt' }).click();
  await page.getByRole('menuitem', { name: 'Replace token' }).click();
  await dialog.getByRole('button', { name: 'Replace token' }).click();
  await dialog.getByRole('heading', { name: 'Frankfurt has a new token' }).waitFor();
  const next = await dialog.locator('code').first().innerText();
  assert.notEqual(next, token);
  assert.ok((await dialog.locator('pre').innerText()).includes(`CODER_ACCESS_URL=${proxyUrl}\n`));
  await dialog.getByRole('button', { name: 'Done' }).click();
  const old = await server.api('POST', '/workspaceproxies/me/deregister', {
    token: null,
    headers: { 'Coder-External-Proxy-Token': token },
    body: { replica_id: crypto.randomUUID() },
  });
  assert.equal(old.status, 401);

  await page.getByRole('button', { name: 'Actions for primary' }).click();
  assert.equal(await page.getByRole('menuitem').count(), 1);
  await page.getByRole('menuitem', { name: 'Edit' }).click();
  await dialog.getByLabel('Display name').fill('Home');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('row').filter({ hasText: 'Home' }).waitFor();

  await renamed.getByRole('button', { name: 'Actions for frankfurt' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await dialog.getByLabel('Type frankfurt to confirm').fill('frankfurt');
  await keepScreenshots(page, 'proxies-delete');
  await dialog.getByRole('button', { name: 'Delete proxy' }).click();
  await page.getByText('No workspace proxies').waitFor();
  // this page was there before the region was
  const isExpected = (text: string) => text.includes('/latency-check?') && text.includes('Content Security Policy');
  assert.deepEqual(
    problems.filter((text) => !isExpected(text)),
    [],
  );
  assert.ok(problems.length <= 2, 'tried once');
});

test('apps, ports and terminals open in the chosen region, while it is healthy', needsBrowser, async (t) => {
  const made = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
    body: { name: 'eu', display_name: 'Europe', icon: '/emojis/1f30d.png' },
  });
  await server.api('PATCH', '/workspaceproxies/primary', { body: { display_name: 'Home' } });
  const { page } = await open(t, '/@admin/dev');
  const web = page.getByRole('link', { name: 'Web' });
  const docs = page.getByRole('link', { name: 'Docs' });
  const hrefs = async () => [await web.getAttribute('href'), await docs.getAttribute('href')];
  const { port: own } = new URL(server.url);
  const here = [`http://web--main--dev--admin.apps.localhost:${own}/`, '/@admin/dev.main/apps/docs/'];
  const there = [`http://web--main--dev--admin.eu.localhost:${proxyPort}/`, `${proxyUrl}/@admin/dev.main/apps/docs/`];
  await web.waitFor();
  assert.deepEqual(await hrefs(), here);
  const button = page.getByRole('button', { name: /^Region/ });
  await button.click();
  const panel = page.getByRole('dialog');
  const europe = panel.getByRole('radio', { name: 'Europe' });
  await panel.getByText('Not healthy.').waitFor();
  assert.equal(await europe.isDisabled(), true);

  // the policy of the page does not contain the region yet
  startProxy(made.body.proxy_token);
  await panel.getByText('Reload this page to measure it.').waitFor();
  await page.reload();
  await page.getByRole('button', { name: /^Region: (Home|Europe), \d+ ms$/ }).click();
  await panel
    .getByText(/^\d+ ms$/)
    .nth(1)
    .waitFor();
  await assertAccessible(page);
  await europe.click();
  await page.getByRole('button', { name: /^Region: Europe/ }).waitFor();
  await bothSizes(page, 'regions');
  await page.keyboard.press('Escape');
  assert.deepEqual(await hrefs(), there);
  await page.reload();
  await web.waitFor();
  await page.getByRole('button', { name: /^Region: Europe, \d+ ms$/ }).waitFor();
  assert.deepEqual(await hrefs(), there);
  await page.getByRole('button', { name: 'Ports' }).click();
  await page.getByLabel('Another port').fill('8080');
  const [preview] = await Promise.all([
    page.context().waitForEvent('page'),
    panel.getByRole('button', { name: 'Open', exact: true }).click(),
  ]);
  assert.match(preview.url(), /^http:\/\/8080--main--dev--admin\.eu\.localhost:/);
  await preview.close();
  await page.keyboard.press('Escape');
  for (const link of [docs, web]) {
    const [shown] = await Promise.all([page.context().waitForEvent('page'), link.click()]);
    await shown.getByRole('heading', { name: 'The manual' }).waitFor();
    assert.equal(new URL(shown.url()).port, `${proxyPort}`);
    await shown.close();
  }

  await stopProxy();
  await page.getByText('The region Europe is not healthy').waitFor();
  await page.getByRole('button', { name: 'Region: Home, ' }).click();
  await panel.getByText(`Not healthy. This server cannot reach ${proxyUrl}`).waitFor();
  assert.equal(await europe.isChecked(), true);
  assert.deepEqual(await hrefs(), here);
  await assertAccessible(page);
  await bothSizes(page, 'regions-missed');
  startProxy(made.body.proxy_token);
  await page.getByRole('button', { name: /^Region: Europe/ }).waitFor();
  assert.deepEqual(await hrefs(), there);
  await panel.getByRole('radio', { name: 'Home' }).click();
  await page.getByRole('button', { name: /^Region: Home/ }).waitFor();
  assert.deepEqual(await hrefs(), here);
  const fastest = (await panel.getByText(/^Now (Home|Europe)$/).innerText()).slice('Now '.length);
  await panel.getByRole('radio', { name: 'The fastest' }).click();
  await page.getByRole('button', { name: `Region: ${fastest}` }).waitFor();
  assert.deepEqual(await hrefs(), fastest === 'Home' ? here : there);
});

test('measures every few minutes, while the page is visible', needsBrowser, async (t) => {
  const { page, context } = await openAs(browser, server, server.adminToken);
  t.after(() => context.close());
  let measured = 0;
  page.on('requestfinished', (each) => {
    if (each.url().includes('/latency-check?')) measured++;
  });
  /** Of each of the two regions, and the first request to each opens the connection. */
  const perRound = 4;
  const rounds = (count: number) =>
    eventually(`measured ${count} times`, async () => measured >= count * perRound && !(await measuring()));
  const measuring = () => page.getByRole('button', { name: 'Measure again' }).isDisabled();
  await page.clock.install();
  await page.goto('/workspaces');
  await page.getByRole('button', { name: /^Region/ }).click();
  await rounds(1);
  await page.clock.fastForward('03:01');
  await rounds(2);
  const see = (state: string) =>
    page.evaluate(
      `Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => '${state}' });
       document.dispatchEvent(new Event('visibilitychange'));`,
    );
  await see('hidden');
  // each runs a timer once
  for (let i = 0; i < 3; i++) await page.clock.fastForward('10:00');
  await see('visible');
  await rounds(3);
  await page.getByRole('button', { name: 'Measure again' }).click();
  await rounds(4);
  assert.equal(measured, 4 * perRound);
});

test('a terminal asks for a token only if its region is a proxy', needsBrowser, async (t) => {
  const { page } = await open(t, '/@admin/dev/terminal');
  const asked: string[] = [];
  page.on('request', (each) => {
    if (each.url().endsWith('/reconnecting-pty-signed-token')) asked.push(each.postData() ?? '');
  });
  await shows(page);
  await page.reload();
  await shows(page);
  assert.deepEqual(asked, []);
  const { body } = await server.api<{ regions: { id: string }[] }>('GET', '/regions');
  await page.evaluate(`localStorage.setItem('region', JSON.stringify({ chosen: '${body.regions[1]!.id}' }))`);
  const streams: string[] = [];
  page.on('websocket', (socket) => streams.push(socket.url()));
  await page.reload();
  await shows(page);
  const terminals = streams.filter((url) => url.includes('/pty?'));
  assert.deepEqual(
    terminals.map((url) => new URL(url).origin),
    [proxyUrl.replace('http', 'ws')],
  );
  await typed(page, 'echo on-$((40+2))');
  await shows(page, 'on-42');
  const [first] = asked.map((text) => JSON.parse(text) as { url: string; agentID: string });
  assert.equal(first?.agentID, dev.agentId);
  assert.ok(first?.url.startsWith(`${proxyUrl.replace('http', 'ws')}/api/v2/workspaceagents/${dev.agentId}/pty?`));
});

test('members see proxies, and cannot change them', needsBrowser, async (t) => {
  const { body: me } = await server.api<{ organization_ids: string[] }>('GET', '/users/me');
  const account = { username: 'ann', email: 'ann@example.com', password: 'correct horse battery' };
  await server.api('POST', '/users', { body: { ...account, organization_ids: me.organization_ids } });
  const { username: _, ...body } = account;
  const signedIn = await server.api<{ session_token: string }>('POST', '/users/login', { body, token: null });
  const { page } = await open(t, '/deployment/workspace-proxies', signedIn.body.session_token);
  await page.getByRole('row').filter({ hasText: 'Europe' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /^(Create|Actions)/ }).count(), 0);
});
