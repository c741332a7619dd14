import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import type { AuditLogResponse, OAuthConversionResponse, User } from '@ropewalk/contract';
import { createCertificate } from '@ropewalk/kit/certificate';
import { ADMIN, createPerson, eventually, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import {
  Browser,
  CLIENT,
  type IdentityProvider,
  KEYED_CLIENT,
  startIdentityProvider,
} from '@ropewalk/testkit/identity-provider';
import { startRequestBalancer } from '@ropewalk/testkit/request-balancer';
import { refreshLinks } from '../../background/refresh-sign-ins.ts';
import { TEMPLATES } from '../notification/templates.ts';
import { createOidc } from './oidc.ts';

let idp: IdentityProvider;
let server: TestServer;
const pair = createCertificate({ name: 'provider', hosts: ['localhost'], validMs: 86_400_000 });
const CALLBACK = '/api/v2/users/oidc/callback';

const options = (url: string, more: Record<string, string> = {}) => ({
  CODER_OIDC_ISSUER_URL: url,
  CODER_OIDC_CLIENT_ID: CLIENT.id,
  CODER_OIDC_CLIENT_SECRET: CLIENT.secret,
  CODER_OIDC_AUTH_URL_PARAMS: '{"prompt":"login"}',
  ...more,
});

before(async () => {
  idp = await startIdentityProvider({ clientKey: createPublicKey(pair.cert) });
  server = await startTestServer({ env: options(idp.url, { CODER_OIDC_EMAIL_DOMAIN: 'example.com,@Corp.example' }) });
});
beforeEach(() => {
  idp.intercept = undefined;
  idp.forge = undefined;
});
after(async () => {
  await server.stop();
  await idp.stop();
});

const person = (sub: string, claims: Record<string, unknown> = {}) => {
  idp.people.set(sub, {
    email: `${sub}@example.com`,
    email_verified: true,
    preferred_username: sub,
    name: `Name of ${sub}`,
    ...claims,
  });
  idp.next = sub;
};
const tokenOf = (browser: Browser, at = server) => browser.cookie(at.url, 'coder_session_token');
const shownError = (browser: Browser, at = server) =>
  JSON.parse(decodeURIComponent(browser.cookie(at.url, 'coder_sign_in_error') ?? '{}')) as {
    message?: string;
    detail?: string;
  };

/** Signs in with a fresh browser. Stops at the first page of the server after the callback. */
async function signIn(at = server, redirect?: string): Promise<{ browser: Browser; page: string }> {
  const browser = new Browser();
  const start = `${at.url}${CALLBACK}${redirect === undefined ? '' : `?redirect=${encodeURIComponent(redirect)}`}`;
  const page = await browser.open(start, (url) => url.startsWith(at.url) && !url.includes(CALLBACK));
  return { browser, page: page.slice(at.url.length) };
}
async function signedIn(at = server): Promise<{ token: string; user: User }> {
  const { browser } = await signIn(at);
  const token = tokenOf(browser, at);
  assert.ok(token, JSON.stringify(shownError(browser, at)));
  return { token, user: (await at.api<User>('GET', '/users/me', { token })).body };
}
async function rejected(at = server): Promise<{ message?: string; detail?: string }> {
  const { browser, page } = await signIn(at);
  assert.equal(tokenOf(browser, at), undefined);
  assert.match(page, /^\/login/);
  return shownError(browser, at);
}

test('creates an account, signs in to the same one again, and offers the provider on the sign-in page', async () => {
  const methods = await server.api<{ oidc: { enabled: boolean } }>('GET', '/users/authmethods', { token: null });
  assert.equal(methods.body.oidc.enabled, true);
  person('alice', { picture: 'https://example.com/alice.png' });
  const { user } = await signedIn();
  assert.deepEqual(
    [user.username, user.email, user.name, user.login_type, user.status, user.avatar_url],
    ['alice', 'alice@example.com', 'Name of alice', 'oidc', 'active', 'https://example.com/alice.png'],
  );
  assert.equal(user.organization_ids.length, 1);
  assert.deepEqual(user.roles, []);
  person('alice', { name: 'Alice Renamed', email: 'alice.new@corp.example' });
  const again = (await signedIn()).user;
  assert.deepEqual([again.id, again.name, again.email], [user.id, 'Alice Renamed', 'alice.new@corp.example']);
  const sent = await server.services.sql<{ method: string; address: string }[]>`
    SELECT method, address FROM notification_messages WHERE user_id = ${user.id} AND template_id = ${TEMPLATES.emailChanged.id}`;
  assert.deepEqual([...sent], [{ method: 'inbox', address: user.email }]);
  const login = await server.api('POST', '/users/login', {
    token: null,
    body: { email: again.email, password: '' },
  });
  assert.equal(login.status, 401);
});

test('records registrations, sign-ins and rejected sign-ins in the audit log', async () => {
  person('audrey');
  const { user } = await signedIn();
  await signedIn();
  await server.api('PUT', `/users/${user.id}/status/suspend`);
  await rejected();
  const { body } = await server.api<AuditLogResponse>('GET', '/audit?q=username:audrey');
  const short = body.audit_logs.map((each) => `${each.resource_type} ${each.action} ${each.status_code}`);
  assert.deepEqual(short, ['api_key login 401', 'api_key login 201', 'api_key register 201', 'user create 201']);
  assert.equal((body.audit_logs[1]!.additional_fields as { login_type: string }).login_type, 'oidc');
  assert.equal(body.audit_logs[2]!.description, '{user} registered');
});

test('the provider sends people back to another address of this server', async () => {
  const entrance = await startRequestBalancer();
  const own = entrance.url.replace('127.0.0.1', 'localhost');
  const other = await startTestServer({ env: options(idp.url, { CODER_OIDC_REDIRECT_URL: own }) });
  entrance.use([other.url]);
  try {
    person('rita');
    const browser = new Browser();
    const page = await browser.open(`${own}${CALLBACK}`, (url) => url.startsWith(own) && !url.includes(CALLBACK));
    assert.ok(page.startsWith(own), page);
    const token = browser.cookie(own, 'coder_session_token');
    assert.equal((await other.api<User>('GET', '/users/me', { token: token ?? null })).body.username, 'rita');
    // one that began at the other address has left its secrets there
    const { browser: lost } = await signIn(other);
    assert.equal(tokenOf(lost, other), undefined);
  } finally {
    await other.stop();
    await entrance.close();
  }
});

test('asks the provider to send people back below the access URL, or to the host of the redirect URL', async () => {
  const redirectUri = async (env: Record<string, string>) => {
    const other = await startTestServer({ env: options(idp.url, env) });
    try {
      const { headers } = await fetch(`${other.url}${CALLBACK}`, { redirect: 'manual' });
      return new URL(headers.get('location')!).searchParams.get('redirect_uri');
    } finally {
      await other.stop();
    }
  };
  const access = { CODER_ACCESS_URL: 'https://dev.example.com/coder/' };
  assert.equal(await redirectUri(access), `https://dev.example.com/coder${CALLBACK}`);
  for (const url of ['https://b.example.com/', `https://b.example.com${CALLBACK}`])
    assert.equal(await redirectUri({ ...access, CODER_OIDC_REDIRECT_URL: url }), `https://b.example.com${CALLBACK}`);
  await assert.rejects(redirectUri({ CODER_OIDC_REDIRECT_URL: 'b.example.com:8443' }), {
    message: 'Invalid --oidc-redirect-url "b.example.com:8443": start it with https:// or http://.',
  });
});

test('returns only to paths of this server', async () => {
  person('alice');
  assert.equal((await signIn(server, '/cli-auth?x=1#y')).page, '/cli-auth?x=1#y');
  for (const evil of [
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/..//evil.example',
    'javascript:1',
  ]) {
    const { page, browser } = await signIn(server, evil);
    assert.ok(tokenOf(browser));
    assert.ok(page === '/' || /^\/[^/\\]/.test(page), `${evil} led to ${page}`);
  }
});

test('rejects forged, foreign and replayed states', async () => {
  person('alice');
  const browser = new Browser();
  const callback = await browser.open(`${server.url}${CALLBACK}`, (url) =>
    url.startsWith(`${server.url}${CALLBACK}?code`),
  );
  const other = new Browser();
  await other.open(callback);
  assert.equal(tokenOf(other), undefined, 'another browser cannot finish it');
  assert.match(shownError(other).detail!, /another browser/);
  const forged = new URL(callback);
  forged.searchParams.set('state', `${forged.searchParams.get('state')!.slice(0, -4)}AAAA`);
  const copy = new Browser();
  copy.cookies.set(new URL(server.url).host, new Map(browser.cookies.get(new URL(server.url).host)));
  await copy.open(forged.href);
  assert.equal(tokenOf(copy), undefined);
  assert.match(shownError(copy).detail!, /state does not match/);
  const saved = new Map(browser.cookies.get(new URL(server.url).host));
  await browser.step(callback);
  assert.ok(tokenOf(browser));
  const replay = new Browser();
  replay.cookies.set(new URL(server.url).host, saved);
  await replay.step(callback);
  assert.equal(tokenOf(replay), undefined);
  assert.match(shownError(replay).detail!, /completed before/);
  const program = await server.api<{ message: string }>('GET', '/users/oidc/callback?state=x&code=y', { token: null });
  assert.equal(program.status, 401, 'programs get the error itself');
});

test('rejects ID tokens that are forged, for others, expired or from the future', async () => {
  person('alice');
  const now = Math.floor(Date.now() / 1000);
  const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  const cases: [string, Record<string, unknown>][] = [
    ['nonce', { nonce: 'another' }],
    ['audience', { aud: 'another client' }],
    ['issuer', { iss: 'https://evil.example' }],
    ['expired', { exp: now - 600 }],
    ['not yet valid', { nbf: now + 600 }],
    ['from the future', { iat: now + 600 }],
    ['without subject', { sub: undefined }],
  ];
  for (const [name, change] of cases) {
    idp.forge = (claims) => ({ claims: { ...claims, ...change } });
    const { message } = await rejected();
    assert.match(message!, /answer is not valid/, name);
  }
  idp.forge = (claims) => ({ claims, key: stranger });
  assert.match((await rejected()).message!, /answer is not valid/);
  idp.forge = (claims) => ({ claims });
  await signedIn();
});

test('shows why the provider did not sign a person in', async () => {
  idp.next = undefined;
  const { message, detail } = await rejected();
  assert.deepEqual([message, detail], ['The identity provider rejected the sign-in.', 'The person declined.']);
});

test('takes over nobody: by a taken address, an unverified one, or another domain', async () => {
  person('bob');
  const bob = await signedIn();
  // another account of the provider gets bob's address
  person('mallory', { email: 'bob@example.com' });
  assert.match((await rejected()).detail!, /linked to another account/);
  person('mallory');
  const mallory = await signedIn();
  person('mallory', { email: 'BOB@example.com' });
  const after = await signedIn();
  assert.equal(after.user.id, mallory.user.id);
  assert.equal(after.user.email, 'mallory@example.com', 'the taken address is not stored');
  assert.equal((await server.api<User>('GET', `/users/${bob.user.id}`)).body.email, 'bob@example.com');
  person('owner', { email: ADMIN.email });
  assert.match((await rejected()).message!, /Incorrect login type/);
  // a provider that states nothing, or nothing that can be understood, has verified nothing
  for (const email_verified of [false, undefined, null, '', 'false', 'yes', 0, [true], {}]) {
    person('carol', { email_verified });
    assert.match((await rejected()).message!, /Verify the email address/, JSON.stringify(email_verified));
  }
  for (const email_verified of ['true', 'True', 1]) {
    person('verified', { email_verified });
    await signedIn();
  }
  person('carol', { email: 'carol@elsewhere.example' });
  assert.match((await rejected()).message!, /not in an allowed domain/);
  person('carol', { email: undefined });
  assert.match((await rejected()).message!, /no email address/);
});

test('gives a person whose user name is taken or invalid another one', async () => {
  person('admin', { email: 'other.admin@example.com' });
  assert.match((await signedIn()).user.username, /^admin-\w{5}$/);
  person('dora', { preferred_username: 'Dóra K. <x>', name: ` a\u0007\n${'b'.repeat(200)}` });
  const { user } = await signedIn();
  assert.equal(user.username, 'D-ra-K-x');
  assert.equal(user.name!.length, 128);
});

test('signs in to an account that an administrator created for the address, and not to a suspended one', async () => {
  const made = await server.api<User>('POST', '/users', {
    body: { username: 'erin', email: 'erin@example.com', login_type: 'oidc', user_status: 'dormant' },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  person('erin-at-the-provider', { email: 'Erin@example.com' });
  const { user } = await signedIn();
  assert.deepEqual([user.id, user.status, user.username], [made.body.id, 'active', 'erin']);
  await server.api('PUT', `/users/${user.id}/status/suspend`);
  assert.match((await rejected()).message!, /suspended/);
});

test('one of two first sign-ins at a time creates the account', async () => {
  person('twin');
  const both = await Promise.all([signIn(), signIn()]);
  const ids = await Promise.all(
    both.map(async ({ browser }) => (await server.api<User>('GET', '/users/me', { token: tokenOf(browser)! })).body.id),
  );
  assert.equal(ids[0], ids[1]);
});

test('a huge or broken answer of the provider fails one sign-in and nothing else', async () => {
  person('alice');
  idp.intercept = (request, response) => {
    if (!request.url!.startsWith('/token')) return false;
    response.setHeader('content-type', 'application/json');
    response.write('{"access_token":"');
    let sent = 0;
    const more = () => {
      while (sent < 10 * 1024 * 1024 && !response.destroyed) {
        sent += 65_536;
        if (!response.write('a'.repeat(65_536))) return void response.once('drain', more);
      }
      response.end('"}');
    };
    more();
    return true;
  };
  assert.match((await rejected()).detail!, /too large/);
  idp.intercept = (request, response) =>
    request.url!.startsWith('/token') && Boolean(response.writeHead(500).end('broken'));
  assert.match((await rejected()).message!, /identity provider/);
  idp.intercept = undefined;
  await signedIn();
});

test('applies the options for claims, sign-ups and issuers, and authenticates itself with a key', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'platform-oidc-'));
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  writeFileSync(key, pair.key);
  writeFileSync(certificate, pair.cert);
  const strict = await startTestServer({
    env: options(idp.url, {
      CODER_OIDC_CLIENT_ID: KEYED_CLIENT,
      CODER_OIDC_CLIENT_SECRET: '',
      CODER_OIDC_CLIENT_KEY_FILE: key,
      CODER_OIDC_CLIENT_CERT_FILE: certificate,
      CODER_OIDC_SCOPES: 'openid,email',
      CODER_OIDC_ALLOW_SIGNUPS: 'false',
      CODER_OIDC_SIGNUPS_DISABLED_TEXT: 'Ask **IT** for an account.',
      CODER_OIDC_USERNAME_FIELD: 'nickname',
      CODER_OIDC_EMAIL_FIELD: 'mail',
      CODER_OIDC_NAME_FIELD: 'full',
      CODER_OIDC_IGNORE_EMAIL_VERIFIED: 'true',
      CODER_OIDC_IGNORE_USERINFO: 'true',
      CODER_OIDC_SIGN_IN_TEXT: 'Acme',
      CODER_OIDC_ICON_URL: 'https://example.com/icon.svg',
      CODER_DANGEROUS_OIDC_SKIP_ISSUER_CHECKS: 'true',
    }),
  });
  try {
    const methods = await strict.api<{ oidc: object }>('GET', '/users/authmethods', { token: null });
    assert.deepEqual(methods.body.oidc, { enabled: true, signInText: 'Acme', iconUrl: 'https://example.com/icon.svg' });
    person('yann');
    const claims = { nickname: 'yy', mail: 'yann@example.org', full: 'Yann Y', email_verified: false };
    idp.forge = (given) => ({ claims: { ...given, ...claims, iss: 'https://another.example' } });
    assert.equal((await rejected(strict)).detail, 'Ask **IT** for an account.');
    const made = await strict.api<User>('POST', '/users', {
      body: { username: 'yann', email: 'yann@example.org', login_type: 'oidc' },
    });
    assert.equal(made.status, 201);
    idp.requests.delete('/me');
    const { user } = await signedIn(strict);
    assert.deepEqual([user.username, user.name], ['yann', 'Yann Y']);
    assert.equal(idp.requests.get('/me'), undefined);
    const [link] = await strict.services.sql<{ linked_id: string }[]>`SELECT linked_id FROM user_links`;
    assert.equal(link!.linked_id, 'https://another.example||yann');
    assert.match(idp.assertions[0]!, /"x5t":"[\w-]{27}"/, "the certificate's thumbprint is in the header");
    const start = await new Browser().step(`${strict.url}${CALLBACK}`);
    assert.equal(new URL(start.headers.get('location')!).searchParams.get('scope'), 'openid email');
  } finally {
    await strict.stop();
    rmSync(folder, { recursive: true });
  }
});

