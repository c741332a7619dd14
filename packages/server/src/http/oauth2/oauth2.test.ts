import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { OAuth2ProviderApp, OAuth2ProviderAppSecret } from '@ropewalk/contract';
import { createLogger, systemClock } from '@ropewalk/kit';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import * as openid from 'openid-client';
import { purgeOAuth2 } from '../../background/purge.ts';
import { CALLBACK, pkce, protocolOf, type TestApp } from './testing/flow.ts';

let server: TestServer;
let ann: { id: string; token: string };
let app: TestApp;
let lines = '';
/** Added to the time. */
let ahead = 0;
const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;
before(async () => {
  const write = (line: string) => {
    lines += line;
  };
  const log = createLogger({ level: 'debug', sinks: [{ format: 'json', write }] });
  const clock = { ...systemClock, now: () => new Date(systemClock.now().getTime() + ahead) };
  server = await startTestServer({ log, clock, env: { CODER_DEFAULT_OAUTH_REFRESH_LIFETIME: '480h' } });
  ann = await insertPerson(server, 'ann');
  app = await oauth.createApp();
});
after(() => server.stop());

const oauth = new Proxy({} as ReturnType<typeof protocolOf>, {
  get: (_target, name) =>
    Reflect.get(
      protocolOf(server, () => ann.token),
      name,
    ),
});
/** Runs with a clock that is ahead by this time. */
async function later<T>(ms: number, run: () => Promise<T>): Promise<T> {
  ahead = ms;
  try {
    return await run();
  } finally {
    ahead = 0;
  }
}
const errorOf = ({ status, body }: { status: number; body: { error: string } }) => [status, body.error];

test('RFC 6749: exchanges a code for tokens of the person and refreshes them', async () => {
  const answer = await oauth.authorize(app);
  assert.equal(answer.status, 302);
  assert.equal(answer.back.get('state'), 'st&te');
  assert.equal(answer.back.get('fixed'), '1', 'the query of the registered address stays');
  assert.equal(answer.back.get('iss'), server.services.accessUrl, 'RFC 9207');
  const made = await oauth.exchange(app, answer.back.get('code')!);
  assert.equal(made.status, 200);
  assert.equal(made.headers.get('cache-control'), 'no-store');
  assert.equal(made.headers.get('pragma'), 'no-cache');
  const { access_token: access, refresh_token: refresh, expiry, ...rest } = made.body;
  assert.deepEqual(rest, { token_type: 'Bearer', expires_in: rest.expires_in, scope: 'coder:all' });
  assert.ok(rest.expires_in > 86_000 && rest.expires_in <= 86_400, rest.expires_in);
  assert.ok(Math.abs(Date.parse(expiry) - Date.now() - 86_400_000) < 60_000);
  const me = await server.api<{ username: string }>('GET', '/users/me', { token: access });
  assert.equal(me.body.username, 'ann');
  const next = await oauth.refresh(app, refresh);
  assert.equal(next.status, 200);
  assert.notEqual(next.body.refresh_token, refresh);
  assert.deepEqual([await oauth.use(access), await oauth.use(next.body.access_token)], [401, 200]);
  for (const secret of [access, refresh, app.secret!, answer.back.get('code')!, next.body.refresh_token]) {
    assert.ok(!lines.includes(secret), 'no log contains a secret');
    assert.ok(!lines.includes(secret.split(/[_-]/).at(-1)!), 'no log contains a part of a secret');
  }
});

test('RFC 6749: authenticates apps by body and by header, and rejects all else', async () => {
  const basic = (id: string, secret: string) => ({
    authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
  });
  const grant = async () => ({
    grant_type: 'authorization_code',
    code: await oauth.code(app),
    redirect_uri: app.redirectUri,
  });
  assert.equal((await oauth.token(await grant(), basic(app.id, app.secret!))).status, 200);
  const encoded = encodeURIComponent(app.id).replaceAll('-', '%2D');
  assert.equal((await oauth.token(await grant(), basic(encoded, app.secret!))).status, 200, 'form-encoded');
  const other = await oauth.createApp();
  const form = await grant();
  const wrong = 'coder_0123456789_0123456789012345678901234567890123456789';
  const rejected: [Record<string, string | undefined>, Record<string, string>, number, string][] = [
    [form, {}, 400, 'invalid_request'],
    [{ ...form, client_id: app.id }, {}, 401, 'invalid_client'],
    [{ ...form, client_id: app.id, client_secret: 'x' }, {}, 401, 'invalid_client'],
    [{ ...form, client_id: app.id, client_secret: wrong }, {}, 401, 'invalid_client'],
    [{ ...form, client_id: app.id, client_secret: other.secret }, {}, 401, 'invalid_client'],
    [{ ...form, client_id: crypto.randomUUID(), client_secret: app.secret }, {}, 401, 'invalid_client'],
    [{ ...form, client_id: 'x', client_secret: app.secret }, {}, 401, 'invalid_client'],
    [form, basic(app.id, wrong), 401, 'invalid_client'],
    [form, basic(app.id, ''), 401, 'invalid_client'],
    [{ ...form, client_secret: app.secret }, basic(app.id, app.secret!), 400, 'invalid_request'],
    [{ ...form, client_id: other.id }, basic(app.id, app.secret!), 400, 'invalid_request'],
  ];
  for (const [body, headers, status, error] of rejected) {
    const answer = await oauth.token(body, headers);
    assert.deepEqual(errorOf(answer), [status, error], JSON.stringify(body));
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    if (status === 401) assert.equal(answer.headers.get('www-authenticate'), 'Basic realm="coder"');
  }
  assert.equal((await oauth.exchange(app, form.code)).status, 200, 'the code is still good');
});

