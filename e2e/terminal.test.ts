import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { ADMIN, startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@platform/testkit';
import { type Browser, type Page, startBrowser } from './browser.ts';

let server: TestServer;
let dev: TestWorkspace;
let browser: Browser;
before(async () => {
  [server, browser] = await Promise.all([startTestServer(), startBrowser()]);
  const apps = [{ slug: 'answer', command: 'echo the-$((40+2)); read x' }];
  dev = await startTestWorkspace(server, 'dev', { agent: { apps }, env: { PS1: '$ ' } });
});
after(async () => {
  await browser.close();
  await dev.stop();
  await server.stop();
});

const text = `document.querySelector('.xterm-rows').innerText.replaceAll('\\u00a0', ' ')`;
const shows = (page: Page, wanted: string) =>
  page.until(`the terminal shows ${wanted}`, `${text}.includes(${JSON.stringify(wanted)})`);

async function signIn(path: string, base: string): Promise<Page> {
  const page = await browser.page();
  await page.goto(`${base}/login?redirect=${encodeURIComponent(path)}`);
  await page.evaluate(`document.querySelector('[name=email]').value = ${JSON.stringify(ADMIN.email)}`);
  await page.evaluate(`document.querySelector('[name=password]').value = ${JSON.stringify(ADMIN.password)}`);
  await page.evaluate(`document.querySelector('button').click()`);
  return page;
}

async function signedIn(path: string, base = server.url): Promise<Page> {
  const page = await signIn(path, base);
  await page.until('the page after signing in', `location.pathname === ${JSON.stringify(path.replace(/\?.*/, ''))}`);
  return page;
}

test('a shell in the browser works after a sign-in and after a reload of the page', async () => {
  const stranger = await browser.page();
  await stranger.goto(`${server.url}/@admin/dev.main/terminal`);
  await stranger.until(
    'the page links to the sign-in',
    `document.querySelector('#notice a')?.textContent === 'Sign in'`,
  );
  await stranger.close();

  const page = await signedIn('/@admin/dev.main/terminal');
  await page.until('a prompt', `${text}.trim() !== '' && document.title === 'dev.main – Terminal'`);
  assert.equal(await page.evaluate('document.cookie'), '', 'scripts cannot read the session');
  await page.type('X=kept; echo on-$((40+2))\r');
  await shows(page, 'on-42');
  await page.call('Page.reload');
  await shows(page, 'on-42');
  await page.type('echo still-$X\r');
  await shows(page, 'still-kept');
  assert.equal(await page.evaluate(`${text}.split('on-42').length`), 2, 'nothing is doubled');
  await page.type('exit\r');
  await page.until(
    'the page reports the end',
    `/has ended. Press Enter/.test(document.querySelector('#notice').textContent)`,
  );
  await page.type('\r');
  await page.until('a new shell', `document.querySelector('#notice').hidden`);
  assert.deepEqual(
    page.console.filter((line) => line.includes('Content Security Policy')),
    [],
  );
  await page.close();
});

test('a sign-in redirects only to pages of this server', async () => {
  for (const path of ['//evil.example/', '/\\evil.example', 'https://evil.example/', 'javascript:alert(1)']) {
    const page = await signIn(path, server.url);
    await page.until('the front page', `location.href === ${JSON.stringify(`${server.url}/`)}`);
    await page.close();
  }
});

test('shows a session token for coder login', async () => {
  const page = await browser.page();
  await page.goto(`${server.url}/cli-auth`);
  await page.evaluate(`document.querySelector('#make').click()`);
  await page.until('the sign-in page', `location.pathname === '/login' && document.readyState === 'complete'`);
  await page.close();

  const again = await signedIn('/cli-auth');
  const token = `document.querySelector('#token')?.textContent`;
  await again.until('the page', `document.readyState === 'complete' && ${token} === ''`);
  await again.evaluate(`document.querySelector('#make').click()`);
  await again.until('a token', `${token} !== ''`);
  const me = await server.api<{ email: string }>('GET', '/users/me', { token: await again.evaluate<string>(token) });
  assert.equal(me.body.email, ADMIN.email);
  await again.close();
});

test('the terminal reconnects after a lost connection', async () => {
  const page = await signedIn('/@admin/dev/terminal');
  await page.until('a prompt', `${text}.trim() !== ''`);
  await page.type('echo before-$((1+1))\r');
  await shows(page, 'before-2');
  // closes the agent's connection, and with it every terminal's
  const [cut] = await server.services.sql<
    { n: number }[]
  >`SELECT connection_number AS n FROM workspace_agents WHERE id = ${dev.agentId}`;
  await server.services.events.publish(server.services.sql, 'agent_connected', {
    agent_id: dev.agentId,
    number: cut!.n + 1,
  });
  await page.until('the page reports the loss', `!document.querySelector('#notice').hidden`);
  await page.until('it is back', `document.querySelector('#notice').hidden`);
  await page.type('echo after-$((1+1))\r');
  await shows(page, 'after-2');
  assert.equal(await page.evaluate(`${text}.split('before-2').length`), 2, 'nothing is doubled');
  await page.close();
});

test('the terminal waits for a server that is away for a moment', async (t) => {
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
  const page = await signedIn('/@admin/dev/terminal', `http://127.0.0.1:${address.port}`);
  await page.until('a prompt', `${text}.trim() !== ''`);
  await page.type('echo here-$((1+1))\r');
  await shows(page, 'here-2');
  away();
  await page.until(
    'the page reports it',
    `/does not answer; trying again/.test(document.querySelector('#notice').textContent)`,
  );
  relay.listen(address.port, '127.0.0.1');
  await page.until('it is back', `document.querySelector('#notice').hidden`);
  await page.type('echo again-$((1+1))\r');
  await shows(page, 'again-2');
  assert.equal(await page.evaluate(`${text}.split('here-2').length`), 2, 'nothing is doubled');
  await page.close();
});

test('a command app opens in the terminal, and a command in a link needs a confirmation', async () => {
  const app = await signedIn('/@admin/dev/terminal?app=answer');
  await shows(app, 'the-42');
  await app.close();
  const link = await signedIn('/@admin/dev/terminal?command=echo%20ran-%24((3%2B4))%3B%20read%20x');
  await link.until('the question', `document.querySelector('#notice button')?.textContent === 'Run it'`);
  assert.match(await link.evaluate<string>(`document.querySelector('#notice').innerText`), /echo ran-\$\(\(3\+4\)\)/);
  assert.doesNotMatch(await link.evaluate<string>(text), /ran-7/);
  await link.evaluate(`document.querySelector('#notice button').click()`);
  await shows(link, 'ran-7');
  await link.close();
});
