import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { startBrowser } from './browser.ts';
import {
  buildEnds,
  CHECKOUT,
  createWorkspace,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
  PERSON,
  type ServerProcess,
  startCoderServer,
  type Workspace,
} from './harness.ts';
import { localExample } from './local.ts';

let server: ServerProcess;
before(async () => {
  await ensureExecutable();
  server = await startCoderServer();
  await firstUser(server);
  const workspace = await createWorkspace(server, await makeTemplate(server, 'local', localExample()), 'dev');
  assert.equal((await buildEnds(server, workspace.latest_build.id)).status, 'running');
  await eventually('the agent is ready', async () => {
    const { body } = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
    return body.latest_build.resources.some(({ agents }) => agents?.[0]?.lifecycle_state === 'ready');
  });
});
after(() => server.stop());

const text = `(document.querySelector('.xterm-rows')?.innerText ?? '').replaceAll('\\u00a0', ' ')`;

test('a terminal in the browser and a forwarded port continue after the server is killed and restarted', async (t) => {
  const browser = await startBrowser();
  t.after(() => browser.close());
  const page = await browser.page();
  await page.goto(`${server.url}/login?redirect=${encodeURIComponent(`/@${PERSON.username}/dev/terminal`)}`);
  await page.evaluate(`document.querySelector('[name=email]').value = ${JSON.stringify(PERSON.email)}`);
  await page.evaluate(`document.querySelector('[name=password]').value = ${JSON.stringify(PERSON.password)}`);
  await page.evaluate(`document.querySelector('button').click()`);
  await page.until('a prompt', `${text}.trim() !== ''`);
  const remote = await freePort();
  // an echo server in the workspace, and a variable that only this shell has
  const echo = `require("net").createServer((s) => s.pipe(s)).listen(${remote}, "127.0.0.1", () => console.log("up-" + 6 * 7))`;
  await page.type(`X=kept; '${process.execPath}' -e '${echo}' &\r`);
  await page.until('the echo listens', `${text}.includes('up-42')`);
  const [file, ...args] = CHECKOUT;
  const forward = spawn(file!, [...args, 'port-forward', 'dev', '--tcp', `127.0.0.1:0:${remote}`], {
    env: { ...server.env, CODER_URL: server.url, CODER_SESSION_TOKEN: server.token },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.after(() => forward.kill('SIGKILL'));
  let said = '';
  forward.stderr.on('data', (data: Buffer) => {
    said += data;
  });
  await eventually('the port is forwarded', async () => said.includes('Ready!'));
  const socket = connect(Number(/127\.0\.0\.1:(\d+) ->/.exec(said)![1]), '127.0.0.1');
  let back = '';
  socket.on('data', (data: Buffer) => {
    back += data;
  });
  socket.write('before,');
  await eventually('it is echoed', async () => back === 'before,');

  await server.kill();
  socket.write('meanwhile,');
  await page.until('the page reports the loss', `/trying again/.test(document.querySelector('#notice').textContent)`);
  await server.restart();
  await page.until('the terminal is back', `document.querySelector('#notice').hidden`, 30_000);
  await page.type('echo still-$X\r');
  await page.until('the same shell', `${text}.includes('still-kept')`);
  assert.equal(await page.evaluate(`${text}.split('up-42').length`), 2, 'nothing is lost or repeated');
  await eventually('the connection continued', async () => back === 'before,meanwhile,');
  socket.end('after');
  await once(socket, 'close');
  assert.equal(back, 'before,meanwhile,after');
  const ended = once(forward, 'exit');
  forward.kill('SIGINT');
  assert.deepEqual(await ended, [0, null], said);
});