test('RFC 6749: names each error of the token endpoint', async () => {
  const credentials = oauth.credentials(app);
  const { refresh_token: refresh } = await oauth.signIn(app);
  const other = await oauth.createApp();
  const cases: [Record<string, string | undefined>, string][] = [
    [{ ...credentials }, 'invalid_request'],
    [{ ...credentials, grant_type: 'password', username: 'ann', password: 'x' }, 'unsupported_grant_type'],
    [{ ...credentials, grant_type: 'client_credentials' }, 'unsupported_grant_type'],
    [{ ...credentials, grant_type: 'authorization_code' }, 'invalid_request'],
    [{ ...credentials, grant_type: 'authorization_code', code: 'x' }, 'invalid_grant'],
    [{ ...credentials, grant_type: 'refresh_token' }, 'invalid_request'],
    [{ ...credentials, grant_type: 'refresh_token', refresh_token: 'x' }, 'invalid_grant'],
    [{ ...oauth.credentials(other), grant_type: 'refresh_token', refresh_token: refresh }, 'invalid_grant'],
    [{ ...credentials, grant_type: 'refresh_token', refresh_token: `${refresh.slice(0, -1)}_` }, 'invalid_grant'],
    [{ ...credentials, grant_type: 'refresh_token', refresh_token: refresh, scope: 'nonsense' }, 'invalid_scope'],
    [
      { ...credentials, grant_type: 'refresh_token', refresh_token: refresh, resource: 'https://x.example' },
      'invalid_target',
    ],
  ];
  for (const [form, error] of cases)
    assert.deepEqual(errorOf(await oauth.token(form)), [400, error], JSON.stringify(form));
  const twice = new URLSearchParams([...Object.entries(credentials), ['grant_type', 'refresh_token']] as string[][]);
  twice.append('grant_type', 'refresh_token');
  assert.deepEqual(errorOf(await oauth.ask('POST', '/oauth2/tokens', { body: twice })), [400, 'invalid_request']);
  const json = { headers: { 'content-type': 'application/json' }, body: JSON.stringify(credentials) };
  assert.deepEqual(errorOf(await oauth.ask('POST', '/oauth2/tokens', json)), [400, 'invalid_request']);
  assert.deepEqual(errorOf(await oauth.ask('POST', '/oauth2/tokens')), [400, 'invalid_request']);
  const long = { headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: 'a'.repeat(70_000) };
  assert.deepEqual(errorOf(await oauth.ask('POST', '/oauth2/tokens', long)), [413, 'invalid_request']);
  const query = new URLSearchParams({ ...credentials, grant_type: 'refresh_token', refresh_token: refresh } as never);
  assert.equal((await oauth.ask('POST', `/oauth2/tokens?${query}`)).status, 400, 'secrets in a URL are ignored');
  assert.equal((await oauth.refresh(app, refresh)).status, 200, 'none of these used the refresh token');
});

test('RFC 6749: sends errors of the authorization request to the app, but never to an address that it did not register', async () => {
  const cases: [Record<string, string | undefined>, string][] = [
    [{ response_type: undefined }, 'invalid_request'],
    [{ response_type: 'token' }, 'unsupported_response_type'],
    [{ scope: 'workspace:read nonsense' }, 'invalid_scope'],
    [{ code_challenge: 'short' }, 'invalid_request'],
    [{ code_challenge: pkce().challenge, code_challenge_method: 'plain' }, 'invalid_request'],
    [{ code_challenge_method: 'S256' }, 'invalid_request'],
    [{ resource: 'https://other.example/' }, 'invalid_target'],
  ];
  for (const [query, error] of cases) {
    const { status, back, location } = await oauth.authorize(app, query);
    assert.equal(status, 302);
    assert.ok(location?.startsWith('https://app.example/callback?fixed=1&'), location ?? '');
    assert.deepEqual([back.get('error'), back.get('state'), back.has('code')], [error, 'st&te', false]);
  }
  const denied = await oauth.authorize(
    app,
    {},
    {
      headers: { 'Coder-Session-Token': ann.token },
      body: new URLSearchParams({ decision: 'deny' }),
    },
  );
  assert.deepEqual([denied.back.get('error'), denied.back.get('state')], ['access_denied', 'st&te']);
  const pages: Record<string, string | undefined>[] = [
    { client_id: undefined },
    { client_id: crypto.randomUUID() },
    { client_id: 'x' },
    { redirect_uri: 'https://evil.example/callback' },
    { redirect_uri: `${CALLBACK}&more=1` },
    { redirect_uri: CALLBACK.replace('https:', 'http:') },
    { redirect_uri: 'https://app.example/callback' },
    { redirect_uri: 'https://app.example/callback/../callback?fixed=1' },
    { redirect_uri: 'javascript:alert(1)' },
    { redirect_uri: '//app.example/callback?fixed=1' },
  ];
  for (const query of pages) {
    const { status, location } = await oauth.authorize(app, query);
    assert.deepEqual([status, location], [400, null], JSON.stringify(query));
  }
  assert.equal(
    (await oauth.authorize(app, { redirect_uri: undefined })).status,
    302,
    'the only address is the default',
  );
  const code = await oauth.code(app, { redirect_uri: undefined });
  assert.equal((await oauth.exchange(app, code, { redirect_uri: undefined })).status, 200);
});

