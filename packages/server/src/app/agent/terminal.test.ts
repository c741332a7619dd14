import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { after, before, test } from 'node:test';
import {
  createPerson,
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { byteStream, dialWebSocket, type WebSocketDialError } from '@ropewalk/wire/websocket';
import type { AgentReach } from '../../cluster/agents.ts';
import { PTY, terminalHandlers } from '../../http/routes/terminal.ts';
import { systemContext } from '../context/context.ts';

let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev', { env: { PS1: '$ ' } });
});
after(async () => {
  await dev.stop();
  await server.stop();
});

async function terminal(query: Record<string, string>, token = server.adminToken, headers = {}) {
  const path = `/api/v2/workspaceagents/${dev.agentId}/pty?${new URLSearchParams(query)}`;
  const { connection } = await dialWebSocket(server.url + path, {
    headers: { 'Coder-Session-Token': token, ...headers },
  });
  const stream = byteStream(connection);
  const view = {
    text: '',
    stream,
    close: connection.closed,
    type: (input: object) => stream.write(JSON.stringify(input)),
  };
  stream.on('data', (chunk: Buffer) => {
    view.text += chunk;
  });
  return view;
}
const refusal = (query: Record<string, string>, token?: string, headers = {}) =>
  terminal(query, token, headers).then(
    () => assert.fail('it was let in'),
    (err: WebSocketDialError) => ({
      status: err.status,
      message: (JSON.parse(err.body) as { message: string }).message,
    }),
  );

test('opens a terminal over upstream’s protocol, and finds it again as it was', async () => {
  const reconnect = crypto.randomUUID();
  const first = await terminal({ reconnect, width: '91', height: '31' });
  first.type({ data: 'stty size; pwd; X=kept\r' });
  await eventually('the shell answers', async () => first.text.includes('31 91') && first.text.includes(dev.home));
  first.stream.destroy();
  const second = await terminal({ reconnect, width: '91', height: '31' });
  await eventually('the past', async () => second.text.includes('31 91'));
  second.type({ data: 'echo still-$X; exit\r' });
  await eventually('the same shell', async () => second.text.includes('still-kept'));
  assert.equal((await second.close).code, 1000);
  const command = await terminal({ reconnect: crypto.randomUUID(), command: 'echo $((40+2))-done' });
  await eventually('the command', async () => command.text.includes('42-done'));
  assert.equal((await command.close).code, 1000);
});

test('rejects requests before the upgrade', async () => {
  const reconnect = crypto.randomUUID();
  const fellow = await createPerson(server, 'fellow');
  assert.deepEqual(await refusal({}), { status: 400, message: 'Query param "reconnect" must be a valid UUID.' });
  assert.equal((await refusal({ reconnect, container: '--help' })).status, 400);
  assert.equal((await refusal({ reconnect }, fellow.token)).status, 404);
  assert.equal((await refusal({ reconnect }, 'no-token')).status, 401);
  // another site in the browser
  assert.equal((await refusal({ reconnect }, undefined, { Origin: 'https://evil.example' })).status, 403);
});

test('accepts a pass in the address for this terminal only', async () => {
  const url = `${server.url}/api/v2/workspaceagents/${dev.agentId}/pty`;
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { body: { token_name: 'passing' } });
  const pass = await server.api<{ signed_token: string }>('POST', '/applications/reconnecting-pty-signed-token', {
    body: { agentID: dev.agentId, url },
    token: made.body.key,
  });
  const signed = { coder_signed_app_token_23db1dde: pass.body.signed_token };
  const view = await terminal({ reconnect: crypto.randomUUID(), command: 'echo $((40+2))', ...signed }, '');
  await eventually('the command', async () => view.text.includes('42'));
  const elsewhere = await server.api('GET', `/workspaceagents/${dev.agentId}?${new URLSearchParams(signed)}`, {
    token: null,
  });
  assert.equal(elsewhere.status, 401);
  const broken = { coder_signed_app_token_23db1dde: `${pass.body.signed_token.slice(0, -3)}AAA` };
  assert.equal((await refusal({ reconnect: crypto.randomUUID(), ...broken }, '')).status, 401);
  assert.equal((await server.api('DELETE', `/users/me/keys/${made.body.key.split('-')[0]}`)).status, 204);
  assert.equal((await refusal({ reconnect: crypto.randomUUID(), ...signed }, '')).status, 401);
});

test('ends an open terminal when its token is revoked', async () => {
  const made = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { body: { token_name: 'short' } });
  const view = await terminal({ reconnect: crypto.randomUUID() }, made.body.key);
  const closed = new Promise((resolve) => view.stream.once('close', resolve));
  const [id] = made.body.key.split('-');
  assert.equal((await server.api('DELETE', `/users/me/keys/${id}`)).status, 204);
  await closed;
});

test('leaves nothing open for a caller who left before the terminal was ready', async () => {
  const inside = new PassThrough();
  const { [PTY]: handler } = terminalHandlers({
    offers: () => false,
    open: async () => inside,
  } as unknown as AgentReach);
  const ctx = systemContext(server.services, 'test');
  const gone = () => {
    throw new Error('gone');
  };
  const input = {
    params: { workspaceagent: dev.agentId },
    query: { reconnect: crypto.randomUUID() },
    http: { isUpgrade: true, upgrade: gone },
  };
  await assert.rejects(async () => handler(ctx, input as never), /gone/);
  assert.ok(inside.destroyed);
});

test('lists listening ports', async (t) => {
  const code = "require('net').createServer().listen(0, '127.0.0.1', function () { console.log(this.address().port) })";
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const { body } = await server.api<{ ports: { port: number; network: string }[] }>(
    'GET',
    `/workspaceagents/${dev.agentId}/listening-ports`,
  );
  assert.equal(body.ports.find(({ port }) => port === Number(line))?.network, 'tcp');
});
