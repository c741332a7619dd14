import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import type { Browser, Page } from 'playwright-core';
import { assertAccessible, keepScreenshots, needsBrowser, openAs } from './browser.ts';
import { screenText, shows, startTextBrowser, typed } from './terminal-screen.ts';

let server: TestServer;
let dev: TestWorkspace;
let browser: Browser;
before(async () => {
  if (needsBrowser.skip) return;
  [server, browser] = await Promise.all([startTestServer(), startTextBrowser()]);
  const apps = [{ slug: 'answer', command: 'echo the-$((40+2)); read x' }];
  dev = await startTestWorkspace(server, 'dev', { agent: { apps }, env: { PS1: '$ ' } });
});
after(async () => {
  await browser?.close();
  await dev?.stop();
  await server?.stop();
});

async function open(t: TestContext, path: string, at: { url: string } = server) {
  const viewer = await openAs(browser, at, server.adminToken);
  t.after(() => viewer.context.close());
  await viewer.page.goto(path);
  return viewer;
}

const noticeGone = (page: Page) => page.locator('[role=status] [data-kind]').waitFor({ state: 'detached' });
const occurrences = async (page: Page, text: string) => (await screenText(page)).split(text).length - 1;

test('runs a shell that survives a reload, and asks strangers to sign in', needsBrowser, async (t) => {
  const stranger = await openAs(browser, server, undefined);
  t.after(() => stranger.context.close());
  await stranger.page.goto('/@admin/dev.main/terminal');
  await stranger.page.waitForURL(/\/login\?redirect=%2F%40admin%2Fdev\.main%2Fterminal/);

  const { page, errors } = await open(t, '/@admin/dev.main/terminal');
  await shows(page);
  assert.match(await page.title(), /^dev\.main · Terminal/);
  assert.equal(await page.evaluate('document.cookie'), '', 'scripts cannot read the session');
  await typed(page, 'X=kept; echo on-$((40+2))');
  await shows(page, 'on-42');
  assert.match(page.url(), /[?&]reconnect=[\da-f-]{36}/);
  await page.reload();
  await shows(page, 'on-42');
  await typed(page, 'echo still-$X');
  await shows(page, 'still-kept');
  assert.equal(await occurrences(page, 'on-42'), 1, 'nothing is doubled');
  await assertAccessible(page);
  await keepScreenshots(page, 'terminal');
  await typed(page, 'exit');
  await page.getByText('The program has ended. Press Enter for a new one.').waitFor();
  await page.keyboard.press('Enter');
  await noticeGone(page);
  assert.deepEqual(errors, []);
});

test('keeps several terminals in tabs, over a reload', needsBrowser, async (t) => {
  const { page } = await open(t, '/@admin/dev/terminal');
  await shows(page);
  await typed(page, 'echo first-$((1+1))');
  await shows(page, 'first-2');
  await page.getByRole('button', { name: 'New terminal' }).click();
  await shows(page, /^(?![\s\S]*first-2)[\s\S]*\S/);
  await typed(page, 'echo second-$((1+1))');
  await shows(page, 'second-2');
  await page.reload();
  await shows(page, 'second-2');
  await page.getByRole('tab', { name: 'Shell 1' }).click();
  await shows(page, 'first-2');
  await page.getByRole('button', { name: 'Close terminal 1' }).click();
  await shows(page, 'second-2');
  assert.equal(await page.getByRole('tab').count(), 1);
});

