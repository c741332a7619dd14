import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { after, before, beforeEach, test } from 'node:test';
import type {
  AgentExternalAuthResponse,
  DeleteExternalAuthByIDResponse,
  ExternalAuth,
  ExternalAuthDevice,
  ListUserExternalAuthResponse,
  TemplateVersionExternalAuth,
  Workspace,
} from '@ropewalk/contract';
import {
  eventually,
  failTaken,
  importedVersion,
  insertPerson,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
  takeJob,
} from '@ropewalk/testkit';
import { Browser } from '@ropewalk/testkit/identity-provider';
import { type OAuthServer, startOAuthServer } from '@ropewalk/testkit/oauth-server';
import { Registry } from 'prom-client';
import { createProviderMetrics } from '../../metrics/provider-calls.ts';
import { parseMetrics, sampleOf } from '../../metrics/testing.ts';
import { systemContext } from '../context/context.ts';
import { rotateSecrets } from '../context/sealed-secrets.ts';
import { acquiredJobMessage } from '../job/message.ts';

const KEYS = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')] as const;

let forge: OAuthServer;
let server: TestServer;
let machine: TestWorkspace;
const REPOSITORY = () => `${forge.url}/acme/secret.git`;
before(async () => {
  forge = await startOAuthServer();
  server = await startTestServer({
    env: {
      CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: KEYS.join(),
      ...forge.env(0),
      ...forge.env(1, { ID: 'code', DEVICE_FLOW: 'true', REGEX: '' }),
      ...forge.env(2, {
        ID: 'lab',
        TYPE: 'gitlab',
        TOKEN_URL: `${forge.url}/login/oauth/access_token`,
        VALIDATE_URL: `${forge.url}/login/oauth/userinfo`,
      }),
    },
  });
  machine = await startTestWorkspace(server, 'machine');
});
after(async () => {
  await machine.stop();
  await server.stop();
  await forge.stop();
});
beforeEach(() => {
  forge.tokenSeconds = 0;
  forge.declines = false;
  forge.intercept = undefined;
});

function browserOf(token: string): Browser {
  const browser = new Browser();
  browser.cookies.set(new URL(server.url).host, new Map([['coder_session_token', token]]));
  return browser;
}

const CALLBACK = '/external-auth/git/callback';
const isBack = (url: string) => url.startsWith(server.url) && !url.includes('/callback');

/** Connects the account, and returns the address where the browser ends. */
async function connect(token: string, query = ''): Promise<{ url: string; browser: Browser; error: string }> {
  const browser = browserOf(token);
  const url = await browser.open(`${server.url}${CALLBACK}${query}`, isBack);
  return { url, browser, error: decodeURIComponent(browser.cookie(server.url, 'coder_external_auth_error') ?? '') };
}

const account = async (token: string, id = 'git') =>
  (await server.api<ExternalAuth>('GET', `/external-auth/${id}`, { token })).body;
const agentAsks = (query: string, token = machine.token) =>
  server.api<AgentExternalAuthResponse>('GET', `/workspaceagents/me/external-auth?${query}`, { token });
const disconnect = (token: string) =>
  server.api<DeleteExternalAuthByIDResponse>('DELETE', '/external-auth/git', { token });

test('connects, lists, checks and disconnects an account', async () => {
  const { token } = await insertPerson(server, 'pat');
  assert.deepEqual(
    [(await account(token)).authenticated, (await server.api('GET', '/external-auth/other', { token })).status],
    [false, 404],
  );
  const { url, error } = await connect(token);
  assert.equal(url, `${server.url}/external-auth/git`, error);
  const { authenticated, display_name, device } = await account(token);
  assert.deepEqual([authenticated, display_name, device], [true, 'Forge', false]);

  const { body } = await server.api<ListUserExternalAuthResponse>('GET', '/external-auth', { token });
  assert.deepEqual(
    body.providers.map(({ id, device: code }) => [id, code]),
    [
      ['git', false],
      ['code', true],
      ['lab', false],
    ],
  );
  assert.deepEqual(
    body.links.map((link) => [link.provider_id, link.authenticated, link.has_refresh_token, link.validate_error]),
    [['git', true, false, '']],
  );

  const [stored] = await server.services.sql`SELECT access_token FROM external_auth_links`;
  assert.match(stored!['access_token'], /^sealed:/);

  // the person ends the access at the provider
  const valid = new Set(forge.tokens);
  forge.tokens.clear();
  const gone = await account(token);
  assert.deepEqual([gone.authenticated, gone.validate_error], [false, 'Forge does not accept the token any more.']);
  forge.tokens = valid;

  const before = forge.tokens.size;
  assert.deepEqual((await disconnect(token)).body, { token_revoked: true });
  assert.equal(forge.tokens.size, before - 1);
  assert.equal((await disconnect(token)).status, 404);
});