test('a code works once, for ten minutes, for its app, its address and its verifier', async () => {
  const { verifier, challenge } = pkce();
  const used = await oauth.code(app);
  const first = await oauth.exchange(app, used);
  assert.deepEqual(errorOf(await oauth.exchange(app, used)), [400, 'invalid_grant']);
  assert.equal(await oauth.use(first.body.access_token), 401, 'the second use ends the tokens of the first');
  assert.deepEqual(errorOf(await oauth.refresh(app, first.body.refresh_token)), [400, 'invalid_grant']);

  const refreshed = await oauth.code(app);
  const before = await oauth.exchange(app, refreshed);
  const after = await oauth.refresh(app, before.body.refresh_token);
  await oauth.exchange(app, refreshed);
  assert.equal(await oauth.use(after.body.access_token), 401, 'also those of a refresh');

  const old = await oauth.code(app);
  assert.deepEqual(errorOf(await later(11 * MINUTE, () => oauth.exchange(app, old))), [400, 'invalid_grant']);
  const other = await oauth.createApp();
  assert.deepEqual(errorOf(await oauth.exchange(other, await oauth.code(app))), [400, 'invalid_grant']);
  const replaced = await oauth.code(app);
  await oauth.code(app);
  assert.deepEqual(errorOf(await oauth.exchange(app, replaced)), [400, 'invalid_grant'], 'one code at a time');
  for (const redirect_uri of [undefined, 'https://app.example/other']) {
    const code = await oauth.code(app);
    assert.deepEqual(errorOf(await oauth.exchange(app, code, { redirect_uri })), [400, 'invalid_grant']);
  }
  const both = await oauth.code(app);
  const answers = await Promise.all([oauth.exchange(app, both), oauth.exchange(app, both)]);
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 400], 'one of two at the same time');

  // RFC 7636
  const good = await oauth.code(app, { code_challenge: challenge, code_challenge_method: 'S256' });
  assert.equal((await oauth.exchange(app, good, { code_verifier: verifier })).status, 200);
  for (const code_verifier of [undefined, pkce().verifier]) {
    const code = await oauth.code(app, { code_challenge: challenge });
    assert.deepEqual(errorOf(await oauth.exchange(app, code, { code_verifier })), [400, 'invalid_grant']);
    const again = await oauth.exchange(app, code, { code_verifier: verifier });
    assert.deepEqual(errorOf(again), [400, 'invalid_grant'], 'a wrong verifier ends the code');
  }
  const code = await oauth.code(app, { code_challenge: challenge });
  assert.deepEqual(errorOf(await oauth.exchange(app, code, { code_verifier: 'short' })), [400, 'invalid_request']);
  const stripped = await oauth.code(app);
  const downgrade = await oauth.exchange(app, stripped, { code_verifier: verifier });
  assert.deepEqual(errorOf(downgrade), [400, 'invalid_grant'], 'a verifier without a challenge');
});

test('a second use of a refresh token ends its family', async () => {
  const first = await oauth.signIn(app);
  const otherFamily = await oauth.signIn(app);
  const second = await oauth.refresh(app, first.refresh_token);
  assert.equal(second.status, 200);
  assert.deepEqual(errorOf(await oauth.refresh(app, first.refresh_token)), [400, 'invalid_grant']);
  assert.equal(await oauth.use(second.body.access_token), 401);
  assert.deepEqual(errorOf(await oauth.refresh(app, second.body.refresh_token)), [400, 'invalid_grant']);
  assert.equal(await oauth.use(otherFamily.access_token), 200);
});

test('refresh tokens live as long as the option says, access tokens a day, and the purge keeps both in step', async () => {
  const tokens = await oauth.signIn(app);
  assert.equal(await later(DAY + MINUTE, () => oauth.use(tokens.access_token)), 401);
  assert.deepEqual(errorOf(await later(21 * DAY, () => oauth.refresh(app, tokens.refresh_token))), [
    400,
    'invalid_grant',
  ]);
  assert.equal((await later(19 * DAY, () => oauth.refresh(app, tokens.refresh_token))).status, 200);
  const { sql } = server.services;
  const count = async () => (await sql`SELECT FROM oauth2_provider_app_tokens`).count;
  const codes = async () => (await sql`SELECT FROM oauth2_provider_app_codes`).count;
  const had = await count();
  assert.ok(had > 0 && (await codes()) > 0);
  await later(5 * DAY, () => purgeOAuth2(server.services));
  assert.deepEqual([await count(), await codes()], [had, 0]);
  await later(90 * DAY, () => purgeOAuth2(server.services));
  assert.equal(await count(), 0);
});

test('tokens have the granted scopes, and a refresh may only narrow them', async () => {
  const tokens = await oauth.signIn(app, { scope: 'workspace:read  user:read workspace:read' });
  assert.equal(tokens.scope, 'workspace:read user:read');
  const status = async (token: string, method: string, path: string) =>
    (await server.api(method, path, { token })).status;
  assert.equal(await status(tokens.access_token, 'GET', '/workspaces'), 200);
  assert.equal(await status(tokens.access_token, 'GET', '/users/me/secrets'), 404);
  const rejected = await server.api('POST', '/users/me/keys', { token: tokens.access_token });
  assert.equal(rejected.status, 403);
  assert.match(rejected.headers.get('www-authenticate') ?? '', /error="insufficient_scope"/);
  const wider = await oauth.refresh(app, tokens.refresh_token, { scope: 'coder:all' });
  assert.deepEqual(errorOf(wider), [400, 'invalid_scope']);
  const narrow = await oauth.refresh(app, tokens.refresh_token, { scope: 'user:read' });
  assert.equal(narrow.body.scope, 'user:read');
  const list = await server.api<{ count: number }>('GET', '/workspaces', { token: narrow.body.access_token });
  assert.equal(list.body.count ?? 0, 0);
  const whole = await oauth.refresh(app, narrow.body.refresh_token);
  assert.equal(whole.body.scope, 'workspace:read user:read', 'the grant stays');
});

