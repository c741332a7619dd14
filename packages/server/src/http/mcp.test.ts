import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { OAuthClientInformationFull, OAuthTokens } from '@modelcontextprotocol/sdk/shared/auth.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { createLogger } from '@ropewalk/kit';
import {
  createTestTemplate,
  eventually,
  insertPerson,
  limitedToken,
  startTestServer,
  type TestServer,
} from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { tokenScope } from '../authz/scope.ts';

const PATH = '/api/experimental/mcp/http';

let server: TestServer;
let dev: TestWorkspace;
let ann: { id: string; token: string };
let bob: { id: string; token: string };
let lines = '';
before(async () => {
  const write = (line: string) => {
    lines += line;
  };
  server = await startTestServer({ log: createLogger({ level: 'debug', sinks: [{ format: 'json', write }] }) });
  [ann, bob] = [await insertPerson(server, 'ann'), await insertPerson(server, 'bob')];
  dev = await startTestWorkspace(server, 'dev', { token: ann.token });
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const addressOf = (query = '') => new URL(`${server.url}${PATH}${query}`);

async function connect(token: string, query = ''): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(addressOf(query), { requestInit }) as never);
  return client;
}

async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const result = (await client.callTool({ name, arguments: args })) as CallToolResult;
  const { text } = result.content[0] as { text: string };
  return { text, isError: result.isError === true };
}

/** Sends a message like a client that knows only HTTP. */
async function post(body: unknown, headers: Record<string, string> = {}, token: string | null = ann.token) {
  const response = await fetch(addressOf(), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: text.startsWith('{') ? JSON.parse(text) : text,
  };
}

test('offers the standard tools, or the two of ChatGPT', async () => {
  const client = await connect(ann.token);
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  assert.equal(names.length, 30, names.join());
  assert.ok(!names.includes('coder_report_task') && !names.includes('search'));
  assert.match((await call(client, 'coder_get_authenticated_user')).text, /"username":"ann"/);
  await client.close();
  const two = await connect(ann.token, '?toolset=chatgpt');
  assert.deepEqual(
    (await two.listTools()).tools.map(({ name }) => name),
    ['search', 'fetch'],
  );
  assert.match((await call(two, 'search', { query: 'workspaces' })).text, /"title":"dev"/);
  await two.close();
  await assert.rejects(connect(ann.token, '?toolset=none'), /Invalid toolset/);
});

test('runs commands and writes files in a workspace, for people who may connect to it', async () => {
  const client = await connect(ann.token);
  const bash = (by: Client, command: string) => call(by, 'coder_workspace_bash', { workspace: 'ann/dev', command });
  assert.deepEqual(JSON.parse((await bash(client, 'echo hello; exit 2')).text), { output: 'hello', exit_code: 2 });
  const path = `${dev.home}/x.txt`;
  const content = Buffer.from('text').toString('base64');
  await call(client, 'coder_workspace_write_file', { workspace: 'dev', path, content });
  assert.match((await call(client, 'coder_workspace_read_file', { workspace: 'dev', path })).text, new RegExp(content));
  // an owner may see the workspace, and a fellow may not
  const other = await connect(bob.token);
  const denied = await bash(other, 'id');
  assert.ok(denied.isError, denied.text);
  assert.match(denied.text, /not found|access/i);
  const reader = await limitedToken(server, ann.id, tokenScope(['coder:workspaces.operate'], ['*:*']));
  const limited = await connect(reader);
  assert.match((await call(limited, 'coder_get_workspace', { workspace_id: 'dev' })).text, /"name":"dev"/);
  const forbidden = await bash(limited, 'id');
  assert.ok(forbidden.isError, forbidden.text);
  const log = await server.api<{ connection_logs: { type: string; user: { username: string } }[] }>(
    'GET',
    '/connectionlog?q=type:ssh',
  );
  assert.ok(JSON.stringify(log.body).includes('ann'), 'the connection log has the session');
  await Promise.all([client, other, limited].map((one) => one.close()));
});

test('the scopes and the allow list of a token hold for each tool, and the audit log has its writes', async () => {
  const template = await createTestTemplate(server, 'audited');
  const client = await connect(await limitedToken(server, ann.id, tokenScope(['coder:workspaces.access'], ['*:*'])));
  const args = { user: 'me', name: 'one', rich_parameters: {}, template_id: template.id };
  const denied = await call(client, 'coder_create_workspace', args);
  assert.ok(denied.isError, denied.text);
  await client.close();
  const full = await connect(ann.token);
  const made = await call(full, 'coder_create_workspace', args);
  assert.ok(!made.isError, made.text);
  await full.close();
  const audit = await server.api<{ audit_logs: { ip: string; user_agent: string; user: { username: string } }[] }>(
    'GET',
    '/audit?q=resource_type:workspace action:create&limit=5',
  );
  const entry = audit.body.audit_logs.find(({ user }) => user.username === 'ann');
  assert.equal(entry?.ip, '127.0.0.1');
});

