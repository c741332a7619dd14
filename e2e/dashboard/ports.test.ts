import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, before, type TestContext, test } from 'node:test';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import type { Browser } from 'playwright-core';
import { assertAccessible, keepScreenshots, needsBrowser, openAs, startBrowser } from './browser.ts';

const WEB_SERVER = `
  const web = require('node:http').createServer((request, response) => {
    response.setHeader('content-type', 'text/html').end('<h1>Preview of ' + request.headers.host + '</h1>');
  });
  web.listen(0, '127.0.0.1', () => console.log(web.address().port));`;

let server: TestServer;
let dev: TestWorkspace;
let browser: Browser;
/** A web server in the workspace, whose agent runs on this machine. */
let web: ChildProcess;
let port: number;
before(async () => {
  if (needsBrowser.skip) return;
  // in a separate process, because the agent leaves out the ports of its process
  web = spawn(process.execPath, ['-e', WEB_SERVER], { stdio: ['ignore', 'pipe', 'inherit'] });
  port = Number(await once(web.stdout!, 'data'));
  [server, browser] = await Promise.all([
    // every host below localhost is this machine
    startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.localhost' } }),
    startBrowser(),
  ]);
  dev = await startTestWorkspace(server, 'dev', {
    agent: { displayApps: { portForwardingHelper: true, vscode: true } },
  });
  await server.api('PATCH', `/templates/${dev.workspace.template_id}`, { body: { max_port_share_level: 'public' } });
});
after(async () => {
  await browser?.close();
  await dev?.stop();
  await server?.stop();
  web?.kill();
});

async function open(t: TestContext, token: string | undefined, url: string) {
  const viewer = await openAs(browser, server, token);
  t.after(() => viewer.context.close());
  await viewer.page.goto(url);
  return viewer;
}

test('opens a port on its own host, and shares it with anyone who has the link', needsBrowser, async (t) => {
  const { page, context } = await open(t, server.adminToken, '/@admin/dev');
  await page.getByRole('button', { name: 'Ports' }).click();
  const link = page.getByRole('link', { name: `Open port ${port}` });
  await link.waitFor();
  const address = (await link.getAttribute('href'))!;
  assert.match(address, new RegExp(`^http://${port}--main--dev--admin\\.apps\\.localhost:\\d+/$`));
  const row = page.getByRole('listitem').filter({ has: link });
  const program = readFileSync(`/proc/${web.pid}/comm`, 'utf8').trim();
  await row.getByText(program, { exact: true }).waitFor();
  await row.getByText(`coder port-forward dev --tcp ${port}`, { exact: true }).waitFor();
  await row.getByRole('button', { name: `Copy the command for port ${port}` }).waitFor();
  await keepScreenshots(page, 'ports');
  await assertAccessible(page);

  const stranger = await open(t, undefined, address);
  await stranger.page.waitForURL(/\/login\?/);

  const [preview] = await Promise.all([context.waitForEvent('page'), link.click()]);
  await preview.getByRole('heading', { name: `Preview of ${new URL(address).host}` }).waitFor();

  await page
    .getByRole('combobox', { name: `Who may open port ${port}` })
    .selectOption({ label: 'Anyone with the link' });
  await page.getByRole('button', { name: 'Ports 1 shared' }).waitFor();
  await stranger.page.goto(address);
  await stranger.page.getByRole('heading', { name: /^Preview/ }).waitFor();

  await page.getByRole('button', { name: `Stop sharing port ${port}` }).click();
  await page.getByRole('button', { name: 'Ports', exact: true }).waitFor();
  await stranger.page.goto(address);
  await stranger.page.waitForURL(/\/login\?/);
});

test('opens editors by their addresses, with their own token', needsBrowser, async (t) => {
  const { page } = await open(t, server.adminToken, '/workspaces');
  const session = await page.context().newCDPSession(page);
  await session.send('Page.enable');
  const asked = new Promise<string>((resolve) => {
    session.on('Page.frameRequestedNavigation', ({ url }: { url: string }) => resolve(url));
  });
  await page.getByRole('button', { name: 'Connect to dev' }).click();
  await page.getByRole('menuitem', { name: 'VS Code', exact: true }).click();
  const address = new URL(await asked);
  assert.equal(address.protocol, 'vscode:');
  const given = Object.fromEntries(address.searchParams);
  const { token = '', ...where } = given;
  assert.deepEqual(where, { owner: 'admin', workspace: 'dev', agent: 'main', folder: dev.home, url: server.url });
  assert.equal((await server.api('GET', '/users/me', { token })).status, 200);
});
