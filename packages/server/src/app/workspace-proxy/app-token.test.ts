import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { CryptoKeysResponse, Response, UpdateWorkspaceProxyResponse } from '@ropewalk/contract';
import {
  ADMIN,
  eventually,
  insertPerson,
  limitedToken,
  logIn,
  startTestServer,
  type TestServer,
} from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { tokenScope } from '../../authz/scope.ts';
import { ask } from '../../http/apps/testing/ask.ts';
import type { ProxyGrant } from './grant-token.ts';
import { createProxyKeys } from './keys.ts';

/** What visitors may use through a proxy, and what the holder of a stolen proxy token may do with it. */
let server: TestServer;
let workspace: TestWorkspace;
let proxy: UpdateWorkspaceProxyResponse;
let fellow: { id: string; token: string };

const URL_OF = { one: 'https://eu.example.com', two: 'https://us.example.com' };
const WILDCARD = { one: '*.eu.example.com', two: '*.us.example.com' };

async function startProxy(name: 'one' | 'two'): Promise<UpdateWorkspaceProxyResponse> {
  const made = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name } });
  const { status } = await asProxy('POST', '/register', registration(name), made.body.proxy_token);
  assert.equal(status, 201);
  return made.body;
}

const registration = (name: 'one' | 'two', more: object = {}) => ({
  access_url: URL_OF[name],
  wildcard_hostname: WILDCARD[name],
  derp_enabled: true,
  derp_only: false,
  replica_id: crypto.randomUUID(),
  ...more,
});

function asProxy<T = Response & { signed_token_str: string }>(
  method: string,
  path: string,
  body?: object,
  token = proxy.proxy_token,
) {
  const headers = { 'Coder-External-Proxy-Token': token, 'Coder-Workspace-Proxy-Real-IP': '192.0.2.7' };
  return server.api<T>(method, `/workspaceproxies/me${path}`, { token: null, headers, ...(body ? { body } : {}) });
}

before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.test' } });
  proxy = await startProxy('one');
  fellow = await insertPerson(server, 'fellow');
  const url = 'http://localhost:8080/base?x=1';
  const apps = [
    { slug: 'web', url, subdomain: true },
    { slug: 'open', url, subdomain: true, sharingLevel: 2 },
    { slug: 'ours', url, subdomain: true, sharingLevel: 1 },
  ];
  workspace = await startTestWorkspace(server, 'dev', { agent: { apps: apps as never } });
});
after(async () => {
  await workspace.stop();
  await server.stop();
});

const APP = { username_or_id: 'admin', workspace_name_or_id: 'dev', agent_name_or_id: 'main', app_slug_or_port: 'web' };
const subdomain = (app: string, more: object = {}) => ({
  app_request: { access_method: 'subdomain', base_path: '/', app_prefix: '', ...APP, app_slug_or_port: app, ...more },
  path_app_base_url: URL_OF.one,
  app_hostname: WILDCARD.one,
  app_path: '/',
  app_query: '',
});
const pathApp = (app: string, more: object = {}) => ({
  ...subdomain(app),
  app_request: {
    access_method: 'path',
    base_path: `/@admin/dev.main/apps/${app}/`,
    ...APP,
    app_slug_or_port: app,
    ...more,
  },
});
const terminal = (agentId = workspace.agentId) => ({
  ...subdomain('web'),
  app_request: {
    access_method: 'terminal',
    base_path: `/api/v2/workspaceagents/${agentId}/pty`,
    agent_name_or_id: agentId,
  },
});
const issue = (input: object, session = '') =>
  asProxy('POST', '/issue-signed-app-token', { ...input, session_token: session });
const session = () => logIn(server, ADMIN.email, ADMIN.password);

interface Claims {
  aud: string;
  iat: number;
  exp: number;
  grant: Omit<ProxyGrant, 'issued' | 'expires'>;
}