test('searches, and opens the links of the screen in new tabs', needsBrowser, async (t) => {
  const { page, context } = await open(t, '/@admin/dev/terminal');
  await shows(page);
  await typed(page, `echo see ${server.url}/healthz?$((1+1)) ok`);
  await shows(page, 'healthz?2 ok');
  await page.keyboard.press('Control+Shift+F');
  await page.getByRole('textbox', { name: 'Search in the terminal' }).fill('no such text');
  await page.getByText('No match').waitFor();
  await page.getByRole('textbox', { name: 'Search in the terminal' }).fill('healthz?2');
  await page.getByText('No match').waitFor({ state: 'detached' });
  await page.keyboard.press('Escape');
  const opened = context.waitForEvent('page');
  const row = page.locator('.xterm-rows > div', { hasText: 'healthz?2 ok' }).last();
  const box = (await row.boundingBox())!;
  await page.mouse.move(box.x + 60, box.y + 8);
  await page.mouse.move(box.x + 90, box.y + 8);
  await page.mouse.click(box.x + 90, box.y + 8);
  await (await opened).waitForURL(/\/healthz\?2$/);
});

test('reconnects after a lost connection', needsBrowser, async (t) => {
  const { page } = await open(t, '/@admin/dev/terminal');
  await shows(page);
  await typed(page, 'echo before-$((1+1))');
  await shows(page, 'before-2');
  // closes the agent's connection, and with it every terminal's
  const { sql, events } = server.services;
  const [cut] = await sql<
    { n: number }[]
  >`SELECT connection_number AS n FROM workspace_agents WHERE id = ${dev.agentId}`;
  await events.publish(sql, 'agent_connected', { agent_id: dev.agentId, number: cut!.n + 1 });
  await page.locator('[role=status] [data-kind]').waitFor();
  await noticeGone(page);
  await typed(page, 'echo after-$((1+1))');
  await shows(page, 'after-2');
  assert.equal(await occurrences(page, 'before-2'), 1, 'nothing is doubled');
});

test('waits for a server that is away for a moment', needsBrowser, async (t) => {
  const sockets = new Set<Socket>();
  const { port } = new URL(server.url);
  // a relay between browser and server, so that the server can be unreachable at its address
  const relay = createServer((near) => {
    const far = connect(Number(port), '127.0.0.1');
    for (const [socket, other] of [[near, far] as const, [far, near] as const]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => other.destroy());
      socket.pipe(other);
    }
  }).listen(0, '127.0.0.1');
  await once(relay, 'listening');
  const address = relay.address() as AddressInfo;
  const away = () => {
    relay.close();
    for (const socket of sockets) socket.destroy();
  };
  t.after(away);
  const { page } = await open(t, '/@admin/dev/terminal', { url: `http://127.0.0.1:${address.port}` });
  await shows(page);
  await typed(page, 'echo here-$((1+1))');
  await shows(page, 'here-2');
  away();
  await page.getByText('The server does not answer. Trying again…').waitFor();
  relay.listen(address.port, '127.0.0.1');
  await noticeGone(page);
  await typed(page, 'echo again-$((1+1))');
  await shows(page, 'again-2');
  assert.equal(await occurrences(page, 'here-2'), 1, 'nothing is doubled');
});

test('opens command apps, and runs the command of a link only with consent', needsBrowser, async (t) => {
  const app = await open(t, '/@admin/dev/terminal?app=answer');
  await shows(app.page, 'the-42');
  await app.page.getByRole('tab', { name: 'answer' }).waitFor();

  const { page } = await open(t, '/@admin/dev/terminal?command=echo%20ran-%24((3%2B4))%3B%20read%20x');
  await page.getByText('This link runs a command in your workspace.').waitFor();
  assert.equal(await page.locator('[role=status] code').innerText(), 'echo ran-$((3+4)); read x');
  assert.doesNotMatch(await screenText(page), /ran-7/);
  await page.getByRole('button', { name: 'Run it' }).click();
  await shows(page, 'ran-7');

  const missing = await open(t, '/@admin/dev/terminal?app=nothing');
  await missing.page.getByText('has no app nothing that runs a command').waitFor();
});

test('says what it waits for, and what does not exist', needsBrowser, async (t) => {
  const agent = await open(t, '/@admin/dev.other/terminal');
  await agent.page.getByText('The workspace has no agent other.').waitFor();
  const workspace = await open(t, '/@admin/nothing/terminal');
  await workspace.page.locator('[data-kind=error]').waitFor();
});
