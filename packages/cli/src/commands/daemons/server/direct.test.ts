import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createPerson, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import { Browser, CLIENT, startIdentityProvider } from '@ropewalk/testkit/identity-provider';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { invoke } from '../../../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('sets a password in the database of a running server, which ends the sessions', async () => {
  const { id, token } = await createPerson(server, 'lost');
  const { sql, config } = server.services;
  const reset = (name: string, password: string) =>
    invoke(['reset-password', name], { CODER_PG_CONNECTION_URL: config.postgresUrl }, `${password}\n`);
  const done = await reset('LOST', 'a better password');
  assert.deepEqual([done.code, done.stderr], [0, '']);
  assert.equal((await server.api('GET', '/users/me', { token })).status, 401);
  await logIn(server, 'lost@example.com', 'a better password');
  await sql`UPDATE users SET login_type = 'oidc', hashed_password = '' WHERE id = ${id}`;
  assert.match((await reset('lost', 'another password')).stdout, /instead of "oidc"/);
  await logIn(server, 'lost@example.com', 'another password');
  for (const [name, password, message] of [
    ['nobody', 'another password', /User "nobody" not found/],
    ['lost', 'short', /not strong enough/],
    ['lost', '', /No password was given/],
  ] as const) {
    const failed = await reset(name, password);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, message);
  }
});

test('migrates an empty database, and leaves a current one as it is', async () => {
  const empty = await freshDatabase();
  try {
    for (const attempt of ['empty', 'current']) {
      const { code, stderr } = await invoke(['server', 'migrate'], { CODER_PG_CONNECTION_URL: empty.url });
      assert.deepEqual([code, stderr], [0, ''], attempt);
    }
    const made = await invoke(['server', 'create-admin-user', '--username', 'late', '--email', 'late@example.com'], {
      CODER_PG_CONNECTION_URL: empty.url,
      CODER_PASSWORD: 'root correct horse',
    });
    assert.equal(made.code, 0, made.stderr);
  } finally {
    await empty.drop();
  }
  const failed = await invoke(['server', 'migrate'], { CODER_PG_CONNECTION_URL: 'postgres://127.0.0.1:1/none' });
  assert.equal(failed.code, 1);
});

test('creates an owner in the database, also in an empty one', async () => {
  const create = (url: string, name: string) =>
    invoke(
      ['server', 'create-admin-user', '--username', name, '--email', `${name}@example.com`, '--postgres-url', url],
      { CODER_PASSWORD: 'root correct horse' },
    );
  const { postgresUrl } = server.services.config;
  const made = await create(postgresUrl, 'root');
  assert.deepEqual([made.code, made.stderr], [0, '']);
  const token = await logIn(server, 'root@example.com', 'root correct horse');
  const roles = await server.api('GET', '/users/root/roles', { token });
  const [organization] = (await server.api<{ id: string }[]>('GET', '/organizations')).body;
  assert.deepEqual(roles.body, {
    roles: ['owner'],
    organization_roles: { [organization!.id]: ['organization-admin'] },
  });
  assert.match((await create(postgresUrl, 'root')).stderr, /already exists/);
  const empty = await freshDatabase();
  try {
    assert.equal((await create(empty.url, 'first')).code, 0);
  } finally {
    await empty.drop();
  }
});

test('replaces the key pair for web push, which ends all subscriptions', async () => {
  const { sql, config } = server.services;
  const { id } = await createPerson(server, 'pushed');
  await sql`INSERT INTO webpush_subscriptions (user_id, endpoint, p256dh_key, auth_key)
    VALUES (${id}, 'https://push.example.com/1', '', '')`;
  const stored = async () => (await sql`SELECT value FROM site_config WHERE key = 'vapid_keys'`)[0]!['value'] as string;
  const before = await stored();
  const renew = (...args: string[]) =>
    invoke(['server', 'regenerate-vapid-keypair', ...args], { CODER_PG_CONNECTION_URL: config.postgresUrl });
  assert.match((await renew()).stderr, /Cannot ask without a terminal/);
  assert.equal(await stored(), before);
  const done = await renew('--yes');
  assert.deepEqual([done.code, done.stderr], [0, '']);
  assert.match(done.stdout, /Ended subscriptions: 1\. Restart the servers\./);
  const after = JSON.parse(await stored()) as { publicKey: string };
  assert.notEqual(after.publicKey, JSON.parse(before).publicKey);
  assert.equal(Buffer.from(after.publicKey, 'base64url').length, 65);
  assert.equal((await sql`SELECT 1 FROM webpush_subscriptions`).length, 0);
});

test('resets links to a former identity provider, whose people can then sign in at the new one', async (t) => {
  const idp = await startIdentityProvider();
  const own = await startTestServer({
    env: {
      CODER_OIDC_ISSUER_URL: idp.url,
      CODER_OIDC_CLIENT_ID: CLIENT.id,
      CODER_OIDC_CLIENT_SECRET: CLIENT.secret,
      CODER_OIDC_AUTH_URL_PARAMS: '{"prompt":"login"}',
    },
  });
  t.after(async () => {
    await own.stop();
    await idp.stop();
  });
  const { sql, config } = own.services;
  const signIn = async (sub: string) => {
    idp.people.set(sub, { email: `${sub}@example.com`, email_verified: true, preferred_username: sub });
    idp.next = sub;
    const browser = new Browser();
    const callback = '/api/v2/users/oidc/callback';
    await browser.open(`${own.url}${callback}`, (url) => url.startsWith(own.url) && !url.includes(callback));
    return browser.cookie(own.url, 'coder_session_token');
  };
  assert.ok(await signIn('ann'));
  assert.ok(await signIn('ben'));
  await sql`UPDATE user_links SET linked_id = 'https://old.example.com||' || user_id
    WHERE user_id = (SELECT id FROM users WHERE username = 'ann')`;
  assert.equal(await signIn('ann'), undefined);
  const fix = (...args: string[]) =>
    invoke(['server', 'fix-oidc-links', ...args], { CODER_PG_CONNECTION_URL: config.postgresUrl });
  const links = async () => (await sql`SELECT linked_id FROM user_links`).length;
  const by = ['--issuer-url', `${idp.url}/`];

  const dry = await fix(...by, '-n');
  assert.deepEqual([dry.code, dry.stderr], [0, '']);
  assert.match(dry.stdout, /^ISSUER +ACCOUNTS +LINK\n/);
  assert.match(dry.stdout, /^https:\/\/old\.example\.com +1 +is reset$/m);
  assert.match(dry.stdout, new RegExp(`^${idp.url} +1 +stays$`, 'm'));
  assert.match((await fix(...by)).stderr, /Cannot ask without a terminal/);
  assert.equal(await links(), 2);
  const done = await fix(...by, '--yes');
  assert.match(done.stdout, /^Reset links: 1\.$/m, done.stderr);
  assert.equal(await links(), 1);
  assert.ok(await signIn('ann'));
  assert.match((await fix(...by, '--yes')).stdout, /^All links are to identities of http/m);
  assert.match((await fix('--force-reset-all', '--yes')).stdout, /^Reset links: 2\.$/m);
  for (const [args, message] of [
    [[], /Set --issuer-url/],
    [['--force-reset-all', ...by], /cannot be used with --issuer-url/],
    [['--issuer-url', `${own.url}/api/v2`], /could not be used: .* answered with status 404/],
  ] as const) {
    const failed = await fix(...args);
    assert.deepEqual([failed.code, failed.stdout], [1, '']);
    assert.match(failed.stderr, message);
  }
});
