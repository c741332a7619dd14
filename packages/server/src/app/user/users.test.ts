import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AssignableRoles, GetUsersResponse, Response, User, UserPreferenceSettings } from '@ropewalk/contract';
import { ADMIN, createPerson, createTestTemplate, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';

let server: TestServer;
let admin: User;
before(async () => {
  server = await startTestServer();
  admin = (await server.api<User>('GET', '/users/me')).body;
});
after(() => server.stop());

const names = (body: GetUsersResponse) => body.users.map(({ username }) => username);
const list = async (query: string, token?: string) =>
  (await server.api<GetUsersResponse>('GET', `/users${query}`, token ? { token } : {})).body;

test('lists people by name, searches, filters and pages them', async () => {
  await createPerson(server, 'lena');
  await createPerson(server, 'Mika', ['auditor']);
  const dormant = await server.api<User>('POST', '/users', {
    body: { username: 'nora', email: 'nora@other.org', login_type: 'none', name: 'Nora 100% Olsen' },
  });
  assert.equal(dormant.status, 201);
  assert.equal(dormant.body.status, 'dormant');
  assert.equal(dormant.body.organization_ids.length, 1);

  const all = await list('');
  assert.deepEqual(names(all), ['admin', 'lena', 'Mika', 'nora']);
  assert.equal(all.count, 4);
  const page = await list('?limit=2&offset=1');
  assert.deepEqual([names(page), page.count], [['lena', 'Mika'], 4]);
  assert.deepEqual(names(await list(`?after_id=${all.users[1]!.id}`)), ['Mika', 'nora']);
  assert.deepEqual(names(await list('?q=status:dormant')), ['nora']);
  assert.deepEqual(names(await list('?q=role:auditor,owner')), ['admin', 'Mika']);
  assert.deepEqual(names(await list('?q=other.org')), ['nora']);
  assert.deepEqual(names(await list(`?q=${encodeURIComponent('search:"100% O"')}`)), ['nora']);
  assert.deepEqual(names(await list(`?q=${encodeURIComponent('search:%')}`)), ['nora']);
  assert.deepEqual(names(await list('?q=last_seen_before:2001-01-01T00:00:00Z')), []);
  for (const query of ['?q=colour:red', '?q=status:asleep', '?q=last_seen_after:soon', '?after_id=x', '?limit=-1']) {
    assert.equal((await server.api('GET', `/users${query}`)).status, 400, query);
  }
  const lena = await logIn(server, 'lena@example.com', 'lena correct horse');
  assert.deepEqual(names(await list('', lena)), ['lena']);
  assert.equal((await server.api('GET', '/users/nora', { token: lena })).status, 404);
});

test('keeps names and addresses unique in any case, and checks them', async () => {
  const body = { username: 'otto', email: 'otto@example.com', password: 'otto correct horse' };
  assert.equal((await server.api('POST', '/users', { body })).status, 201);
  for (const [change, status, field] of [
    [{ username: 'OTTO', email: 'o2@example.com' }, 409, 'username'],
    [{ username: 'otto2', email: 'Otto@Example.com' }, 409, 'email'],
    [{ username: 'o tto', email: 'o3@example.com' }, 400, 'username'],
    [{ username: 'otto4', email: 'nowhere' }, 400, 'email'],
    [{ username: 'otto5', email: 'o5@example.com', password: 'short' }, 400, 'password'],
    [{ username: 'otto6', email: 'o6@example.com', login_type: 'none' }, 400, 'password'],
    [{ username: 'otto7', email: 'o7@example.com', login_type: 'oidc' }, 400, 'login_type'],
  ] as const) {
    const answer = await server.api<Response>('POST', '/users', { body: { ...body, ...change } });
    assert.equal(answer.status, status, JSON.stringify(answer.body));
    assert.equal(answer.body.validations?.[0]?.field, field);
  }
});

test('rejects roles above the giver’s own, and changes to accounts with such a role', async () => {
  const manager = await createPerson(server, 'manager', ['user-admin']);
  const { token } = manager;
  const rolesOf = async (as?: string) =>
    (await server.api<AssignableRoles[]>('GET', '/users/roles', as ? { token: as } : {})).body
      .filter(({ assignable }) => assignable)
      .map(({ name }) => name);
  assert.deepEqual(await rolesOf(), ['owner', 'user-admin', 'template-admin', 'auditor']);
  assert.deepEqual(await rolesOf(token), []);
  const pat = await createPerson(server, 'pat');
  assert.deepEqual(await rolesOf(pat.token), []);

  const put = (who: string, path: string, body: unknown, as = token) =>
    server.api<Response>('PUT', `/users/${who}${path}`, { token: as, body });
  assert.equal((await put('pat', '/roles', { roles: ['owner'] })).status, 403);
  assert.equal((await put('pat', '/roles', { roles: ['template-admin'] })).status, 403);
  assert.equal((await put('pat', '/roles', { roles: ['emperor'] })).status, 400);
  assert.equal((await put('pat', '/roles', { roles: ['user-admin', 'member'] })).status, 403);
  assert.equal((await put('pat', '/roles', { roles: ['member'] })).status, 200);
  assert.equal((await put('pat', '/roles', { roles: [] })).status, 200);
  assert.equal((await put('manager', '/roles', { roles: [] })).status, 400);
  assert.equal((await put('pat', '/roles', { roles: ['owner'] }, pat.token)).status, 403);
  assert.equal((await put('admin', '/roles', { roles: [] })).status, 403);
  assert.equal((await put('admin', '/password', { password: 'quite another one' })).status, 403);
  assert.equal((await put('admin', '/status/suspend', undefined)).status, 403);
  assert.equal((await put('admin', '/profile', { username: 'deposed' })).status, 403);
  assert.equal((await server.api('DELETE', '/users/admin', { token })).status, 403);
  assert.equal((await server.api('POST', '/users/admin/keys', { token })).status, 403);
  const roles = await server.api<{ roles: string[] }>('GET', '/users/manager/roles');
  assert.deepEqual(roles.body.roles, ['user-admin']);
});

test('keeps the last owner, also when two owners demote each other', async () => {
  assert.equal((await server.api('PUT', '/users/me/status/suspend')).status, 400);
  assert.equal((await server.api('DELETE', '/users/me')).status, 403);
  const second = await createPerson(server, 'second', ['owner']);
  const answers = await Promise.all([
    server.api('PUT', `/users/${second.id}/roles`, { body: { roles: [] } }),
    server.api('PUT', `/users/${admin.id}/roles`, { token: second.token, body: { roles: [] } }),
  ]);
  const statuses = answers.map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 200).length, 1, statuses.join());
  const [owners] = await server.services.sql<{ count: number }[]>`
    SELECT count(*) AS count FROM users WHERE 'owner' = ANY (rbac_roles)`;
  assert.equal(owners!.count, 1);
  // the rest of this file works as admin
  await server.services.sql`UPDATE users SET rbac_roles = '{owner}' WHERE id = ${admin.id}`;
  await server.services.events.publish(server.services.sql, 'revoked', { user_ids: [admin.id] });
  const deadline = Date.now() + 30_000;
  while ((await list('')).count < 2 && Date.now() < deadline);
});