test('refreshes sign-ins, waits for a provider that is down, and ends the sessions that the provider revoked', async () => {
  const { services } = server;
  const { sql } = services;
  const stopped = new AbortController();
  const providers = { oidc: createOidc(services, stopped.signal) };
  const refresh = () => refreshLinks(services, providers);
  person('rita');
  const { token, user } = await signedIn();
  const expire = () =>
    sql`UPDATE user_links SET expires_at = now(), refreshing_until = NULL WHERE user_id = ${user.id}`;
  const link = async () =>
    (
      await sql<{ access_token: string; expires_at: Date | null; claims: { name?: string } }[]>`
        SELECT * FROM user_links WHERE user_id = ${user.id}`
    )[0]!;
  const status = async () => (await server.api('GET', '/users/me', { token })).status;
  try {
    const before = await link();
    await expire();
    person('rita', { name: 'Rita Refreshed' });
    // two servers at the same time: one refresh
    idp.requests.clear();
    await Promise.all([refresh(), refresh()]);
    assert.equal(idp.requests.get('/token'), 1);
    const after = await link();
    assert.notEqual(after.access_token, before.access_token);
    assert.ok(after.expires_at! > new Date());
    assert.equal(after.claims.name, 'Rita Refreshed');

    await expire();
    idp.intercept = (_request, response) => Boolean(response.writeHead(503).end());
    await refresh();
    assert.equal(await status(), 200);
    idp.intercept = undefined;
    await expire();
    await idp.revokeAll();
    await refresh();
    // with several servers, the others end the session after an event
    await eventually('the session has ended', async () => (await status()) === 401, 5_000);
  } finally {
    stopped.abort();
  }
});

