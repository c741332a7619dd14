import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Group, GroupSyncSettings, Organization, RoleSyncSettings, User } from '@ropewalk/contract';
import { createPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { Browser, CLIENT, type IdentityProvider, startIdentityProvider } from '@ropewalk/testkit/identity-provider';
import { refreshLinks } from '../../background/refresh-sign-ins.ts';
import { createOidc } from './oidc.ts';

let idp: IdentityProvider;
let server: TestServer;
let second: Organization;
let main: Organization;

before(async () => {
  idp = await startIdentityProvider();
  server = await startTestServer({
    env: {
      CODER_OIDC_ISSUER_URL: idp.url,
      CODER_OIDC_CLIENT_ID: CLIENT.id,
      CODER_OIDC_CLIENT_SECRET: CLIENT.secret,
      CODER_OIDC_AUTH_URL_PARAMS: '{"prompt":"login"}',
      CODER_OIDC_GROUP_FIELD: 'groups',
      CODER_OIDC_GROUP_MAPPING: '{"acme-engineers":"engineers"}',
      CODER_OIDC_GROUP_AUTO_CREATE: 'true',
      CODER_OIDC_GROUP_REGEX_FILTER: '^(eng|ops|constructor|function)',
      CODER_OIDC_ALLOWED_GROUPS: 'acme-engineers,ops',
      CODER_OIDC_USER_ROLE_FIELD: 'roles',
      CODER_OIDC_USER_ROLE_MAPPING: '{"boss":["owner"],"reader":"auditor"}',
      CODER_OIDC_USER_ROLE_DEFAULT: 'template-admin',
      CODER_MAX_GROUPS_PER_ORGANIZATION: '100',
    },
  });
  second = (await server.api<Organization>('POST', '/organizations', { body: { name: 'second' } })).body;
  main = (await server.api<Organization>('GET', '/organizations/default')).body;
});
after(async () => {
  await server.stop();
  await idp.stop();
});

const claims = { email_verified: true, groups: ['ops'] };

async function signIn(sub: string, more: Record<string, unknown>): Promise<{ user: User; token: string }> {
  idp.people.set(sub, { email: `${sub}@example.com`, preferred_username: sub, ...claims, ...more });
  idp.next = sub;
  const browser = new Browser();
  await browser.open(
    `${server.url}/api/v2/users/oidc/callback`,
    (url) => url.startsWith(server.url) && !url.includes('/callback'),
  );
  const token = browser.cookie(server.url, 'coder_session_token');
  assert.ok(token, browser.cookie(server.url, 'coder_sign_in_error') ?? '');
  return { token, user: (await server.api<User>('GET', '/users/me', { token })).body };
}
const groupsOf = async (user: User, organization = main) =>
  (await server.api<Group[]>('GET', `/groups?organization=${organization.id}&has_member=${user.id}`)).body
    .map(({ name }) => name)
    .filter((name) => name !== 'Everyone')
    .sort();
const names = (user: User) => user.roles.map(({ name }) => name).sort();

test('gives groups and site roles by the options', async () => {
  const { user } = await signIn('ada', {
    groups: ['acme-engineers', 'ops', 'finance', 'eng bad name!', 'Everyone', 'constructor', '__proto__'],
    roles: ['reader', 'nonsense', 'constructor'],
  });
  assert.deepEqual(await groupsOf(user), ['constructor', 'engineers', 'ops']);
  const groups = await server.api<Group[]>('GET', `/groups?organization=${main.id}`);
  assert.equal(groups.body.find(({ name }) => name === 'engineers')!.source, 'oidc');
  assert.deepEqual(names(user), ['auditor', 'template-admin']);
  // what the claims no longer name is removed
  const again = await signIn('ada', { groups: 'acme-engineers', roles: [] });
  assert.deepEqual(await groupsOf(again.user), ['engineers']);
  assert.deepEqual(names(again.user), ['template-admin']);
  const rejected = await signIn('eve', { groups: ['finance'] }).catch((err: Error) => err);
  assert.match(decodeURIComponent((rejected as Error).message), /group that may sign in/);
});

test('syncs organizations, groups and roles by settings, and ignores what was deleted', async () => {
  const gone = await server.api<Organization>('POST', '/organizations', { body: { name: 'gone' } });
  const organizations = await server.api('PATCH', '/settings/idpsync/organization', {
    body: { field: 'organizations', mapping: { blue: [second.id, gone.body.id] }, organization_assign_default: true },
  });
  assert.equal(organizations.status, 200, JSON.stringify(organizations.body));
  assert.equal((await server.api('DELETE', `/organizations/${gone.body.id}`)).status, 200);
  const at = `/organizations/${second.id}/settings/idpsync`;
  const made = await server.api<Group>('POST', `/organizations/${second.id}/groups`, { body: { name: 'pilots' } });
  const lost = await server.api<Group>('POST', `/organizations/${second.id}/groups`, { body: { name: 'lost' } });
  const config = await server.api('PATCH', `${at}/groups/config`, {
    body: { field: 'groups', regex_filter: '^o', auto_create_missing_groups: false },
  });
  assert.equal(config.status, 200);
  // upstream's command writes the names of Go's fields, and its document names them in lower case
  for (const mapping of [
    { Add: [{ Given: 'ops', Gets: made.body.id }], Remove: null },
    { add: [{ given: 'ops', gets: lost.body.id }], remove: [{ given: 'x', gets: 'y' }] },
  ]) {
    assert.equal((await server.api('PATCH', `${at}/groups/mapping`, { body: mapping })).status, 200);
  }
  assert.equal((await server.api('DELETE', `/groups/${lost.body.id}`)).status, 200);
  const roles = { field: 'roles', mapping: { lead: ['organization-admin', 'no-such-role'] } };
  assert.deepEqual((await server.api<RoleSyncSettings>('PATCH', `${at}/roles`, { body: roles })).body, roles);
  const read = await server.api<GroupSyncSettings>('GET', `${at}/groups`);
  assert.deepEqual(read.body, {
    field: 'groups',
    mapping: { ops: [made.body.id, lost.body.id] },
    regex_filter: '^o',
    auto_create_missing_groups: false,
  });

  const { user } = await signIn('bea', { organizations: ['blue', 'red'], roles: ['lead'] });
  assert.deepEqual(user.organization_ids.sort(), [main.id, second.id].sort());
  assert.deepEqual(await groupsOf(user, second), ['pilots']);
  const member = await server.api<{ roles: { name: string }[]; user_id: string }[]>(
    'GET',
    `/organizations/${second.id}/members`,
  );
  const mine = member.body.find(({ user_id }) => user_id === user.id)!;
  assert.deepEqual(
    mine.roles.map(({ name }) => name),
    ['organization-admin'],
  );

  const fields = await server.api<string[]>('GET', '/settings/idpsync/available-fields');
  assert.ok(fields.body.includes('groups') && fields.body.includes('email'));
  const values = await server.api<string[]>('GET', '/settings/idpsync/field-values?claimField=organizations');
  assert.deepEqual(values.body, ['blue', 'red']);
  const local = await server.api<string[]>('GET', `${at}/field-values?claimField=roles`);
  assert.deepEqual(local.body, ['lead']);

  // a refresh applies new claims, and its audit entry says what changed
  idp.people.set('bea', { ...idp.people.get('bea'), organizations: [] });
  await server.services.sql`UPDATE user_links SET expires_at = now() WHERE user_id = ${user.id}`;
  const stopped = new AbortController();
  await refreshLinks(server.services, { oidc: createOidc(server.services, stopped.signal) });
  stopped.abort();
  const moved = await server.api<User>('GET', `/users/${user.id}`);
  assert.deepEqual(moved.body.organization_ids, [main.id]);
  const [entry] = await server.services.sql<{ additional_fields: object }[]>`SELECT additional_fields FROM audit_logs
    WHERE resource_id = ${user.id} AND additional_fields ? 'identity_sync' ORDER BY time DESC LIMIT 1`;
  assert.deepEqual(entry!.additional_fields, { identity_sync: { organizations_removed: ['second'] } });
  const off = { field: '', assign_default: true };
  assert.equal((await server.api('PATCH', '/settings/idpsync/organization/config', { body: off })).status, 200);
});

test('keeps the last owner an owner', async () => {
  const { sql } = server.services;
  const { user } = await signIn('olga', { roles: ['boss'] });
  assert.ok(names(user).includes('owner'));
  await sql`UPDATE users SET status = 'suspended' WHERE username = 'admin'`;
  assert.ok(names((await signIn('olga', { roles: [] })).user).includes('owner'));
  await sql`UPDATE users SET status = 'active' WHERE username = 'admin'`;
  assert.ok(!names((await signIn('olga', { roles: [] })).user).includes('owner'));
});

test('rejects invalid settings, and shows settings to administrators only', async () => {
  const at = `/organizations/${second.id}/settings/idpsync`;
  const patch = async (path: string, body: object) => (await server.api('PATCH', path, { body })).status;
  assert.equal(await patch(`${at}/groups`, { field: 'groups', regex_filter: '(' }), 400);
  // the server would take a second for each claim of each sign-in
  for (const filter of ['\\pL'.repeat(3_000), '\\pL'.repeat(340), '(?:[[:^alpha:]]{100}){9}[a-z]{900}'])
    assert.equal(await patch(`${at}/groups`, { field: 'groups', regex_filter: filter }), 400, filter.slice(0, 20));
  assert.equal(await patch(`${at}/groups`, { field: 'groups', mapping: { a: ['not an id'] } }), 400);
  assert.equal(await patch(`${at}/groups/mapping`, { add: [{ given: 'a' }] }), 400);
  assert.equal((await server.api('GET', `${at}/field-values`)).status, 400);
  const member = await createPerson(server, 'plain');
  for (const path of [`${at}/groups`, '/settings/idpsync/organization', '/settings/idpsync/available-fields']) {
    assert.equal((await server.api('GET', path, { token: member.token })).status, 404, path);
  }
  const [entry] = await server.services.sql<{ diff: Record<string, unknown> }[]>`SELECT diff FROM audit_logs
    WHERE resource_type = 'idp_sync_settings_role' ORDER BY time DESC LIMIT 1`;
  assert.deepEqual(Object.keys(entry!.diff).sort(), ['field', 'mapping']);
  const odd = { field: 'roles', mapping: { constructor: ['organization-auditor'] } };
  assert.equal((await server.api('PATCH', `${at}/roles`, { body: odd })).status, 200);
});

test('rejects a mapping to a role above the giver’s before any claim is set', async () => {
  const at = `/organizations/${second.id}/settings/idpsync/roles`;
  await server.api('PATCH', at, { body: { field: '', mapping: {} } });
  const planter = await createPerson(server, 'planter');
  await server.api('POST', `/organizations/${second.id}/members/planter`);
  const custom = {
    name: 'sync-editor',
    organization_permissions: ['read', 'update'].map((action) => ({
      action,
      negate: false,
      resource_type: 'idpsync_settings',
    })),
  };
  assert.equal((await server.api('POST', `/organizations/${second.id}/members/roles`, { body: custom })).status, 200);
  const roles = { roles: ['sync-editor'] };
  assert.equal(
    (await server.api('PUT', `/organizations/${second.id}/members/planter/roles`, { body: roles })).status,
    200,
  );
  const as = { token: planter.token };
  const plant = (body: object) => server.api<{ detail: string }>('PATCH', at, { ...as, body });
  const whole = await plant({ field: '', mapping: { planter: ['organization-admin'] } });
  assert.deepEqual([whole.status, whole.body.detail?.includes('"organization-admin"')], [403, true]);
  const added = { add: [{ given: 'planter', gets: 'organization-admin' }] };
  assert.equal((await server.api('PATCH', `${at}/mapping`, { ...as, body: added })).status, 403);
  assert.deepEqual((await server.api<RoleSyncSettings>('GET', at)).body.mapping, {});
});

test('many changes of a mapping cannot make it larger than one request may', async () => {
  const at = `/organizations/${second.id}/settings/idpsync/groups`;
  const add = async (given: (n: number) => string, gets: () => string, count: number) =>
    (
      await server.api('PATCH', `${at}/mapping`, {
        body: { add: Array.from({ length: count }, (_, n) => ({ given: given(n), gets: gets() })) },
      })
    ).status;
  const stored = async () => (await server.api<GroupSyncSettings>('GET', at)).body.mapping;
  await server.api('PATCH', at, { body: { field: '', mapping: {} } });
  const group = crypto.randomUUID();
  assert.equal(await add(String, () => group, 10_000), 200);
  assert.equal(
    await add(
      () => 'one more',
      () => group,
      1,
    ),
    400,
  );
  assert.equal(Object.keys(await stored()).length, 10_000);
  await server.api('PATCH', at, { body: { field: '', mapping: {} } });
  assert.equal(
    await add(
      () => 'all',
      () => crypto.randomUUID(),
      1_000,
    ),
    200,
  );
  assert.equal(
    await add(
      () => 'all',
      () => crypto.randomUUID(),
      1,
    ),
    400,
  );
  await server.api('PATCH', at, { body: { field: '', mapping: {} } });
});

test('a sign-in leaves out groups beyond the limit of its organization', async () => {
  const { sql } = server.services;
  await sql`INSERT INTO groups (organization_id, name, display_name, avatar_url, quota_allowance, source)
    SELECT ${main.id}, 'filler' || n, '', '', 0, 'user' FROM generate_series(1, 99 - (
      SELECT count(*) FROM groups WHERE organization_id = ${main.id} AND id <> organization_id)) n`;
  const { user } = await signIn('crowd', { groups: ['ops', 'eng-one', 'eng-two', 'eng-three'] });
  assert.equal((await groupsOf(user)).filter((name) => name.startsWith('eng-')).length, 1);
  const again = await signIn('crowd', { groups: ['ops', 'eng-one', 'eng-two', 'eng-three'] });
  assert.deepEqual(await groupsOf(again.user), await groupsOf(user));
  await sql`DELETE FROM groups WHERE name LIKE 'filler%'`;
});