async function refused(token: string): Promise<void> {
  const deadline = Date.now() + 30_000;
  let status = 0;
  while (status !== 401 && Date.now() < deadline) ({ status } = await server.api('GET', '/users/me', { token }));
  assert.equal(status, 401);
}

test('rejects a suspended person within seconds, and accepts them again once activated', async () => {
  const rita = await createPerson(server, 'rita');
  const suspended = await server.api<User>('PUT', '/users/rita/status/suspend');
  assert.equal(suspended.body.status, 'suspended');
  await refused(rita.token);
  const login = { token: null, body: { email: 'rita@example.com', password: 'rita correct horse' } };
  const answer = await server.api<Response>('POST', '/users/login', login);
  assert.equal(answer.status, 401);
  assert.match(answer.body.message, /suspended/);
  assert.equal((await server.api('PUT', '/users/rita/status/activate')).status, 200);
  assert.equal((await server.api('POST', '/users/login', login)).status, 201);
});

test('requires the old password for a new one, and ends the other sessions', async () => {
  const sam = await createPerson(server, 'sam');
  const other = await logIn(server, 'sam@example.com', 'sam correct horse');
  const put = (body: unknown) => server.api<Response>('PUT', '/users/me/password', { token: sam.token, body });
  assert.equal((await put({ password: 'a better password' })).status, 400);
  assert.equal((await put({ password: 'a better password', old_password: 'a guess' })).status, 400);
  assert.equal((await put({ password: 'sam correct horse', old_password: 'sam correct horse' })).status, 400);
  assert.equal((await put({ password: 'aaaaaaaaaaaa', old_password: 'sam correct horse' })).status, 400);
  const better = { password: 'a better password', old_password: 'sam correct horse' };
  // the form of upstream's dashboard sends the new password twice
  const typo = await put({ ...better, confirm_password: 'a better passwort' });
  assert.deepEqual([typo.status, typo.body.validations?.[0]?.field], [400, 'confirm_password']);
  assert.equal((await put({ ...better, confirm_password: better.password })).status, 204);
  await refused(other);
  assert.equal((await server.api('GET', '/users/me', { token: sam.token })).status, 200);
  await logIn(server, 'sam@example.com', 'a better password');
});