/** Verifies a token as a proxy does, with the public keys of the server. Undefined if no key does. */
async function read(token: string, text = token): Promise<Claims | undefined> {
  const { body } = await asProxy<CryptoKeysResponse>('GET', '/crypto-keys?feature=workspace_apps_token');
  const [head, payload, signature] = text.split('.') as [string, string, string];
  const { alg, kid } = JSON.parse(Buffer.from(head, 'base64url').toString()) as { alg: string; kid: string };
  assert.equal(alg, 'EdDSA');
  const key = body.crypto_keys.find(({ sequence }) => String(sequence) === kid);
  if (!key) return undefined;
  const x = Buffer.from(key.secret, 'hex').toString('base64url');
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  const isSigned = verify(null, Buffer.from(`${head}.${payload}`), publicKey, Buffer.from(signature, 'base64url'));
  return isSigned ? (JSON.parse(Buffer.from(payload, 'base64url').toString()) as Claims) : undefined;
}

test('signs tokens for apps that the visitor may use, for this proxy and for a minute', async () => {
  const mine = await session();
  const answer = await issue(subdomain('web'), mine);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  const claims = (await read(answer.body.signed_token_str))!;
  assert.equal(claims.aud, proxy.proxy.id);
  const now = Date.now() / 1_000;
  assert.ok(claims.iat <= now && claims.exp > now && claims.exp - claims.iat <= 61, JSON.stringify(claims));
  const { grant } = claims;
  assert.deepEqual(
    [grant.kind, grant.base, grant.agent, grant.port, grant.path, grant.query, grant.workspace],
    [
      'subdomain',
      'web--main--dev--admin.eu.example.com',
      workspace.agentId,
      8080,
      '/base',
      '?x=1',
      workspace.workspace.id,
    ],
  );
  assert.ok(!JSON.stringify(claims).includes(mine.split('-')[1]!), 'not the secret of the session');
  const byPath = (await read((await issue(pathApp('web'), mine)).body.signed_token_str))!;
  assert.deepEqual([byPath.grant.kind, byPath.grant.base], ['path', '/@admin/dev.main/apps/web']);
  const port = (await read((await issue(subdomain('3000'), mine)).body.signed_token_str))!;
  assert.deepEqual([port.grant.port, port.grant.path], [3000, '']);
  const shell = (await read((await issue(terminal(), mine)).body.signed_token_str))!;
  assert.deepEqual([shell.grant.kind, shell.grant.agent, shell.grant.port], ['terminal', workspace.agentId, 0]);
  // changed by one bit
  const text = answer.body.signed_token_str.split('.');
  text[1] = Buffer.from(Buffer.from(text[1]!, 'base64url').toString().replace('"web--', '"wEb--')).toString(
    'base64url',
  );
  assert.equal(await read('', text.join('.')), undefined);
});

test('decides by the rules of the server’s own apps', async () => {
  const mine = await session();
  const statuses = async (input: object, ...sessions: string[]) =>
    Promise.all(sessions.map(async (one) => (await issue(input, one)).status));
  const { token: theirs } = fellow;
  assert.deepEqual(await statuses(subdomain('web'), mine, theirs, ''), [201, 404, 401]);
  assert.deepEqual(await statuses(subdomain('ours'), mine, theirs, ''), [201, 201, 401]);
  assert.deepEqual(await statuses(subdomain('open'), mine, theirs, '', 'nonsense'), [201, 201, 201, 201]);
  assert.deepEqual(await statuses(subdomain('3000'), mine, theirs, ''), [201, 404, 401]);
  // path apps of one host share an origin, so they are for their owner only
  assert.deepEqual(await statuses(pathApp('open'), mine, theirs, ''), [201, 404, 401]);
  assert.deepEqual(await statuses(terminal(), mine, theirs, ''), [201, 404, 401]);
  assert.deepEqual(await statuses(subdomain('absent'), mine, theirs, ''), [404, 404, 401]);
  assert.deepEqual(await statuses(terminal(crypto.randomUUID()), mine), [404]);
  const apps = await limitedToken(server, workspace.workspace.owner_id, tokenScope(['coder:application_connect']));
  assert.deepEqual(await statuses(subdomain('web'), apps), [201]);
  assert.deepEqual(await statuses(terminal(), apps), [404]);
  await server.api('POST', '/users/logout', { token: mine });
  await eventually('the ended session has no grants', async () => (await issue(subdomain('web'), mine)).status === 401);
});

