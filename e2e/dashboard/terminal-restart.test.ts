import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import {
  buildEnds,
  createWorkspace,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
  PERSON,
  PROGRAM,
  type ServerProcess,
  signedInEnv,
  startCoderServer,
  type Workspace,
} from '../harness.ts';
import { localExample } from '../local.ts';
import { needsBrowser, openAs } from './browser.ts';
import { screenText, shows, startTextBrowser, typed } from './terminal-screen.ts';

let server: ServerProcess;
before(async () => {
  if (needsBrowser.skip) return;
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
after(() => server?.stop());

test('continues a terminal and a forwarded port after the server is killed and restarted', needsBrowser, async (t) => {
  const browser = await startTextBrowser();
  t.after(() => browser.close());
  const { page } = await openAs(browser, server, server.token);
  await page.goto(`/@${PERSON.username}/dev/terminal`);
  await shows(page);
  const remote = await freePort();
  // an echo server in the workspace, and a variable that only this shell has
  const echo = `require("net").createServer((s) => s.pipe(s)).listen(${remote}, "127.0.0.1", () => console.log("up-" + 6 * 7))`;
  await typed(page, `X=kept; '${process.execPath}' -e '${echo}' &`);
  await shows(page, 'up-42');
  const [file, ...args] = PROGRAM;
  const forward = spawn(file!, [...args, 'port-forward', 'dev', '--tcp', `127.0.0.1:0:${remote}`], {
    env: signedInEnv(server),
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
  const notice = page.locator('[role=status] [data-kind]');
  await notice.getByText(/Trying again/).waitFor();
  await server.restart();
  await notice.waitFor({ state: 'detached', timeout: 30_000 });
  await typed(page, 'echo still-$X');
  await shows(page, 'still-kept');
  assert.equal((await screenText(page)).split('up-42').length, 2, 'nothing is lost or repeated');
  await eventually('the connection continued', async () => back === 'before,meanwhile,');
  socket.end('after');
  await once(socket, 'close');
  assert.equal(back, 'before,meanwhile,after');
  const ended = once(forward, 'exit');
  forward.kill('SIGINT');
  assert.deepEqual(await ended, [0, null], said);
});