test('deletes a person and frees the name', async () => {
  const tess = await createPerson(server, 'tess');
  const { sql } = server.services;
  assert.equal((await server.api('DELETE', '/users/tess')).status, 200);
  await refused(tess.token);
  assert.equal((await server.api('GET', `/users/${tess.id}`)).status, 404);
  const again = await createPerson(server, 'tess');
  assert.notEqual(again.id, tess.id);
  const [entry] = await sql<{ action: string }[]>`
    SELECT action FROM audit_logs WHERE resource_id = ${tess.id} ORDER BY time DESC LIMIT 1`;
  assert.equal(entry!.action, 'delete');
});

test('rejects deleting a person with workspaces', async () => {
  const template = await createTestTemplate(server, 'common');
  const vera = await createPerson(server, 'vera');
  const body = { name: 'work', template_id: template.id };
  assert.equal((await server.api('POST', '/users/me/workspaces', { token: vera.token, body })).status, 201);
  const refusedToo = await server.api<Response>('DELETE', '/users/vera');
  assert.equal(refusedToo.status, 409);
  assert.match(refusedToo.body.message, /workspaces/);
  assert.equal((await server.api('GET', '/users/me', { token: vera.token })).status, 200);
});

test('lets people read and change only their own personal data', async () => {
  const uma = await createPerson(server, 'uma');
  const eve = await createPerson(server, 'eve');
  const as = { token: uma.token };
  const profile = await server.api<User>('PUT', '/users/me/profile', {
    ...as,
    body: { username: 'uma2', name: 'Uma Ek' },
  });
  assert.deepEqual([profile.status, profile.body.username, profile.body.name], [200, 'uma2', 'Uma Ek']);
  // immediately, although the session was cached
  assert.equal((await server.api<User>('GET', '/users/me', as)).body.username, 'uma2');
  const picture = async (avatar_url?: string) => {
    const body = { username: 'uma2', name: 'Uma Ek', ...(avatar_url === undefined ? {} : { avatar_url }) };
    const { status } = await server.api('PUT', '/users/me/profile', { ...as, body });
    return [status, (await server.api<User>('GET', '/users/me', as)).body.avatar_url];
  };
  assert.deepEqual(await picture('/emojis/1f600.png'), [200, '/emojis/1f600.png']);
  assert.deepEqual(await picture(), [200, '/emojis/1f600.png']);
  assert.deepEqual(await picture('javascript:alert(1)'), [400, '/emojis/1f600.png']);
  // a provider sends the picture of others
  await server.services.sql`UPDATE users SET login_type = 'oidc' WHERE id = ${uma.id}`;
  assert.deepEqual(await picture('https://example.com/a.png'), [200, '/emojis/1f600.png']);
  await server.services.sql`UPDATE users SET login_type = 'password' WHERE id = ${uma.id}`;
  assert.deepEqual(await picture(''), [200, '']);
  assert.equal((await server.api('PUT', '/users/me/profile', { ...as, body: { username: 'EVE' } })).status, 409);
  // a font of upstream's dashboard since 2.32
  const looks = { theme_preference: 'dark', terminal_font: 'geist-mono' };
  assert.equal((await server.api('PUT', '/users/me/appearance', { ...as, body: looks })).status, 200);
  const unset = { theme_mode: '', theme_light: '', theme_dark: '' };
  assert.deepEqual((await server.api('GET', '/users/me/appearance', as)).body, { ...looks, ...unset });
  assert.equal((await server.api<User>('GET', '/users/me', as)).body.theme_preference, 'dark');
  assert.equal(
    (await server.api('PUT', '/users/me/appearance', { ...as, body: { ...looks, terminal_font: 'comic' } })).status,
    400,
  );
  assert.deepEqual((await server.api('GET', '/users/me/login-type', as)).body, { login_type: 'password' });
  const key = await server.api<{ public_key: string }>('GET', '/users/me/gitsshkey', as);
  assert.match(key.body.public_key, /^ssh-ed25519 [A-Za-z0-9+/=]+\n$/);
  assert.deepEqual((await server.api('GET', '/users/me/gitsshkey', as)).body, key.body);
  const renewed = await server.api<{ public_key: string }>('PUT', '/users/me/gitsshkey', as);
  assert.notEqual(renewed.body.public_key, key.body.public_key);
  for (const path of [
    '',
    '/appearance',
    '/preferences',
    '/login-type',
    '/gitsshkey',
    '/quiet-hours',
    '/roles',
    '/keys/tokens',
  ]) {
    assert.equal((await server.api('GET', `/users/uma2${path}`, { token: eve.token })).status, 404, path);
  }
});