test('rejects apps that this proxy does not serve, and addresses that belong to another app', async () => {
  const mine = await session();
  for (const input of [
    { ...subdomain('web'), app_hostname: '*.apps.test' },
    { ...subdomain('web'), app_hostname: WILDCARD.two },
    { ...subdomain('web'), path_app_base_url: server.accessUrl },
    subdomain('web', { app_prefix: 'x---' }),
    subdomain('web', { username_or_id: 'me' }),
    subdomain('web', { workspace_name_or_id: 'dev/apps/web' }),
    subdomain('web', { app_slug_or_port: '' }),
    pathApp('web', { base_path: '/@fellow/dev.main/apps/web/' }),
    pathApp('web', { base_path: '/@admin/dev.main/apps/open' }),
    pathApp('web', { base_path: '/' }),
    { ...terminal(), app_request: { ...terminal().app_request, base_path: '/' } },
    { ...terminal(), app_request: { ...terminal().app_request, username_or_id: 'admin' } },
    { ...subdomain('web'), app_request: { access_method: 'shell', base_path: '/' } },
  ]) {
    const { status, body } = await issue(input, mine);
    assert.equal(status, 400, `${JSON.stringify(input)}: ${JSON.stringify(body)}`);
  }
  const unregistered = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', {
    body: { name: 'new' },
  });
  const path = '/issue-signed-app-token';
  const input = { ...subdomain('web'), session_token: mine };
  assert.equal((await asProxy('POST', path, input, unregistered.body.proxy_token)).status, 409);
  const relay = registration('two', { derp_only: true });
  assert.equal((await asProxy('POST', '/register', relay, unregistered.body.proxy_token)).status, 201);
  assert.equal((await asProxy('POST', path, input, unregistered.body.proxy_token)).status, 409);
  await server.api('DELETE', '/workspaceproxies/new');
});

test('a stolen proxy token signs nothing, opens nothing of the server, and reads no secret', async () => {
  const mine = await session();
  const token = (await issue(subdomain('web'), mine)).body.signed_token_str;
  // the server itself does not accept the token of a proxy's visitor
  for (const [host, path] of [
    ['web--main--dev--admin.apps.test', '/'],
    [new URL(server.url).host, '/@admin/dev.main/apps/web/'],
  ] as const) {
    const answer = await ask(server.url, { host, path, headers: { Cookie: `coder_signed_app_token=${token}` } });
    assert.equal(answer.status, 401, answer.body);
  }
  const asSession = await server.api('GET', '/users/me', { token });
  assert.equal(asSession.status, 401);
  const pty = `/workspaceagents/${workspace.agentId}/pty?reconnect=${crypto.randomUUID()}`;
  assert.equal(
    (await server.api('GET', `${pty}&coder_signed_app_token_23db1dde=${token}`, { token: null })).status,
    401,
  );
  // keys verify and do not sign: another installation's key with the same number is another key
  const { body } = await asProxy<CryptoKeysResponse>('GET', '/crypto-keys?feature=workspace_apps_token');
  const claims = (await read(token))!;
  const guess = createProxyKeys(body.crypto_keys[0]!.secret);
  const forged = guess.sign(
    proxy.proxy.id,
    { ...claims.grant, issued: Date.now(), expires: Date.now() + 60_000 },
    new Date(),
  );
  assert.equal(await read(forged), undefined);
  assert.deepEqual(
    (await asProxy<CryptoKeysResponse>('GET', '/crypto-keys?feature=workspace_apps_api_key')).body.crypto_keys,
    [],
  );
  for (const feature of ['', 'oidc_convert', 'tailnet_resume', 'nats_ca', 'constructor']) {
    assert.equal((await asProxy('GET', `/crypto-keys?feature=${feature}`)).status, 400, feature);
  }
  const stored = await server.services.sql<{ value: string }[]>`SELECT value FROM site_config WHERE key LIKE '%_key'`;
  assert.ok(stored.length >= 3);
  for (const { value } of stored) assert.ok(!JSON.stringify(body).includes(value));
  // the token of one proxy is not that of another
  const two = await startProxy('two');
  const other = await asProxy(
    'POST',
    '/issue-signed-app-token',
    { ...subdomain('web'), app_hostname: WILDCARD.two, path_app_base_url: URL_OF.two, session_token: mine },
    two.proxy_token,
  );
  assert.equal((await read(other.body.signed_token_str))!.aud, two.proxy.id);
});