test('only a session lets apps in, with the protection of a form', async () => {
  const tokens = await oauth.signIn(app);
  const { body } = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { token: ann.token, body: {} });
  for (const token of [tokens.access_token, body.key]) {
    const answer = await oauth.authorize(app, {}, { headers: { 'Coder-Session-Token': token } });
    assert.deepEqual([answer.status, answer.location], [403, null]);
  }
  assert.equal((await oauth.authorize(app, {}, { headers: {} })).status, 401);
  const origin = new URL(server.url).origin;
  const cookie = `coder_session_token=${ann.token}`;
  const forged: Record<string, string>[] = [
    { cookie },
    { cookie, origin: 'https://evil.example' },
    { cookie, origin: 'null' },
    { cookie, origin },
    { cookie, 'x-csrf-token': 'x' },
  ];
  for (const headers of forged) {
    const answer = await oauth.authorize(app, {}, { headers });
    assert.deepEqual([answer.status, answer.location], [403, null], JSON.stringify(headers));
  }
  const query = `?${new URLSearchParams({ client_id: app.id, response_type: 'code', state: 'x' })}`;
  const html = { cookie, accept: 'text/html' };
  const page = await oauth.ask('GET', `/oauth2/authorize${query}`, { headers: html });
  assert.equal(page.status, 200);
  const policy = page.headers.get('content-security-policy') ?? '';
  assert.match(policy, /frame-ancestors 'none'/);
  assert.match(policy, /form-action 'self' https:\/\/app\.example;/);
  assert.equal(page.headers.get('x-frame-options'), 'DENY');
  assert.equal(page.headers.get('cache-control'), 'no-store');
  const proof = /name="csrf_token" value="([^"]+)"/.exec(page.body)?.[1] ?? assert.fail(page.body);
  const send = (text: string, token: string, at = query) =>
    oauth.ask('POST', `/oauth2/authorize${at}`, {
      headers: { cookie: `coder_session_token=${token}`, origin },
      body: new URLSearchParams({ csrf_token: text, decision: 'allow' }),
    });
  assert.equal((await send(proof, ann.token)).status, 302);
  assert.equal((await send(proof, server.adminToken)).status, 403, 'of another session');
  assert.equal((await send(proof, ann.token, `${query}&scope=user:read`)).status, 403, 'of another request');
  assert.equal((await later(40 * MINUTE, () => send(proof, ann.token))).status, 403, 'too old');
  const inLink = await oauth.ask('GET', `/oauth2/authorize${query}&coder_session_token=${ann.token}`, {
    headers: { accept: 'text/html' },
  });
  assert.equal(inLink.status, 303, 'a link does not sign anyone in');
  const signedOut = await oauth.ask('GET', `/oauth2/authorize${query}`, { headers: { accept: 'text/html' } });
  assert.deepEqual(
    [signedOut.status, signedOut.headers.get('location')],
    [303, `/login?${new URLSearchParams({ redirect: `/oauth2/authorize${query}` })}`],
  );
});

test('the consent page shows names as text', async () => {
  const named = await oauth.createApp({ name: '<b onclick=x>&"\'', callback_url: 'myapp://back' });
  const query = new URLSearchParams({
    client_id: named.id,
    response_type: 'code',
    scope: 'workspace:ssh',
    state: '"><script>',
  });
  const headers = { cookie: `coder_session_token=${ann.token}`, accept: 'text/html' };
  const page = await oauth.ask('GET', `/oauth2/authorize?${query}`, { headers });
  assert.match(page.body, /&lt;b onclick=x&gt;&amp;&quot;/);
  assert.ok(!page.body.includes('<b onclick') && !page.body.includes('<script>'));
  assert.match(page.body, /Connect by SSH to workspaces/);
  assert.match(page.body, /<dd>myapp:<\/dd>/);
  assert.match(page.headers.get('content-security-policy') ?? '', /form-action 'self' myapp:;/);
});

test('RFC 7009: revokes access and refresh tokens, and reveals nothing about others', async () => {
  for (const kind of ['access_token', 'refresh_token'] as const) {
    const tokens = await oauth.signIn(app);
    const answer = await oauth.revoke(app, tokens[kind], { token_type_hint: kind });
    assert.equal(answer.status, 200);
    assert.equal(await oauth.use(tokens.access_token), 401, kind);
    assert.deepEqual(errorOf(await oauth.refresh(app, tokens.refresh_token)), [400, 'invalid_grant'], kind);
    assert.equal((await oauth.revoke(app, tokens[kind])).status, 200, 'again');
  }
  const other = await oauth.createApp();
  const tokens = await oauth.signIn(app);
  for (const text of [tokens.access_token, tokens.refresh_token, ann.token, 'x', 'coder_x_y']) {
    assert.equal((await oauth.revoke(other, text)).status, 200, text.slice(0, 3));
    assert.equal((await oauth.revoke(app, `${text}x`)).status, 200);
  }
  assert.equal((await oauth.revoke(app, ann.token)).status, 200);
  assert.deepEqual([await oauth.use(tokens.access_token), await oauth.use(ann.token)], [200, 200]);
  assert.deepEqual(errorOf(await oauth.revoke(app, '')), [400, 'invalid_request']);
  assert.deepEqual(errorOf(await oauth.revoke({ ...app, secret: 'x' }, tokens.access_token)), [401, 'invalid_client']);
  // upstream's client sends no secret: the token itself is enough
  assert.equal((await oauth.revoke({ ...app, secret: undefined }, tokens.access_token)).status, 200);
  assert.equal(await oauth.use(tokens.access_token), 401);
});