test('completes a connection only in the session that started it, once, with its own state', async () => {
  const [pat, sam] = await Promise.all([insertPerson(server, 'p1'), insertPerson(server, 's1')]);
  const browser = browserOf(pat.token);
  const away = await browser.open(`${server.url}${CALLBACK}`, (url) => url.startsWith(forge.url));
  const back = await browser.open(away, (url) => url.startsWith(server.url));
  const open = async (with_: Browser, url: string) => {
    const { status } = await with_.step(url);
    return [status, decodeURIComponent(with_.cookie(server.url, 'coder_external_auth_error') ?? '')] as const;
  };
  // an attacker's address in another browser has no cookie of the flow
  assert.match((await open(browserOf(sam.token), back))[1], /another browser/);
  // and a stolen cookie belongs to another session
  const thief = browserOf(sam.token);
  const jar = thief.cookies.get(new URL(server.url).host)!;
  for (const [name, value] of browser.cookies.get(new URL(server.url).host)!) {
    if (name.startsWith('coder_sign_in_')) jar.set(name, value);
  }
  const forged = new URL(back);
  forged.searchParams.set('state', `${forged.searchParams.get('state')!.slice(0, -1)}x`);
  assert.match((await open(thief, forged.href))[1], /state does not match/);
  assert.match((await open(thief, back))[1], /in another session/);
  assert.equal((await account(sam.token)).authenticated, false);
  // the flow is over now, for its own session too
  assert.match((await open(browser, back))[1], /completed before/);
  assert.equal((await account(pat.token)).authenticated, false);
});

test('goes on only to paths of this server, and signs people in first', async () => {
  const { token } = await insertPerson(server, 'paths');
  for (const [wanted, reached] of [
    ['/templates/go?x=1', '/templates/go?x=1'],
    ['https://evil.test/', '/'],
    ['//evil.test/', '/'],
  ] as const) {
    const { url } = await connect(token, `?${new URLSearchParams({ redirect: wanted })}`);
    assert.equal(url, server.url + reached);
  }
  const stranger = await new Browser().step(`${server.url}${CALLBACK}`);
  assert.equal(stranger.headers.get('location'), '/login?redirect=%2Fexternal-auth%2Fgit');
  assert.equal((await fetch(`${server.url}${CALLBACK}`)).status, 401);
});

test('says why an account was not connected', async () => {
  const { token } = await insertPerson(server, 'unlucky');
  forge.declines = true;
  assert.match((await connect(token)).error, /access_denied/);
  forge.declines = false;
  const cases: [(response: ServerResponse) => void, RegExp][] = [
    [(response) => response.writeHead(500).end('{"error":"oops"}'), /did not answer as expected/],
    [(response) => response.writeHead(200).end('not JSON'), /It gave no token/],
    [(response) => response.writeHead(200).end(JSON.stringify({ access_token: 'x'.repeat(20_000) })), /too long/],
    [(response) => response.writeHead(200).end('x'.repeat(10 * 1024 * 1024)), /too large/],
    [(response) => response.writeHead(302, { location: `${forge.url}/elsewhere` }).end(), /status 302/],
  ];
  for (const [answer, message] of cases) {
    forge.intercept = (request, response) => {
      if (!request.url!.startsWith('/login/oauth/access_token')) return false;
      answer(response);
      return true;
    };
    const { error, url } = await connect(token);
    assert.match(error, message);
    assert.equal(url, `${server.url}/external-auth/git`);
  }
  assert.equal((await account(token)).authenticated, false);
  assert.equal(forge.requests.get('/elsewhere'), undefined);
});

test('refreshes an expired token once, however many ask, and ends the link when the provider rejects it', async () => {
  const { token, id } = await insertPerson(server, 'fresh');
  forge.tokenSeconds = 5; // counts as expired immediately
  await connect(token);
  forge.tokenSeconds = 3_600;
  const asked = () => forge.requests.get('/login/oauth/access_token')!;
  const before = asked();
  const answers = await Promise.all(Array.from({ length: 8 }, () => account(token)));
  assert.deepEqual(
    answers.map(({ authenticated }) => authenticated),
    answers.map(() => true),
  );
  assert.equal(asked() - before, 1, 'one refresh');

  // a provider that is away ends nothing
  const { sql } = server.services;
  const expire = () => sql`UPDATE external_auth_links SET expires_at = now() WHERE user_id = ${id}`;
  await expire();
  forge.intercept = (_request, response) => {
    response.writeHead(503).end();
    return true;
  };
  assert.match((await account(token)).validate_error!, /did not answer as expected/);
  forge.intercept = undefined;
  assert.equal((await account(token)).authenticated, true);

  await sql`UPDATE external_auth_links SET expires_at = now(), refresh_token = 'stolen' WHERE user_id = ${id}`;
  assert.match((await account(token)).validate_error!, /could not be refreshed: invalid_grant/);
  const after = asked();
  assert.equal((await account(token)).authenticated, false);
  assert.equal(asked(), after, 'a rejected token is not tried again');
});