test('keeps what a person chose about the display', async () => {
  const { token } = await createPerson(server, 'pam');
  const preferences = async (body?: object) =>
    (await server.api<UserPreferenceSettings>(body ? 'PUT' : 'GET', '/users/me/preferences', { token, body })).body;
  const first: UserPreferenceSettings = {
    task_notification_alert_dismissed: false,
    thinking_display_mode: 'auto',
    shell_tool_display_mode: 'always_collapsed',
    code_diff_display_mode: '',
    agent_chat_send_shortcut: 'enter',
  };
  assert.deepEqual(await preferences(), first);
  const second = { ...first, task_notification_alert_dismissed: true };
  assert.deepEqual(await preferences({ task_notification_alert_dismissed: true, toString: 'x' }), second);
  const third = { ...second, thinking_display_mode: 'preview', code_diff_display_mode: 'always_expanded' };
  assert.deepEqual(
    await preferences({ thinking_display_mode: 'preview', code_diff_display_mode: 'always_expanded' }),
    third,
  );
  assert.deepEqual(await preferences(), third);
  const wrong = { token, body: { thinking_display_mode: 'loud' } };
  assert.equal((await server.api('PUT', '/users/me/preferences', wrong)).status, 400);
  assert.equal((await server.api('PUT', '/users/admin/preferences', { token, body: {} })).status, 404);
});

test('rejects names that routes and searches use for something else', async () => {
  for (const username of ['me', 'ME', 'new', 'create']) {
    const body = { username, email: `${username}@example.com`, password: ADMIN.password, organization_ids: [] };
    const { status, body: refused } = await server.api<Response>('POST', '/users', { body });
    assert.deepEqual([status, refused.validations?.[0]?.field], [400, 'username'], username);
  }
  const renamed = await server.api('PUT', '/users/me/profile', { body: { username: 'me', name: '' } });
  assert.equal(renamed.status, 400);
});