test('tokens end with the app, its secret, the person’s decision, password and suspension', async () => {
  const { sql } = server.services;
  const ended = async (of: TestApp, tokens: Awaited<ReturnType<typeof oauth.signIn>>, why: string) => {
    assert.equal(await oauth.use(tokens.access_token), 401, why);
    assert.ok((await oauth.refresh(of, tokens.refresh_token)).status >= 400, why);
  };
  const gone = await oauth.createApp();
  const ofApp = await oauth.signIn(gone);
  assert.equal((await server.api('DELETE', `/oauth2-provider/apps/${gone.id}`)).status, 204);
  await ended(gone, ofApp, 'app');

  const kept = await oauth.createApp();
  const ofSecret = await oauth.signIn(kept);
  assert.equal((await server.api('DELETE', `/oauth2-provider/apps/${kept.id}/secrets/${kept.secretId}`)).status, 204);
  await ended(kept, ofSecret, 'secret');

  const tokens = await oauth.signIn(app);
  const mine = `/oauth2-provider/apps?user_id=${ann.id}`;
  const list = await server.api<OAuth2ProviderApp[]>('GET', mine, { token: ann.token });
  assert.deepEqual(
    list.body.map(({ id }) => id),
    [app.id],
  );
  const end = () =>
    oauth.ask('DELETE', `/oauth2/tokens?client_id=${app.id}`, { headers: { 'Coder-Session-Token': ann.token } });
  assert.equal((await end()).status, 204);
  await ended(app, tokens, 'person');
  assert.deepEqual((await server.api('GET', mine, { token: ann.token })).body, []);
  assert.equal((await end()).status, 204, 'again');

  const key = await oauth.signIn(app);
  const id = key.access_token.split('-')[0];
  assert.equal((await server.api('DELETE', `/users/me/keys/${id}`, { token: ann.token })).status, 204);
  await ended(app, key, 'key');

  const bob = await insertPerson(server, 'bob');
  const asBob = protocolOf(server, () => bob.token);
  const ofBob = await asBob.signIn(app);
  const code = await asBob.code(app);
  assert.equal((await server.api('PUT', `/users/${bob.id}/status/suspend`)).status, 200);
  assert.equal(await oauth.use(ofBob.access_token), 401);
  assert.deepEqual(errorOf(await oauth.refresh(app, ofBob.refresh_token)), [400, 'invalid_grant']);
  assert.deepEqual(errorOf(await oauth.exchange(app, code)), [400, 'invalid_grant']);
  await server.api('PUT', `/users/${bob.id}/status/activate`);
  assert.equal(await oauth.use(ofBob.access_token), 200);
  assert.equal((await server.api('DELETE', `/users/${bob.id}`)).status, 200);
  await ended(app, ofBob, 'account');
  const [left] = await sql<{ count: number }[]>`SELECT count(*)::integer AS count FROM oauth2_provider_app_tokens
    WHERE user_id = ${bob.id}`;
  assert.equal(left!.count, 0);
});

test('an app and a person have at most 20 families, and the oldest ends', async () => {
  const many = await oauth.createApp();
  const first = await oauth.signIn(many);
  for (let i = 0; i < 19; i++) await oauth.signIn(many);
  assert.equal(await oauth.use(first.access_token), 200);
  await oauth.signIn(many);
  assert.equal(await oauth.use(first.access_token), 401);
});

test('RFC 8707: a token for a part of the server works only there', async () => {
  const { accessUrl } = server.services;
  const all = await oauth.signIn(app, { resource: accessUrl });
  assert.equal(await oauth.use(all.access_token), 200);
  const part = `${accessUrl}/api/v2/users/`;
  const tokens = await oauth.signIn(app, { resource: part });
  assert.equal(await oauth.use(tokens.access_token), 200);
  for (const path of ['/api/v2/workspaces', '/api/v2/usersx', '/api/v2/buildinfo/../workspaces']) {
    assert.ok([401, 404].includes(await oauth.use(tokens.access_token, path)), path);
  }
  const elsewhere = await server.api('GET', '/workspaces', { token: tokens.access_token });
  assert.equal(elsewhere.status, 401);
  assert.match(elsewhere.headers.get('www-authenticate') ?? '', /error="invalid_token".*another resource/);
  const code = await oauth.code(app, { resource: part });
  assert.deepEqual(errorOf(await oauth.exchange(app, code, { resource: accessUrl })), [400, 'invalid_target']);
  assert.equal((await oauth.exchange(app, code, { resource: part })).status, 200);
  const next = await oauth.refresh(app, tokens.refresh_token, { resource: part });
  assert.equal(await oauth.use(next.body.access_token, '/api/v2/workspaces'), 401, 'also after a refresh');
  const authorize = await oauth.authorize(app, {}, { headers: { 'Coder-Session-Token': next.body.access_token } });
  assert.equal(authorize.status, 401);
  for (const resource of [`${accessUrl}#x`, 'relative', `${accessUrl}?x=1`, accessUrl.replace('http:', 'https:')])
    assert.equal((await oauth.authorize(app, { resource })).back.get('error'), 'invalid_target', resource);
});

