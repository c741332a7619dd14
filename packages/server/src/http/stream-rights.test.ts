import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { after, before, test } from 'node:test';
import {
  type RouteDef,
  type RouteKey,
  routes,
  type Template,
  type UpdateWorkspaceProxyResponse,
  type WorkspaceBuild,
} from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  insertPerson,
  limitedToken,
  pendingVersion,
  startTestServer,
  type TestServer,
} from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { linkSession } from '@ropewalk/wire/link-session';
import { acceptWebSocket, dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import { systemContext } from '../app/context/context.ts';
import { issueToken } from '../app/context/session.ts';
import { authorize } from '../authz/authorize.ts';
import { tokenScope } from '../authz/scope.ts';

/** Every open answer of a person ends soon after the permission for it. */
const MAX_MS = 20_000;

/** The routes whose answer stays open, by contract or with `follow`. */
const everyStream = (Object.entries(routes) as [RouteKey, RouteDef][]).flatMap(([key, def]) => {
  if (def.auth !== 'session') return [];
  if (def.stream === 'websocket' || def.stream === 'sse') return [{ key, kind: def.stream, query: '' }];
  return def.query && 'follow' in def.query.properties
    ? [{ key, kind: 'websocket' as const, query: 'follow=true' }]
    : [];
});
/** Those for people with a role of the deployment. Members may open all others. */
const OF_DEPLOYMENT: readonly string[] = ['GET /api/experimental/watch-all-workspacebuilds'];
const streams = everyStream.filter(({ key }) => !OF_DEPLOYMENT.includes(key));
const ofDeployment = everyStream.filter(({ key }) => OF_DEPLOYMENT.includes(key));

let server: TestServer;
let dev: TestWorkspace;
let member: { id: string; token: string };
let things: Record<string, string>;
/** The id of the workspace whose build is pending. */
let waiting: string;
/** What agents connect to as a workspace proxy. */
let proxy: Server;
let proxyId: string;

before(async () => {
  server = await startTestServer();
  member = await insertPerson(server, 'member');
  dev = await startTestWorkspace(server, 'dev', { token: member.token });
  // pending jobs, whose logs stay open
  const template = await createTestTemplate(server, 'pending');
  const made = await server.api<{ id: string; latest_build: WorkspaceBuild }>('POST', '/users/me/workspaces', {
    token: member.token,
    body: { name: 'waiting', template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const dryRun = await server.api<{ id: string }>('POST', `/templateversions/${template.active_version_id}/dry-run`, {
    token: member.token,
    body: {},
  });
  assert.equal(dryRun.status, 201, JSON.stringify(dryRun.body));
  proxyId = await startProxy();
  const version = await pendingVersion(server, { template_id: template.id } satisfies Partial<Record<string, unknown>>);
  waiting = made.body.id;
  things = {
    workspace: dev.workspace.id,
    workspaceagent: dev.agentId,
    agent: 'main',
    user: 'member',
    workspacename: 'dev',
    workspacebuild: made.body.latest_build.id,
    templateversion: version.id,
    jobID: dryRun.body.id,
    importedVersion: (template as Template).active_version_id,
  };
});
after(async () => {
  proxy.closeAllConnections();
  proxy.close();
  await dev.stop();
  await server.stop();
});

/** Starts a listener to which agents can connect, and registers it. Returns the id of the proxy. */
async function startProxy(): Promise<string> {
  proxy = createServer().on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    linkSession(acceptWebSocket(request, socket, head), { role: 'server' });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const made = await server.api<UpdateWorkspaceProxyResponse>('POST', '/workspaceproxies', { body: { name: 'eu' } });
  const registered = await server.api('POST', '/workspaceproxies/me/register', {
    token: null,
    headers: { 'Coder-External-Proxy-Token': made.body.proxy_token },
    body: {
      access_url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
      wildcard_hostname: '',
      derp_enabled: false,
      derp_only: false,
      replica_id: crypto.randomUUID(),
      hostname: 'eu',
      version: '0.0.0',
    },
  });
  assert.equal(registered.status, 201, JSON.stringify(registered.body));
  return made.body.proxy.id;
}

interface OpenStream {
  key: RouteKey;
  /** Resolves when the server has ended it. */
  ended: Promise<unknown>;
  close(): void;
}

async function open({ key, kind, query }: (typeof streams)[number], token: string): Promise<OpenStream> {
  const path = key.slice(4).replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const wanted = name === 'templateversion' && /dry-run|dynamic-parameters/.test(key) ? 'importedVersion' : name;
    const value = things[wanted];
    assert.ok(value, `no thing for {${name}} of ${key}: add one`);
    return value;
  });
  const more = key.endsWith('/pty')
    ? `reconnect=${crypto.randomUUID()}`
    : key.endsWith('/coordinate')
      ? 'version=2.0'
      : key.endsWith('/proxy-path')
        ? `proxy=${proxyId}&path=${crypto.randomUUID()}`
        : '';
  const url = `${server.url}${path.startsWith('/api/') ? '' : '/api/v2'}${path}?${[query, more].filter(Boolean).join('&')}`;
  const headers = { 'Coder-Session-Token': token };
  if (kind === 'sse') {
    return new Promise((resolve, reject) => {
      const request = get(url, { headers }, (answer) => {
        const { statusCode: status } = answer;
        if (status !== 200) {
          answer.resume();
          reject(new WebSocketDialError(`${key}: ${status}`, { status: status! }));
          return;
        }
        const ended = new Promise((done) => answer.once('close', done).once('end', done));
        answer.resume();
        resolve({ key, ended, close: () => request.destroy() });
      }).once('error', reject);
    });
  }
  const { connection } = await dialWebSocket(url, { headers });
  for (const event of ['text', 'binary'] as const) connection.on(event, () => {});
  return { key, ended: connection.closed, close: () => connection.close() };
}

async function endsSoon(
  opened: readonly OpenStream[],
  takeAway: () => Promise<unknown>,
  within = MAX_MS,
): Promise<void> {
  await takeAway();
  const left = new Set(opened.map(({ key }) => key));
  const ends = Promise.all(opened.map(({ key, ended }) => ended.then(() => left.delete(key))));
  const late = new Promise((resolve) => setTimeout(resolve, within).unref());
  await Promise.race([ends, late]);
  for (const { close } of opened) close();
  assert.deepEqual([...left], []);
}

const openAll = (token: string, which = streams) => Promise.all(which.map((stream) => open(stream, token)));
/** What shows what its reader may read, however little, or the reader's own: it ends only with the session. */
const OF_READER: readonly string[] = ['GET /derp-map', 'GET /events', 'GET /notifications/inbox/watch', 'GET /tailnet'];
const ofObjects = streams.filter(({ key }) => !OF_READER.includes(key));
const membership = (method: string) => server.api(method, '/organizations/default/members/member');

test('ends every stream of a person with the membership that allows it', async () => {
  assert.ok(streams.length >= 9, streams.map(({ key }) => key).join());
  const all = await openAll(member.token, ofObjects);
  await endsSoon(all, async () => assert.equal((await membership('DELETE')).status, 204));
  assert.equal((await membership('POST')).status, 200);
});

test('ends every stream of an administrator whose role is removed', async () => {
  const boss = await insertPerson(server, 'boss', ['owner'], { member: false });
  const all = await openAll(boss.token, [...ofObjects, ...ofDeployment]);
  await endsSoon(all, async () => {
    const { status } = await server.api('PUT', '/users/boss/roles', { body: { roles: [] } });
    assert.equal(status, 200);
  });
});

/** The streams about a workspace, its builds and its agents. */
const ofWorkspace = streams.filter(({ key }) => /\{workspace\w*\}/.test(key));
/** How soon the streams end after a workspace is taken back. */
const TAKEN_BACK_MS = 5_000;

async function share(acl: object): Promise<void> {
  for (const id of [dev.workspace.id, waiting]) {
    const { status } = await server.api('PATCH', `/workspaces/${id}/acl`, { token: member.token, body: acl });
    assert.equal(status, 204);
  }
}

/** The limits of a token for the streams about the workspaces here. */
const ofTheWorkspaces = () => [`workspace:${dev.workspace.id}`, `workspace:${waiting}`];

test('ends every stream of a limited token with the share that allows it', async () => {
  const guest = await insertPerson(server, 'limited-guest');
  await share({ user_roles: { [guest.id]: 'use' } });
  const token = await limitedToken(server, guest.id, tokenScope(['coder:all'], ofTheWorkspaces()));
  const all = await openAll(token, ofWorkspace);
  await endsSoon(all, () => share({ user_roles: { [guest.id]: '' } }), TAKEN_BACK_MS);
});

for (const [how, given, takeAway] of [
  [
    'person',
    (guest: string) => ({ user_roles: { [guest]: 'use' } }),
    (guest: string) => share({ user_roles: { [guest]: '' } }),
  ],
  [
    'organization’s setting',
    (_guest: string, organization: string) => ({ group_roles: { [organization]: 'use' } }),
    async () => {
      const setting = '/organizations/default/settings/workspace-sharing';
      assert.equal((await server.api('PATCH', setting, { body: { shareable_workspace_owners: 'none' } })).status, 200);
    },
  ],
] as const) {
  test(`ends every stream of a shared workspace that is taken back by the ${how}`, async () => {
    assert.ok(ofWorkspace.length >= 8, ofWorkspace.map(({ key }) => key).join());
    const guest = await insertPerson(server, `guest-of-${how.slice(0, 3)}`);
    await share(given(guest.id, dev.workspace.organization_id));
    const all = await openAll(guest.token, ofWorkspace);
    await endsSoon(all, () => takeAway(guest.id), TAKEN_BACK_MS);
  });
}

/** The status with which the server rejects a stream, or undefined. Closes a stream that it accepts. */
async function rejection(stream: (typeof streams)[number], token: string): Promise<number | undefined> {
  try {
    (await open(stream, token)).close();
    return undefined;
  } catch (err) {
    if (err instanceof WebSocketDialError) return err.status;
    throw err;
  }
}

test('opens no stream with a token whose limits do not include its object', async () => {
  for (const limits of [
    tokenScope(['coder:all'], [`workspace:${crypto.randomUUID()}`, `template:${crypto.randomUUID()}`]),
    tokenScope(['coder:application_connect']),
    tokenScope(['api_key:*', 'user:*', 'organization:*', 'file:*'], ofTheWorkspaces()),
  ]) {
    const token = await limitedToken(server, member.id, limits);
    for (const stream of [...ofObjects, ...ofDeployment]) {
      const status = await rejection(stream, token);
      assert.ok(status === 403 || status === 404, `${stream.key}: ${status}`);
    }
  }
  const reads = await limitedToken(server, member.id, tokenScope(['workspace:read']));
  const opened = [];
  for (const stream of ofWorkspace) if ((await rejection(stream, reads)) === undefined) opened.push(stream.key);
  assert.deepEqual(opened.sort(), [
    'GET /workspaceagents/{workspaceagent}/containers/watch',
    'GET /workspaceagents/{workspaceagent}/logs',
    'GET /workspaceagents/{workspaceagent}/watch-metadata',
    'GET /workspaceagents/{workspaceagent}/watch-metadata-ws',
    'GET /workspacebuilds/{workspacebuild}/logs',
    'GET /workspaces/{workspace}/watch',
    'GET /workspaces/{workspace}/watch-ws',
  ]);
});

test('shows the inbox only to a token whose limits include it', async () => {
  const inbox = streams.find(({ key }) => key === 'GET /notifications/inbox/watch')!;
  for (const [limits, status] of [
    [tokenScope(['coder:all']), undefined],
    [tokenScope(['coder:all'], ['inbox_notification:*']), undefined],
    [tokenScope(['coder:all'], ofTheWorkspaces()), 404],
    [tokenScope(['workspace:*', 'user:*']), 404],
  ] as const)
    assert.equal(await rejection(inbox, await limitedToken(server, member.id, limits)), status, JSON.stringify(limits));
});

test('ends every stream of a limited token that its person expires', async () => {
  const limits = tokenScope(['coder:all'], [...ofTheWorkspaces(), 'inbox_notification:*']);
  const token = await limitedToken(server, member.id, limits);
  const all = await openAll(
    token,
    streams.filter(({ key }) => ofWorkspace.some((each) => each.key === key) || OF_READER.includes(key)),
  );
  const path = `/users/me/keys/${token.split('-')[0]}/expire`;
  await endsSoon(all, async () => {
    assert.equal((await server.api('PUT', path, { token: member.token })).status, 204);
  });
});

test('ends every stream when its token expires', async () => {
  const ctx = systemContext(server.services, 'test');
  const { text: token } = await issueToken(ctx, authorize(ctx, 'create', { type: 'api_key', ownerId: member.id }), {
    loginType: 'token',
    lifetimeMs: 3_600_000,
  });
  const { sql, events } = server.services;
  const expires = async (interval: string) => {
    await sql`UPDATE api_keys SET expires_at = now() + ${interval}::interval WHERE id = ${token.split('-')[0]!}`;
    // the streams read when it expires
    await events.publish(sql, 'revoked', { user_ids: [member.id] });
  };
  const all = await openAll(token);
  await endsSoon(all, () => expires('1 second'));
});

test('extends the session that a stream uses', async () => {
  const ctx = systemContext(server.services, 'test');
  const { text: token } = await issueToken(ctx, authorize(ctx, 'create', { type: 'api_key', ownerId: member.id }), {
    loginType: 'password',
    lifetimeMs: 8_000,
  });
  const id = token.split('-')[0]!;
  const expiry = async () =>
    (await server.services.sql<{ expires_at: Date }[]>`SELECT expires_at FROM api_keys WHERE id = ${id}`)[0]!
      .expires_at;
  const stream = await open(streams.find(({ key }) => key.endsWith('/watch-ws'))!, token);
  const first = await expiry();
  let ended = false;
  void stream.ended.then(() => {
    ended = true;
  });
  await eventually('it expires later', async () => (await expiry()) > first);
  assert.equal(ended, false);
  stream.close();
});