test('uses the installation’s quiet hours until a person sets their own', async () => {
  interface Hours {
    raw_schedule: string;
    user_set: boolean;
    time: string;
    timezone: string;
    next: string;
  }
  const first = await server.api<Hours>('GET', '/users/me/quiet-hours');
  assert.deepEqual([first.body.user_set, first.body.time, first.body.timezone], [false, '00:00', 'UTC']);
  const schedule = 'CRON_TZ=Europe/Oslo 30 2 * * *';
  const set = await server.api<Hours>('PUT', '/users/me/quiet-hours', { body: { schedule } });
  assert.deepEqual([set.body.user_set, set.body.time, set.body.raw_schedule], [true, '02:30', schedule]);
  const wait = Date.parse(set.body.next) - Date.now();
  assert.ok(wait > 0 && wait <= 25 * 3_600_000, String(wait));
  for (const bad of ['30 2 * * 1', '61 2 * * *', 'CRON_TZ=Mars/Base 0 0 * * *', 'soon']) {
    assert.equal((await server.api('PUT', '/users/me/quiet-hours', { body: { schedule: bad } })).status, 400, bad);
  }
});

test('returns the rules for a password before it is sent', async () => {
  const ask = (password: string) =>
    server.api<{ valid: boolean }>('POST', '/users/validate-password', { token: null, body: { password } });
  assert.equal((await ask(ADMIN.password)).body.valid, true);
  assert.equal((await ask('1234')).body.valid, false);
  const methods = await server.api<{ password: { enabled: boolean } }>('GET', '/users/authmethods', { token: null });
  assert.equal(methods.body.password.enabled, true);
});

test('creates service accounts, which have a token and roles, and no way to sign in', async () => {
  const create = (body: object, token?: string) =>
    server.api<User & Response>('POST', '/users', {
      body: { username: 'robot', service_account: true, ...body },
      ...(token ? { token } : {}),
    });
  for (const [wrong, field] of [
    [{ email: 'robot@example.com' }, 'email'],
    [{ password: 'a long enough one' }, 'password'],
    [{ login_type: 'password' }, 'login_type'],
    [{ roles: ['no such role'] }, 'roles'],
  ] as const) {
    const { status, body } = await create(wrong);
    assert.deepEqual([status, body.validations?.map((one) => one.field)], [400, [field]], JSON.stringify(wrong));
  }
  const { status, body: robot } = await create({ login_type: 'none', roles: ['auditor'] });
  assert.equal(status, 201, JSON.stringify(robot));
  assert.deepEqual(
    [robot.email, robot.login_type, robot.is_service_account, robot.roles.map(({ name }) => name)],
    ['', 'none', true, ['auditor']],
  );
  // several have no address
  assert.equal((await create({ username: 'robot2' })).status, 201);
  assert.deepEqual(names(await list('?q=service_account:true')), ['robot', 'robot2']);
  assert.ok(!names(await list('?q=service_account:false')).includes('robot'));

  const made = await server.api<{ key: string }>('POST', '/users/robot/keys/tokens', { body: { token_name: 'ci' } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const self = await server.api<User>('GET', '/users/me', { token: made.body.key });
  assert.deepEqual([self.status, self.body.username], [200, 'robot']);
  const signIn = await server.api('POST', '/users/login', { token: null, body: { email: '', password: '' } });
  assert.ok([400, 401].includes(signIn.status), `${signIn.status}`);
  const convert = await server.api<Response>('POST', '/users/robot/convert-login', {
    body: { to_type: 'password', password: 'robot correct horse' },
  });
  assert.equal(convert.status, 400, JSON.stringify(convert.body));

  // nobody gives a new account a role that they may not assign
  const keeper = await createPerson(server, 'keeper', ['user-admin']);
  const above = await create({ username: 'robot3', roles: ['owner'] }, keeper.token);
  assert.equal(above.status, 403, JSON.stringify(above.body));
  assert.equal((await create({ username: 'robot3', roles: ['member'] }, keeper.token)).status, 201);
});