test('keeps what a refresh brings while all secrets are encrypted with another key', async () => {
  const { token } = await insertPerson(server, 'rotating');
  forge.tokenSeconds = 5;
  await connect(token);
  forge.tokenSeconds = 3_600;
  const ctx = systemContext(server.services, 'test');
  forge.intercept = (request, response) => {
    forge.intercept = undefined;
    assert.match(request.url!, /access_token/);
    const rotated = rotateSecrets(ctx, KEYS[1], [KEYS[0]]);
    const end = response.end.bind(response) as (text: string) => ServerResponse;
    response.end = ((text: string) => void rotated.then(() => end(text))) as never;
    return false;
  };
  const asked = () => forge.requests.get('/login/oauth/access_token')!;
  const before = asked();
  assert.equal((await account(token)).authenticated, true);
  assert.equal(asked() - before, 1, 'the refresh token works once');
});

test('connects with a code on another device', async () => {
  const { token } = await insertPerson(server, 'device');
  const started = await server.api<ExternalAuthDevice>('GET', '/external-auth/code/device', { token });
  assert.equal(started.body.user_code, 'ABCD-1234');
  const finish = () =>
    server.api<{ detail: string }>('POST', '/external-auth/code/device', {
      token,
      body: { device_code: started.body.device_code },
    });
  const pending = await finish();
  assert.deepEqual([pending.status, pending.body.detail], [400, 'authorization_pending']);
  forge.devices.set(started.body.device_code, true);
  assert.equal((await finish()).status, 204);
  assert.equal((await account(token, 'code')).authenticated, true);
  assert.equal((await server.api('GET', '/external-auth/git/device', { token })).status, 400);
});

test("gives an agent the owner's token for a repository, and waits for it", async () => {
  const match = `match=${encodeURIComponent(REPOSITORY())}`;
  const missing = await agentAsks(match);
  assert.deepEqual(
    [missing.body.url, missing.body.access_token, missing.body.type],
    [`${server.accessUrl}/external-auth/git`, '', 'gitea'],
  );
  assert.equal((await agentAsks('match=https%3A%2F%2Fother.test%2Fx')).status, 404);
  assert.equal((await agentAsks('id=none')).status, 404);
  assert.equal((await agentAsks('')).status, 400);

  const waiting = agentAsks(`${match}&listen=true`);
  const old = server.api<AgentExternalAuthResponse>('GET', `/workspaceagents/me/gitauth?${match}&listen=true`, {
    token: machine.token,
  });
  await connect(server.adminToken);
  const { body } = await waiting;
  assert.ok(forge.tokens.has(body.access_token));
  const never = '0001-01-01T00:00:00Z';
  assert.deepEqual([missing.body.expires_at, body.expires_at], [never, never]);
  assert.deepEqual([body.username, body.password, body.url], [body.access_token, '', '']);
  assert.deepEqual(body.token_extra, { scope: 'read write' });
  const [stored] = await server.services.sql`SELECT extra FROM external_auth_links WHERE provider_id = 'git'`;
  assert.match(stored!['extra'], /^sealed:/);
  assert.equal((await old).body.access_token, body.access_token);

  // a program that is left of a stopped workspace gets no token
  await disconnect(server.adminToken);
  const left = agentAsks(`${match}&listen=true`);
  // a later request was answered, so this one waits
  assert.equal((await agentAsks(match)).body.access_token, '');
  const { sql } = server.services;
  await sql`UPDATE workspaces SET deleted = true WHERE id = ${machine.workspace.id}`;
  await connect(server.adminToken);
  assert.equal((await left).status, 401);
  await sql`UPDATE workspaces SET deleted = false WHERE id = ${machine.workspace.id}`;

  const lab = browserOf(server.adminToken);
  forge.tokenSeconds = 3_600;
  await lab.open(`${server.url}/external-auth/lab/callback`, isBack);
  const gitlab = await agentAsks('id=lab');
  forge.tokenSeconds = 0;
  assert.deepEqual([gitlab.body.username, gitlab.body.password], ['oauth2', gitlab.body.access_token]);
  const validMs = Date.parse(gitlab.body.expires_at) - Date.now();
  assert.ok(validMs > 3_000_000 && validMs <= 3_600_000, gitlab.body.expires_at);
  await disconnect(server.adminToken);
});