test('converts a password account by a sign-in at the provider, and back by an administrator', async () => {
  const { id, token } = await createPerson(server, 'petra');
  const convert = (body: object, as = token, user = 'me') =>
    server.api<OAuthConversionResponse & { message: string }>('POST', `/users/${user}/convert-login`, {
      token: as,
      body,
    });
  assert.equal((await convert({ to_type: 'oidc', password: 'wrong' })).status, 400);
  assert.equal((await convert({ to_type: 'github', password: 'petra correct horse' })).status, 400);
  const started = await convert({ to_type: 'oidc', password: 'petra correct horse' });
  assert.equal(started.status, 201, JSON.stringify(started.body));
  const cookie = started.headers.getSetCookie()[0]!.split(';')[0]!;
  const complete = async (value: string) => {
    const browser = new Browser();
    browser.cookies.set(new URL(server.url).host, new Map([value.split('=') as [string, string]]));
    const start = `${server.url}${CALLBACK}?oidc_merge_state=${started.body.state_string}&redirect=/settings/security`;
    await browser.open(start, (url) => url.startsWith(server.url) && !url.includes(CALLBACK));
    return browser;
  };
  const type = async () => (await server.api<User>('GET', `/users/${id}`)).body.login_type;

  person('petra-at-the-provider', { email: 'somebody.else@example.com' });
  assert.match(shownError(await complete(cookie)).message!, /does not match your account here/);
  person('petra-at-the-provider', { email: 'petra@example.com' });
  assert.match(shownError(await complete('x=y')).detail!, /another browser/);
  assert.equal(await type(), 'password');
  const browser = await complete(cookie);
  assert.ok(tokenOf(browser), JSON.stringify(shownError(browser)));
  assert.equal(await type(), 'oidc');
  const login = { email: 'petra@example.com', password: 'petra correct horse' };
  assert.equal((await server.api('POST', '/users/login', { token: null, body: login })).status, 401);
  assert.equal((await signedIn()).user.id, id);
  assert.equal((await convert({ to_type: 'password', password: 'a new long one' })).status, 400, 'not by themselves');

  const member = await createPerson(server, 'meddler');
  assert.equal((await convert({ to_type: 'none', password: '' }, member.token, id)).status, 404);
  assert.equal((await convert({ to_type: 'password', password: 'short' }, server.adminToken, id)).status, 400);
  const session = tokenOf(browser)!;
  assert.equal((await convert({ to_type: 'password', password: 'a new long one' }, server.adminToken, id)).status, 201);
  assert.equal((await server.api('GET', '/users/me', { token: session })).status, 401, 'sessions end');
  assert.match((await rejected()).message!, /Incorrect login type/);
  const again = await server.api('POST', '/users/login', {
    token: null,
    body: { ...login, password: 'a new long one' },
  });
  assert.equal(again.status, 201);
  // an owner who is not the last one may become a service account, the last one may not
  const admin = await server.api<User>('GET', '/users/me');
  const second = await createPerson(server, 'second', ['owner']);
  assert.equal((await convert({ to_type: 'none', password: '' }, second.token, admin.body.id)).status, 201);
  assert.equal(
    (await convert({ to_type: 'password', password: ADMIN.password }, second.token, admin.body.id)).status,
    201,
  );
  server.adminToken = await logIn(server, ADMIN.email, ADMIN.password);
});

test('starts while the provider is down, and uses it once it is up', async () => {
  const port = Number(new URL(idp.url).port);
  const before = idp;
  await before.stop();
  const late = await startTestServer({ env: options(before.url) });
  try {
    person('zoe');
    assert.match((await rejected(late)).message!, /does not work at the moment/);
    idp = await startIdentityProvider({ port });
    person('zoe');
    await eventually('a sign-in', async () => tokenOf((await signIn(late)).browser, late), 5_000);
  } finally {
    await late.stop();
  }
});