test('RFC 8414, 9728 and 6750: clients find the endpoints from a 401', async () => {
  const { accessUrl } = server.services;
  const challenge = (await oauth.ask('GET', '/api/v2/users/me')).headers.get('www-authenticate') ?? '';
  assert.equal(
    challenge,
    `Bearer realm="coder", resource_metadata="${accessUrl}/.well-known/oauth-protected-resource"`,
  );
  const wrong = await oauth.ask('GET', '/api/v2/users/me', { headers: { authorization: 'Bearer x' } });
  assert.match(wrong.headers.get('www-authenticate') ?? '', /^Bearer realm="coder", error="invalid_token"/);
  const resource = await oauth.ask('GET', '/.well-known/oauth-protected-resource', {
    headers: { origin: 'https://x.example' },
  });
  assert.equal(resource.headers.get('access-control-allow-origin'), '*');
  assert.deepEqual([resource.body.resource, resource.body.authorization_servers], [accessUrl, [accessUrl]]);
  const part = await oauth.ask('GET', '/.well-known/oauth-protected-resource/api/experimental/mcp/http');
  assert.equal(part.body.resource, `${accessUrl}/api/experimental/mcp/http`);
  const { body } = await oauth.ask('GET', '/.well-known/oauth-authorization-server');
  assert.equal(body.issuer, accessUrl);
  for (const [name, path] of Object.entries({ authorization: 'authorize', token: 'tokens', revocation: 'revoke' }))
    assert.equal(body[`${name}_endpoint`], `${accessUrl}/oauth2/${path}`);
  assert.equal(body.registration_endpoint, undefined, 'registration is off');
  assert.deepEqual(body.code_challenge_methods_supported, ['S256']);
  assert.deepEqual(
    body.scopes_supported,
    (await server.api<{ external: string[] }>('GET', '/auth/scopes')).body.external,
  );
  const preflight = await oauth.ask('OPTIONS', '/oauth2/tokens', {
    headers: { origin: 'https://x.example', 'access-control-request-method': 'POST' },
  });
  assert.deepEqual([preflight.status, preflight.headers.get('access-control-allow-origin')], [204, '*']);
  assert.equal(preflight.headers.get('access-control-allow-credentials'), null);
  const page = await oauth.ask('GET', '/oauth2/authorize', { headers: { origin: 'https://x.example' } });
  assert.equal(page.headers.get('access-control-allow-origin'), null, 'no other site reads the consent page');
});