test('changes keys every week, and keeps the last one for an hour', () => {
  const keys = createProxyKeys('secret');
  const week = 7 * 86_400_000;
  const sequences = (ms: number) => keys.publicKeys(new Date(ms)).map(({ sequence }) => sequence);
  assert.deepEqual(sequences(10 * week + 1_000), [9, 10, 11]);
  assert.deepEqual(sequences(10 * week + 3_600_001), [10, 11]);
  assert.equal(new Set(keys.publicKeys(new Date(10 * week)).map(({ secret }) => secret)).size, 3);
  const [, current] = keys.publicKeys(new Date(10 * week));
  assert.equal(Date.parse(current!.starts_at), 10 * week);
  assert.equal(Date.parse(current!.deletes_at), 11 * week + 3_600_000);
});

test('records the use of apps in the same place as that of apps at the server', async () => {
  const { sql } = server.services;
  await sql`DELETE FROM workspace_app_usage`;
  await sql`UPDATE workspaces SET last_used_at = now() - interval '1 hour'`;
  const now = Date.now();
  const report = (more: object = {}) => ({
    user_id: workspace.workspace.owner_id,
    workspace_id: workspace.workspace.id,
    agent_id: workspace.agentId,
    access_method: 'subdomain',
    slug_or_port: 'web',
    session_id: crypto.randomUUID(),
    session_started_at: new Date(now - 60_000).toISOString(),
    session_ended_at: new Date(now).toISOString(),
    requests: 3,
    ...more,
  });
  const send = (...stats: object[]) => asProxy('POST', '/app-stats', { stats });
  const used = async () =>
    (await sql<{ slug: string }[]>`SELECT slug FROM workspace_app_usage ORDER BY slug`).map(({ slug }) => slug);
  // what cannot be true: an app that the agent does not have, and an agent that is not the workspace's
  const ignored = await send(
    report({ slug_or_port: 'absent' }),
    report({ agent_id: crypto.randomUUID() }),
    report({ workspace_id: crypto.randomUUID() }),
    report({ session_ended_at: new Date(now - 3_600_000).toISOString() }),
  );
  assert.equal(ignored.status, 204, JSON.stringify(ignored.body));
  assert.deepEqual(await used(), []);
  const [row] = await sql<
    { idle: boolean }[]
  >`SELECT last_used_at < now() - interval '30 minutes' AS idle FROM workspaces`;
  assert.equal(row!.idle, true);
  assert.equal((await send(report(), report({ slug_or_port: 'OURS' }), report({ slug_or_port: '3000' }))).status, 204);
  assert.deepEqual(await used(), ['ours', 'web']);
  const [after] = await sql<
    { fresh: boolean }[]
  >`SELECT last_used_at > now() - interval '1 minute' AS fresh FROM workspaces`;
  assert.equal(after!.fresh, true);
  assert.equal((await send({ ...report(), agent_id: 'x' })).status, 400);
  assert.equal((await send(...Array.from({ length: 1_025 }, () => report()))).status, 400);
  assert.equal((await send()).status, 204);
});

test('the connection log has the visitor’s address', async () => {
  await issue(subdomain('ours'), fellow.token);
  await eventually('it is there', async () => {
    const rows = await server.services.sql`SELECT ip FROM connection_logs
      WHERE user_id = ${fellow.id} AND slug_or_port = 'ours'`;
    return rows.some(({ ip }) => String(ip).startsWith('192.0.2.7'));
  });
});