test('a canceled or revoked call ends its command', async () => {
  const begin = async (client: Client, mark: string, signal?: AbortSignal) => {
    const command = `echo $$ > ${mark}; exec sleep 300`;
    const running = client.callTool(
      { name: 'coder_workspace_bash', arguments: { workspace: 'dev', command, timeout_ms: 100_000 } },
      undefined,
      { timeout: 100_000, ...(signal ? { signal } : {}) },
    );
    running.catch(() => {});
    const pid = await eventually('the command runs', async () => {
      const { text } = await call(main, 'coder_workspace_bash', { workspace: 'dev', command: `cat ${mark}` });
      return /(\d+)/.exec((JSON.parse(text) as { output: string }).output)?.[1];
    });
    return { running, isGone: () => eventually('it is gone', () => isGone(Number(pid))) };
  };
  const main = await connect(ann.token);
  const abort = new AbortController();
  const canceled = await begin(main, 'canceled', abort.signal);
  // another client's call with any id stays
  const token = await limitedToken(server, ann.id, tokenScope(['coder:all'], ['*:*']));
  const second = await connect(token);
  const revoked = await begin(second, 'revoked');
  abort.abort();
  await assert.rejects(canceled.running);
  await canceled.isGone();
  const deleted = await server.api('DELETE', `/users/${ann.id}/keys/${token.split('-')[0]}`);
  assert.equal(deleted.status, 204);
  await revoked.isGone();
  await second.close();
  await main.close();
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

test('a long call answers with events', async () => {
  const params = { name: 'coder_workspace_bash', arguments: { workspace: 'dev', command: 'sleep 11; echo late' } };
  const { headers, text } = await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  assert.match(headers.get('content-type') ?? '', /event-stream/, text);
  assert.match(text, /^: waiting\n\nevent: message\ndata: .*late.*\n\n$/);
});

test('answers without a token, or with a wrong one, name the metadata of this endpoint', async () => {
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  for (const token of [null, 'wrong']) {
    const { status, headers } = await post(ping, {}, token);
    assert.equal(status, 401);
    assert.match(headers.get('www-authenticate') ?? '', new RegExp(`oauth-protected-resource${PATH}"`));
  }
  for (const method of ['GET', 'DELETE']) {
    const { status, headers } = await fetch(addressOf(), { method, headers: { 'coder-session-token': ann.token } });
    assert.deepEqual([status, headers.get('allow')], [405, 'POST']);
  }
  const page = await fetch(`${server.url}/.well-known/oauth-protected-resource${PATH}`);
  const metadata = (await page.json()) as { resource: string; scopes_supported: string[] };
  assert.equal(metadata.resource, `${server.services.accessUrl}${PATH}`);
  assert.ok(!metadata.scopes_supported.includes('coder:all'));
});

/** An app as the SDK expects it, with a person who lets it in. */
class App implements OAuthClientProvider {
  redirectUrl = 'http://127.0.0.1:1/callback';
  code = '';
  #client: OAuthClientInformationFull | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';
  get clientMetadata() {
    return { client_name: 'SDK', redirect_uris: [this.redirectUrl], token_endpoint_auth_method: 'none' };
  }
  clientInformation = () => this.#client;
  saveClientInformation = (client: unknown) => {
    this.#client = client as OAuthClientInformationFull;
  };
  tokens = () => this.#tokens;
  saveTokens = (tokens: OAuthTokens) => {
    this.#tokens = tokens;
  };
  codeVerifier = () => this.#verifier;
  saveCodeVerifier = (verifier: string) => {
    this.#verifier = verifier;
  };
  async redirectToAuthorization(url: URL) {
    assert.equal(url.searchParams.get('resource'), `${server.services.accessUrl}${PATH}`);
    const answer = await fetch(`${server.url}${url.pathname}${url.search}`, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'Coder-Session-Token': ann.token },
    });
    const location = answer.headers.get('location');
    assert.ok(location, `${answer.status} ${await answer.text()}`);
    this.code = new URL(location).searchParams.get('code') ?? assert.fail(location);
  }
}

test('the SDK signs in with OAuth 2, and its token works here only', async () => {
  await server.api('PUT', '/oauth2-provider/settings', { body: { dynamic_client_registration_enabled: true } });
  const app = new App();
  const first = new StreamableHTTPClientTransport(addressOf(), { authProvider: app });
  await assert.rejects(new Client({ name: 'sdk', version: '1' }).connect(first as never), UnauthorizedError);
  await first.finishAuth(app.code);
  const client = new Client({ name: 'sdk', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(addressOf(), { authProvider: app }) as never);
  assert.match((await call(client, 'coder_list_workspaces')).text, /"name":"dev"/);
  const { text, isError } = await call(client, 'coder_workspace_bash', { workspace: 'dev', command: 'echo by app' });
  assert.ok(!isError && text.includes('by app'), text);
  assert.ok(!(await call(client, 'coder_list_templates')).isError);
  await client.close();
  const access = app.tokens()!.access_token;
  const elsewhere = await fetch(`${server.url}/api/v2/users/me`, { headers: { authorization: `Bearer ${access}` } });
  assert.equal(elsewhere.status, 401);
  assert.ok(!lines.includes(access), 'no log contains the token');
});

test('requests from outside cannot name a person', async () => {
  const headers = { 'platform-inside-request': crypto.randomUUID() };
  assert.equal((await fetch(`${server.url}/api/v2/users/me`, { headers })).status, 401);
  assert.equal((await post({ jsonrpc: '2.0', id: 1, method: 'ping' }, headers, null)).status, 401);
});

test('rejects versions and messages that it does not know, and says what is wrong', async () => {
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  assert.equal((await post(ping, { 'mcp-protocol-version': '1999-01-01' })).status, 400);
  assert.equal((await post(ping, { 'mcp-protocol-version': '2025-06-18' })).status, 200);
  assert.equal((await post({ jsonrpc: '2.0', method: 'notifications/initialized' })).status, 202);
  assert.equal((await post('{')).status, 400);
  assert.equal((await post({ ...ping, method: 'resources/list' })).body.error.code, -32601);
  assert.equal((await post({ ...ping, id: {} })).body.error.code, -32600);
  const unknown = { ...ping, method: 'tools/call', params: { name: 'none' } };
  assert.equal((await post(unknown)).body.error.code, -32602);
  assert.equal(
    (await post([ping, { ...ping, id: 2 }])).text,
    '[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]',
  );
  assert.equal((await post({ ...ping, padding: 'x'.repeat(17 * 1024 * 1024) })).status, 413);
});