test('RFC 7591 and 7592: apps register only while the switch is on, and manage their registration', async () => {
  const register = (body: unknown) =>
    oauth.ask('POST', '/oauth2/register', {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const metadata = {
    redirect_uris: ['http://127.0.0.1/cb', 'vscode://coder.coder-remote/oauth/callback'],
    client_name: 'Editor',
  };
  assert.equal((await register(metadata)).status, 403);
  const settings = '/oauth2-provider/settings';
  assert.deepEqual((await server.api('GET', settings)).body, { dynamic_client_registration_enabled: false });
  const on = { dynamic_client_registration_enabled: true };
  assert.equal((await server.api('PUT', settings, { body: on, token: ann.token })).status, 404);
  assert.deepEqual((await server.api('PUT', settings, { body: on })).body, on);
  assert.deepEqual((await server.api('PUT', settings, { body: {} })).body, on, 'an absent field stays');
  const bad: [Record<string, unknown>, string][] = [
    [{}, 'invalid_redirect_uri'],
    [{ redirect_uris: [] }, 'invalid_redirect_uri'],
    [{ redirect_uris: ['http://app.example/cb'] }, 'invalid_redirect_uri'],
    [{ redirect_uris: ['https://app.example/#x'] }, 'invalid_redirect_uri'],
    [{ redirect_uris: ['javascript:alert(1)'] }, 'invalid_redirect_uri'],
    [{ redirect_uris: ['/cb'] }, 'invalid_redirect_uri'],
    [{ redirect_uris: 'https://app.example' }, 'invalid_client_metadata'],
    [{ ...metadata, grant_types: ['implicit'] }, 'invalid_client_metadata'],
    [{ ...metadata, grant_types: ['refresh_token'] }, 'invalid_client_metadata'],
    [{ ...metadata, response_types: ['token'] }, 'invalid_client_metadata'],
    [{ ...metadata, token_endpoint_auth_method: 'private_key_jwt' }, 'invalid_client_metadata'],
    [{ ...metadata, logo_uri: 'javascript:alert(1)' }, 'invalid_client_metadata'],
    [{ ...metadata, client_uri: 'x' }, 'invalid_client_metadata'],
    [{ ...metadata, scope: 'nonsense' }, 'invalid_client_metadata'],
    [{ ...metadata, client_name: 'x'.repeat(3_000) }, 'invalid_client_metadata'],
  ];
  for (const [body, error] of bad) assert.deepEqual(errorOf(await register(body)), [400, error], JSON.stringify(body));
  const made = await register({ ...metadata, scope: 'workspace:read user:read', software_id: 'x' });
  assert.equal(made.status, 201);
  assert.equal(made.headers.get('cache-control'), 'no-store');
  const { client_id: id, client_secret: secret, registration_access_token: token } = made.body;
  assert.equal(made.body.registration_client_uri, `${server.services.accessUrl}/oauth2/clients/${id}`);
  assert.equal(made.body.client_secret_expires_at, 0);
  const editor = { id, secret, secretId: '', redirectUri: metadata.redirect_uris[1]! };
  const granted = await oauth.signIn(editor);
  assert.equal(granted.scope, 'workspace:read user:read', 'the registered scope is the default');
  const beyond = await oauth.authorize(editor, { scope: 'workspace:delete' });
  assert.deepEqual([beyond.status, beyond.location], [400, null], 'no redirect to an app that nobody checked');
  assert.equal(beyond.body.error, 'invalid_scope');
  // RFC 8252: any port of the loopback interface, but no other path or host
  for (const [redirect_uri, status] of [
    ['http://127.0.0.1:4711/cb', 302],
    ['http://127.0.0.1:4711/other', 400],
    ['http://[::1]:4711/cb', 400],
    ['http://127.0.0.2:4711/cb', 400],
  ] as const)
    assert.equal((await oauth.authorize(editor, { redirect_uri })).status, status, redirect_uri);

  const manage = (method: string, text = token, body?: unknown, of = id) =>
    oauth.ask(method, `/oauth2/clients/${of}`, {
      headers: { authorization: `Bearer ${text}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  const read = await manage('GET');
  assert.deepEqual([read.status, read.body.client_name, read.body.client_secret], [200, 'Editor', undefined]);
  assert.equal(read.body.registration_access_token, token);
  for (const attempt of [
    manage('GET', 'x'),
    manage('GET', secret),
    manage('GET', token, undefined, app.id),
    manage('DELETE', token, undefined, crypto.randomUUID()),
  ])
    assert.deepEqual(errorOf(await attempt), [401, 'invalid_token']);
  const renamed = await manage('PUT', token, { ...metadata, client_id: id, client_name: 'Renamed' });
  assert.deepEqual([renamed.status, renamed.body.client_name, renamed.body.scope], [200, 'Renamed', undefined]);
  assert.equal((await manage('PUT', token, { ...metadata, client_id: app.id })).status, 400);
  assert.equal((await manage('PUT', token, { ...metadata, token_endpoint_auth_method: 'none' })).status, 400);
  assert.equal((await manage('DELETE')).status, 204);
  assert.equal(await oauth.use(granted.access_token), 401);
  assert.equal((await manage('GET')).status, 401);

  // public clients have no secret, so PKCE is required
  const native = await register({ ...metadata, token_endpoint_auth_method: 'none' });
  assert.equal(native.body.client_secret, undefined);
  const open = { id: native.body.client_id, secret: undefined, secretId: '', redirectUri: metadata.redirect_uris[0]! };
  assert.equal((await oauth.authorize(open)).body.error, 'invalid_request');
  const { verifier, challenge } = pkce();
  const code = await oauth.code(open, { code_challenge: challenge });
  assert.deepEqual(errorOf(await oauth.exchange({ ...open, secret: app.secret }, code, { code_verifier: verifier })), [
    401,
    'invalid_client',
  ]);
  const tokens = await oauth.exchange(open, code, { code_verifier: verifier });
  assert.equal((await oauth.refresh(open, tokens.body.refresh_token)).status, 200);
  const { sql } = server.services;
  await register(metadata);
  await later(8 * DAY, () => purgeOAuth2(server.services));
  const left = await sql`SELECT id FROM oauth2_provider_apps WHERE dynamically_registered`;
  assert.deepEqual(
    left.map((row) => row['id']),
    [open.id],
    'unused ones go',
  );
});

test('members read apps, owners change them, and nobody reads a secret again', async () => {
  const path = `/oauth2-provider/apps/${app.id}`;
  const asAnn = { token: ann.token };
  const read = await server.api<OAuth2ProviderApp>('GET', path, asAnn);
  assert.deepEqual(read.body, {
    id: app.id,
    name: 'Test app',
    icon: '',
    callback_url: CALLBACK,
    endpoints: {
      authorization: `${server.services.accessUrl}/oauth2/authorize`,
      token: `${server.services.accessUrl}/oauth2/tokens`,
      token_revoke: `${server.services.accessUrl}/oauth2/revoke`,
      device_authorization: '',
    },
  });
  const body = { name: 'Renamed', callback_url: 'https://app.example/new', icon: '/icon/x.svg' };
  assert.equal((await server.api('PUT', path, { ...asAnn, body })).status, 403);
  assert.equal((await server.api('POST', '/oauth2-provider/apps', { ...asAnn, body })).status, 403);
  assert.equal((await server.api('DELETE', path, asAnn)).status, 403);
  assert.equal((await server.api('GET', `${path}/secrets`, asAnn)).status, 404);
  assert.equal((await server.api('POST', `${path}/secrets`, asAnn)).status, 403);
  assert.equal((await server.api('GET', `/oauth2-provider/apps?user_id=${ann.id}`)).status, 200);
  const own = await server.api<{ id: string }>('GET', '/users/admin', asAnn);
  assert.ok([403, 404].includes(own.status));
  const secrets = await server.api<OAuth2ProviderAppSecret[]>('GET', `${path}/secrets`);
  assert.deepEqual(
    secrets.body.map((secret) => [secret.id, secret.client_secret_truncated]),
    [[app.secretId, app.secret!.slice(-6)]],
  );
  assert.ok(secrets.body[0]!.last_used_at);
  const moved = await oauth.createApp();
  const changed = await server.api<OAuth2ProviderApp>('PUT', `/oauth2-provider/apps/${moved.id}`, { body });
  assert.deepEqual([changed.body.name, changed.body.callback_url], ['Renamed', 'https://app.example/new']);
  assert.equal((await oauth.authorize(moved)).status, 400, 'the old address is gone');
  for (const wrong of [
    { ...body, callback_url: 'javascript:alert(1)' },
    { ...body, callback_url: 'x' },
    { ...body, name: ' x' },
  ])
    assert.equal((await server.api('PUT', `/oauth2-provider/apps/${moved.id}`, { body: wrong })).status, 400);
  const { sql } = server.services;
  const rows = await sql`SELECT hashed_secret AS a FROM oauth2_provider_app_secrets
    UNION ALL SELECT hashed_secret FROM oauth2_provider_app_codes UNION ALL SELECT refresh_hash FROM oauth2_provider_app_tokens`;
  assert.ok(rows.every(({ a }) => (a as Buffer).length === 32));
});

test('a standard client signs in, refreshes and revokes', async () => {
  await server.api('PUT', '/oauth2-provider/settings', { body: { dynamic_client_registration_enabled: true } });
  const execute = [openid.allowInsecureRequests];
  const redirect = 'http://127.0.0.1:4711/cb';
  const client = await openid.dynamicClientRegistration(
    new URL(server.services.accessUrl),
    { client_name: 'openid-client', redirect_uris: [redirect] },
    undefined,
    { algorithm: 'oauth2', execute },
  );
  const verifier = openid.randomPKCECodeVerifier();
  const state = openid.randomState();
  const url = openid.buildAuthorizationUrl(client, {
    redirect_uri: redirect,
    scope: 'user:read',
    state,
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  });
  const allowed = await fetch(url, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'Coder-Session-Token': ann.token },
  });
  const back = new URL(allowed.headers.get('location')!);
  const tokens = await openid.authorizationCodeGrant(client, back, {
    pkceCodeVerifier: verifier,
    expectedState: state,
  });
  assert.equal(tokens.scope, 'user:read');
  const next = await openid.refreshTokenGrant(client, tokens.refresh_token!);
  assert.equal(await oauth.use(next.access_token), 200);
  await openid.tokenRevocation(client, next.refresh_token!);
  assert.equal(await oauth.use(next.access_token), 401);
  await assert.rejects(openid.refreshTokenGrant(client, next.refresh_token!), { error: 'invalid_grant' });
});

/** What upstream's clients send (vscode-coder, coder-jetbrains-toolbox, Backstage's auth-backend-module-coder-provider). */
const CLIENTS = [
  {
    name: 'VS Code',
    redirect: 'vscode://coder.coder-remote/oauth/callback',
    registers: {
      grant_types: ['authorization_code'],
      response_types: ['code'],
      client_name: 'Coder for Visual Studio Code',
    },
    scope: 'coder:workspaces.operate coder:workspaces.access workspace:create user:read user:read_personal',
    hasPkce: true,
  },
  {
    name: 'JetBrains Toolbox',
    redirect: 'jetbrains://gateway/com.coder.toolbox/auth',
    registers: {
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      client_name: 'coder-jetbrains-toolbox',
      scope: 'coder:workspaces.operate coder:workspaces.delete coder:workspaces.access user:read_personal',
    },
    scope: 'coder:workspaces.operate coder:workspaces.delete coder:workspaces.access user:read_personal',
    hasPkce: true,
  },
  { name: 'Backstage', redirect: 'http://portal.example/api/auth/coder/handler/frame', scope: '', hasPkce: false },
] as const;

for (const client of CLIENTS)
  test(`signs ${client.name} in with the requests that it sends`, async () => {
    await server.api('PUT', '/oauth2-provider/settings', { body: { dynamic_client_registration_enabled: true } });
    const { body: metadata } = await oauth.ask('GET', '/.well-known/oauth-authorization-server');
    let made: TestApp;
    if ('registers' in client) {
      assert.ok(metadata.token_endpoint_auth_methods_supported.includes('client_secret_post'));
      for (const type of ['authorization_code', 'refresh_token'])
        assert.ok(metadata.grant_types_supported.includes(type));
      const wanted = {
        ...client.registers,
        redirect_uris: [client.redirect],
        token_endpoint_auth_method: 'client_secret_post',
      };
      const answer = await oauth.ask('POST', new URL(metadata.registration_endpoint).pathname, {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(wanted),
      });
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      assert.deepEqual(answer.body.redirect_uris, [client.redirect]);
      made = {
        id: answer.body.client_id,
        secret: answer.body.client_secret,
        secretId: '',
        redirectUri: client.redirect,
      };
    } else made = await oauth.createApp({ callback_url: client.redirect });
    const { verifier, challenge } = pkce();
    const query = client.hasPkce
      ? { code_challenge: challenge, code_challenge_method: 'S256' }
      : { prompt: 'consent', access_type: 'offline' };
    const code = await oauth.code(made, { ...query, scope: client.scope });
    const tokens = await oauth.exchange(made, code, client.hasPkce ? { code_verifier: verifier } : {});
    assert.equal(tokens.status, 200, JSON.stringify(tokens.body));
    assert.equal(tokens.body.scope, client.scope || 'coder:all');
    assert.equal(await oauth.use(tokens.body.access_token), 200);
    const next = await oauth.refresh(made, tokens.body.refresh_token);
    assert.equal(await oauth.use(next.body.access_token, '/api/v2/workspaces?q=owner:me'), 200);
    if ('registers' in client) assert.equal((await oauth.revoke(made, next.body.refresh_token)).status, 200);
  });