test('passes the token to the builds of a template that uses the provider, and names what is missing', async () => {
  const { token } = await insertPerson(server, 'builder');
  const version = await importedVersion(
    server,
    {},
    {
      externalAuthProviders: [
        { id: 'git', optional: false },
        { id: 'code', optional: true },
        { id: 'unknown', optional: true },
      ],
    },
  );
  const logs = await server.api<unknown[]>('GET', `/templateversions/${version.id}/logs`);
  assert.deepEqual(logs.body, [], 'no warning about a configured provider');
  const template = await server.api<{ id: string }>('POST', '/organizations/default/templates', {
    body: { name: 'connected', template_version_id: version.id },
  });
  const accounts = () =>
    server.api<TemplateVersionExternalAuth[]>('GET', `/templateversions/${version.id}/external-auth`, { token });
  const create = (name: string) =>
    server.api<Workspace & { message: string; detail: string }>('POST', '/users/me/workspaces', {
      token,
      body: { name, template_id: template.body.id },
    });
  assert.deepEqual(
    (await accounts()).body.map(({ id, optional, authenticated, authenticate_url }) => [
      id,
      optional,
      authenticated,
      authenticate_url,
    ]),
    [
      ['code', true, false, `${server.accessUrl}/external-auth/code`],
      ['git', false, false, `${server.accessUrl}/external-auth/git`],
    ],
  );
  const refused = await create('early');
  assert.equal(refused.status, 400);
  assert.match(refused.body.message, /^Your Forge account has to be connected before/);
  assert.equal(refused.body.detail, `Connect it here: ${server.accessUrl}/external-auth/git`);

  await connect(token);
  assert.deepEqual(
    (await accounts()).body.map(({ authenticated }) => authenticated),
    [false, true],
  );
  const made = await create('built');
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const own = await takeJob(server);
  const message = await acquiredJobMessage(server.services, own.job);
  assert.equal(message.type.case, 'workspaceBuild');
  const given = message.type.value!;
  assert.ok('externalAuthProviders' in given);
  assert.deepEqual(
    given.externalAuthProviders.map(({ id, accessToken }) => [id, forge.tokens.has(accessToken)]),
    [['git', true]],
  );
  await failTaken(server, own, 'over');
});

test('an agent without access to data of the owner gets no token', async () => {
  const { sql } = server.services;
  await sql`UPDATE workspace_agents SET api_key_scope = 'no_user_data' WHERE id = ${machine.agentId}`;
  assert.equal((await agentAsks('id=git')).status, 403);
  await sql`UPDATE workspace_agents SET api_key_scope = 'all' WHERE id = ${machine.agentId}`;
  await eventually('the agent may ask again', async () => (await agentAsks('id=git')).status === 200);
});

test('announces a connected account to the pages of its owner', async () => {
  const { token, id } = await insertPerson(server, 'live');
  const announced: string[] = [];
  const off = server.services.events.on('object_changed', ({ kind, id: changed }) =>
    announced.push(`${kind} ${changed}`),
  );
  await connect(token);
  await eventually('the change is announced', async () => announced.includes(`user ${id}`));
  off();
});

test('metrics count the requests to providers, and show their limits', async (t) => {
  const registry = new Registry();
  t.after(createProviderMetrics(registry));
  const { token } = await insertPerson(server, 'counted');
  const reset = Math.floor(Date.now() / 1_000) + 3_600;
  forge.intercept = (request, response) => {
    if (!request.url!.startsWith('/login/oauth/userinfo')) return false;
    const limits = { resource: 'core', limit: 5_000, remaining: 4_990, used: 10, reset };
    for (const [name, value] of Object.entries(limits)) response.setHeader(`x-ratelimit-${name}`, value);
    return false;
  };
  await connect(token);
  await account(token);
  await disconnect(token);
  forge.intercept = (request) => request.url === '/login/oauth/access_token' && !!request.socket.destroy();
  await connect(token);
  const families = parseMetrics(await registry.metrics());
  const name = 'coderd_oauth2_external_requests';
  const calls = (source: string, status_code: string) =>
    sampleOf(families, `${name}_total`, { name: 'git', source, status_code });
  assert.equal(calls('Exchange', '200'), 1);
  assert.ok(calls('ValidateToken', '200')! >= 1);
  assert.equal(calls('Exchange', '0'), 1);
  assert.equal(calls('RevokeToken', '200'), 1);
  const limit = (suffix: string) =>
    sampleOf(families, `${name}_rate_limit${suffix}`, { name: 'git', resource: 'core' });
  assert.deepEqual(['', '_remaining', '_used', '_next_reset_unix'].map(limit), [5_000, 4_990, 10, reset]);
  assert.ok(limit('_reset_in_seconds')! > 3_500);
});
