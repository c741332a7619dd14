import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type {
  AssignableRoles,
  Organization,
  OrganizationMember,
  OrganizationMemberWithUserData,
  PaginatedMembersResponse,
  Role,
  User,
  UserRoles,
} from '@ropewalk/contract';
import { insertPerson } from '@ropewalk/testkit/person';
import { createPerson, startTestServer, type TestServer } from '@ropewalk/testkit/server';
import { eventually } from '@ropewalk/testkit/wait';

let server: TestServer;
let team: Organization;
before(async () => {
  server = await startTestServer();
  team = (await server.api<Organization>('POST', '/organizations', { body: { name: 'team', display_name: 'Team' } }))
    .body;
});
after(() => server.stop());

test('lets people create, change and see organizations', async () => {
  assert.equal(team.is_default, false);
  assert.equal((await server.api('POST', '/organizations', { body: { name: 'TEAM' } })).status, 409);
  assert.equal((await server.api('POST', '/organizations', { body: { name: 'default' } })).status, 400);
  const changed = await server.api<Organization>('PATCH', '/organizations/team', {
    body: { description: 'of people', name: 'team' },
  });
  assert.deepEqual([changed.status, changed.body.description, changed.body.display_name], [200, 'of people', 'Team']);
  const zoe = await createPerson(server, 'zoe');
  const as = { token: zoe.token };
  assert.equal((await server.api('GET', '/organizations/team', as)).status, 404);
  assert.equal((await server.api('PATCH', '/organizations/default', { ...as, body: { name: 'mine' } })).status, 403);
  assert.equal((await server.api('POST', '/organizations', { ...as, body: { name: 'mine' } })).status, 403);
  const mine = await server.api<Organization[]>('GET', '/users/me/organizations', as);
  assert.equal(mine.body.length, 1);
  const one = await server.api<Organization>('GET', `/users/me/organizations/${mine.body[0]!.name}`, as);
  assert.equal(one.body.id, mine.body[0]!.id);
  assert.equal((await server.api('GET', '/users/me/organizations/team', as)).status, 404);
});

test('shows a member to those who may see the membership', async () => {
  const [gil, other] = [await createPerson(server, 'gil'), await createPerson(server, 'gal')];
  const look = (user: string, token?: string) =>
    server.api<OrganizationMemberWithUserData>('GET', `/organizations/default/members/${user}`, token ? { token } : {});
  const seen = await look('gil');
  assert.deepEqual([seen.status, seen.body.user_id, seen.body.username], [200, gil.id, 'gil']);
  assert.equal((await look('me', gil.token)).body.user_id, gil.id);
  assert.equal((await look('gil', other.token)).status, 404);
  assert.equal((await look('nobody')).status, 404);
  assert.equal((await server.api('GET', `/organizations/${team.id}/members/gil`)).status, 404);
});

test('adds members, gives them roles no higher than the giver’s, and removes them', async () => {
  const yan = await createPerson(server, 'yan');
  const xia = await createPerson(server, 'xia');
  assert.equal((await server.api('POST', '/organizations/team/members/yan')).status, 200);
  assert.equal((await server.api('POST', '/organizations/team/members/yan')).status, 409);
  const put = (who: string, roles: string[], token?: string) =>
    server.api<OrganizationMember>('PUT', `/organizations/team/members/${who}/roles`, {
      body: { roles },
      ...(token ? { token } : {}),
    });
  const raised = await put('yan', ['organization-user-admin']);
  assert.deepEqual(
    raised.body.roles.map(({ name }) => name),
    ['organization-user-admin'],
  );
  assert.equal((await put('yan', ['owner'])).status, 400);
  const as = { token: yan.token };
  // sessions get the new role by notification
  const deadline = Date.now() + 30_000;
  let status = 0;
  while (status !== 200 && Date.now() < deadline) {
    ({ status } = await server.api('POST', '/organizations/team/members/xia', as));
  }
  assert.equal(status, 200);
  const assignable = (await server.api<AssignableRoles[]>('GET', '/organizations/team/members/roles', as)).body;
  assert.equal(assignable.find(({ name }) => name === 'organization-admin')!.assignable, false);
  assert.equal(assignable.find(({ name }) => name === 'organization-user-admin')!.assignable, false);
  assert.equal((await put('xia', ['organization-admin'], yan.token)).status, 403);
  assert.equal((await put('xia', ['organization-user-admin'], yan.token)).status, 403);
  assert.equal((await put('xia', ['organization-user-admin'])).status, 200);
  assert.equal((await put('yan', [], yan.token)).status, 400);
  assert.equal((await server.api('DELETE', '/organizations/team/members/admin', as)).status, 403);

  for (const path of ['/organizations/team/members', '/organizations/team/members/']) {
    const members = await server.api<OrganizationMemberWithUserData[]>('GET', path, as);
    assert.deepEqual(
      members.body.map(({ username }) => username),
      ['admin', 'xia', 'yan'],
    );
  }
  const page = await server.api<PaginatedMembersResponse>(
    'GET',
    '/organizations/team/paginated-members?limit=1&offset=2',
    as,
  );
  assert.deepEqual([page.body.count, page.body.members[0]?.username], [3, 'yan']);
  const search = async (query: string) =>
    (await server.api<PaginatedMembersResponse>('GET', `/organizations/team/paginated-members?${query}`, as)).body;
  const found = await search('q=xi');
  assert.deepEqual([found.count, found.members[0]?.username, found.members[0]?.status], [1, 'xia', 'active']);
  assert.equal((await search(`after_id=${xia.id}`)).members[0]?.username, 'yan');
  assert.equal((await search('q=status:suspended')).count, 0);
  assert.equal((await server.api('DELETE', '/organizations/team/members/xia', as)).status, 403, 'a role above');
  assert.equal((await put('xia', [])).status, 200);
  assert.equal((await server.api('DELETE', '/organizations/team/members/xia', as)).status, 204);
  assert.equal((await server.api('DELETE', '/organizations/team/members/xia', as)).status, 404);
  assert.equal((await server.api('GET', '/organizations/team/members', { token: xia.token })).status, 404);
});

test('deletes an organization that is empty, and never the default one', async () => {
  assert.equal((await server.api('DELETE', '/organizations/default')).status, 400);
  assert.equal((await server.api('DELETE', '/organizations/team')).status, 200);
  assert.equal((await server.api('GET', '/organizations/team')).status, 404);
  const all = await server.api<Organization[]>('GET', '/organizations');
  assert.deepEqual(
    all.body.map(({ is_default }) => is_default),
    [true],
  );
  assert.equal((await server.api('POST', '/organizations', { body: { name: 'team' } })).status, 201);
});

const ROLES = '/organizations/team/members/roles';
const allow = (...list: string[]) =>
  list.map((text) => {
    const [resource_type, action] = text.split(':');
    return { resource_type, action, negate: false };
  });
type Refusal = Role & { message: string; validations?: { field: string }[] };

test('defines custom roles, whose members have their permissions immediately', async () => {
  const changed = new Set<string>();
  const off = server.services.events.on('object_changed', ({ kind, id }) => changed.add(`${kind} ${id}`));
  const made = await server.api<Role>('POST', ROLES, {
    body: { name: 'watcher', display_name: 'Watcher', organization_permissions: allow('audit_log:read', 'group:read') },
  });
  assert.deepEqual(
    [made.status, made.body.name, made.body.organization_permissions, made.body.site_permissions],
    [200, 'watcher', allow('audit_log:read', 'group:read'), []],
  );
  await eventually('pages of the organization are current', () =>
    changed.has(`organization ${made.body.organization_id}`),
  );
  off();
  const listed = (await server.api<AssignableRoles[]>('GET', ROLES)).body.find(({ name }) => name === 'watcher')!;
  assert.deepEqual([listed.built_in, listed.assignable, listed.display_name], [false, true, 'Watcher']);

  const wes = await insertPerson(server, 'wes');
  await server.api('POST', '/organizations/team/members/wes');
  const as = { token: wes.token };
  const created = async () => {
    const name = `g${crypto.randomUUID().slice(0, 8)}`;
    return (await server.api('POST', '/organizations/team/groups', { ...as, body: { name } })).status;
  };
  assert.equal(await created(), 403);
  const given = await server.api<OrganizationMember>('PUT', '/organizations/team/members/wes/roles', {
    body: { roles: ['watcher'] },
  });
  assert.deepEqual(
    given.body.roles.map(({ name, display_name }) => [name, display_name]),
    [['watcher', 'Watcher']],
  );
  assert.equal(await created(), 403);
  const raised = { name: 'watcher', organization_permissions: allow('group:create') };
  assert.equal((await server.api('PUT', ROLES, { body: raised })).status, 200);
  assert.equal(await created(), 201);
  assert.equal((await server.api('DELETE', `${ROLES}/watcher`)).status, 204);
  assert.equal(await created(), 403);
  const roles = await server.api<UserRoles>('GET', '/users/wes/roles');
  assert.ok(!JSON.stringify(roles.body).includes('watcher'), JSON.stringify(roles.body));
  assert.equal((await server.api('DELETE', `${ROLES}/watcher`)).status, 404);
});

test('rejects custom roles with wrong names or permissions', async () => {
  const create = (body: object) => server.api<Refusal>('POST', ROLES, { body });
  const none = { organization_member_permissions: null, site_permissions: null, user_permissions: null };
  assert.equal((await create({ name: 'taken', ...none })).status, 200, "as upstream's programs write empty lists");
  const negated = [{ resource_type: 'template', action: 'read', negate: true }];
  for (const [body, status, field] of [
    [{ name: 'Taken' }, 409, 'name'],
    [{ name: 'organization-admin' }, 400, 'name'],
    [{ name: 'no good' }, 400, 'name'],
    [{ name: 'x', organization_permissions: allow('*:read') }, 400, 'organization_permissions'],
    [{ name: 'x', organization_permissions: allow('template:ssh') }, 400, 'organization_permissions'],
    [{ name: 'x', organization_permissions: negated }, 400, 'organization_permissions'],
    [{ name: 'x', site_permissions: allow('user:read') }, 400, 'site_permissions'],
    [{ name: 'x', user_permissions: allow('user:read') }, 400, 'user_permissions'],
    [{ name: 'x', organization_member_permissions: allow('workspace:read') }, 400, 'organization_member_permissions'],
  ] as const) {
    const { status: got, body: answer } = await create(body);
    assert.deepEqual([got, answer.validations?.[0]?.field], [status, field], JSON.stringify(body));
  }
  assert.equal((await server.api('PUT', ROLES, { body: { name: 'absent' } })).status, 404);
});

test('nobody grants permissions that they lack, by a new role, a changed role or an assignment', async () => {
  const [ada, bea] = [await insertPerson(server, 'ada'), await insertPerson(server, 'bea')];
  for (const name of ['ada', 'bea']) await server.api('POST', `/organizations/team/members/${name}`);
  await server.api('PUT', '/organizations/team/members/ada/roles', { body: { roles: ['organization-admin'] } });
  const as = { token: ada.token };
  const role = (name: string, ...permissions: string[]) => ({ name, organization_permissions: allow(...permissions) });
  const status = async (method: string, path: string, body?: object) =>
    (await server.api(method, path, { ...as, ...(body ? { body } : {}) })).status;
  // organization admins cannot open shells
  assert.equal(await status('POST', ROLES, role('shell', 'workspace:ssh')), 403);
  assert.equal(await status('POST', ROLES, role('safe', 'workspace:read')), 200);
  assert.equal(await status('PUT', ROLES, role('safe', 'workspace:read', 'workspace:ssh')), 403);
  assert.equal((await server.api('POST', ROLES, { body: role('shell', 'workspace:ssh') })).status, 200);
  const roles = `/organizations/team/members/${bea.id}/roles`;
  assert.equal(await status('PUT', roles, { roles: ['shell'] }), 403);
  assert.equal(await status('PUT', roles, { roles: ['safe'] }), 200);
  assert.equal((await server.api('PUT', roles, { body: { roles: ['shell', 'safe'] } })).status, 200);
  assert.equal(await status('PUT', roles, { roles: ['shell'] }), 200, 'what somebody else gave may stay');
  assert.equal(await status('DELETE', `/organizations/team/members/${bea.id}`), 403);
  // a role with more power protects its holder from those who manage accounts
  const ulla = await insertPerson(server, 'una', ['user-admin']);
  assert.equal((await server.api('PUT', `/users/${bea.id}/status/suspend`, { token: ulla.token })).status, 403);
  await server.api('POST', ROLES, { body: role('constructor', 'workspace:ssh') });
  const cleo = await insertPerson(server, 'cleo');
  await server.api('POST', '/organizations/team/members/cleo');
  const given = await server.api('PUT', '/organizations/team/members/cleo/roles', { body: { roles: ['constructor'] } });
  assert.equal(given.status, 200);
  assert.equal((await server.api('PUT', `/users/${cleo.id}/status/suspend`, { token: ulla.token })).status, 403);
  await server.api('PUT', '/organizations/team/members/cleo/roles', {
    body: { roles: ['constructor', 'organization-user-admin'] },
  });
  const seen = await server.api('GET', '/organizations/team/members/roles', { token: cleo.token });
  assert.equal(seen.status, 200, JSON.stringify(seen.body));
  // to edit roles is a permission that a custom role can give, and the same limit applies to its holders
  await server.api('POST', ROLES, { body: role('role-editor', 'assign_org_role:create', 'assign_org_role:read') });
  await server.api('PUT', roles, { body: { roles: ['role-editor'] } });
  const editor = async (body: object) => (await server.api('POST', ROLES, { token: bea.token, body })).status;
  assert.equal(await editor(role('more', 'template:update')), 403);
  assert.equal(await editor(role('same', 'assign_org_role:read')), 200);
});

test('nobody restores a permission that they lack and that somebody takes out of a role at that moment', async () => {
  const { sql } = server.services;
  const role = (...permissions: string[]) => ({ name: 'shrinking', organization_permissions: allow(...permissions) });
  const made = await server.api('POST', ROLES, { body: role('workspace:read', 'workspace:ssh') });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const eve = await createPerson(server, 'eve');
  await server.api('POST', '/organizations/team/members/eve');
  await server.api('PUT', '/organizations/team/members/eve/roles', { body: { roles: ['organization-admin'] } });
  const put = () => server.api<Role>('PUT', ROLES, { token: eve.token, body: role('workspace:read', 'workspace:ssh') });
  assert.equal((await put()).status, 200, 'what is in the role may stay');
  const edited = await sql.begin(async (tx) => {
    const [mine] = await tx<{ pid: number }[]>`UPDATE custom_roles SET permissions = '{"workspace": ["read"]}'
      WHERE name = 'shrinking' RETURNING pg_backend_pid() AS pid`;
    const pending = put();
    await eventually('the other change waits', async () => {
      const rows = await sql`SELECT FROM pg_stat_activity WHERE ${mine!.pid} = ANY (pg_blocking_pids(pid))`;
      return rows.length > 0;
    });
    return { pending };
  });
  assert.equal((await edited.pending).status, 403);
  const { body } = await server.api<AssignableRoles[]>('GET', ROLES);
  const now = body.find(({ name }) => name === 'shrinking')!;
  assert.deepEqual(
    now.organization_permissions.map(({ action }) => action),
    ['read'],
  );
});

test('the sync of roles gives nobody a role that its editor may not assign', async () => {
  const [uma, adi] = [await insertPerson(server, 'uma'), await insertPerson(server, 'adi')];
  for (const [name, role] of [
    ['uma', 'organization-user-admin'],
    ['adi', 'organization-admin'],
  ]) {
    await server.api('POST', `/organizations/team/members/${name}`);
    await server.api('PUT', `/organizations/team/members/${name}/roles`, { body: { roles: [role] } });
  }
  const SYNC = '/organizations/team/settings/idpsync/roles';
  const patch = async (who: { token: string }, body: object) =>
    (await server.api('PATCH', SYNC, { token: who.token, body })).status;
  const settings = (field: string, mapping: Record<string, string[]>) => ({ field, mapping });
  assert.equal(await patch(uma, settings('groups', {})), 403, 'each value of the claim can name a role');
  // a custom role of this organization opens shells, which its administrators cannot
  assert.equal(await patch(adi, settings('groups', {})), 403);
  const owner = { token: server.adminToken };
  assert.equal(await patch(owner, settings('groups', { ops: ['organization-template-admin'] })), 200);
  assert.equal(await patch(uma, settings('groups', { ops: ['organization-template-admin'], all: [] })), 200);
  const more = { ops: ['organization-template-admin'], all: ['organization-admin'] };
  assert.equal(await patch(uma, settings('groups', more)), 403);
  assert.equal(await patch(adi, settings('groups', more)), 200);
  assert.equal(await patch(uma, settings('', {})), 200, 'she may turn it off');
});

test('lists the default organization of a person first, then the others as the person joined them', async () => {
  const joined = await insertPerson(server, 'order');
  const ids: string[] = [];
  for (let left = 4; left > 0; left--) {
    const { body } = await server.api<Organization>('POST', '/organizations', { body: { name: `order${left}` } });
    assert.equal((await server.api('POST', `/organizations/order${left}/members/order`)).status, 200);
    ids.push(body.id);
  }
  const [{ id: first }] = (await server.api<[Organization]>('GET', '/organizations')).body;
  for (const path of ['/users/order', '/users/me']) {
    const { body } = await server.api<User>('GET', path, path.endsWith('me') ? { token: joined.token } : {});
    assert.deepEqual(body.organization_ids, [first, ...ids], path);
  }
});

test('gives all members the default roles of their organization, and nobody more than the editor may assign', async () => {
  const { body: home } = await server.api<Organization>('POST', '/organizations', { body: { name: 'defaults' } });
  assert.deepEqual(home.default_org_member_roles, ['organization-workspace-access']);
  const [mel, ned] = [await createPerson(server, 'mel'), await insertPerson(server, 'ned')];
  for (const name of ['mel', 'ned']) await server.api('POST', `/organizations/defaults/members/${name}`);
  const set = (roles: string[], more: { token?: string } = {}) =>
    server.api<Organization & Refusal>('PATCH', '/organizations/defaults', {
      ...more,
      body: { default_org_member_roles: roles },
    });
  const able = async () => {
    const object = { organization_id: home.id, owner_id: mel.id };
    const checks = {
      workspace: { action: 'create', object: { ...object, resource_type: 'workspace' } },
      template: { action: 'create', object: { ...object, resource_type: 'template' } },
    };
    return (await server.api<object>('POST', '/authcheck', { token: mel.token, body: { checks } })).body;
  };
  const becomes = (workspace: boolean, template: boolean) =>
    eventually(`workspace ${workspace}, template ${template}`, async () =>
      isDeepStrictEqual(await able(), { workspace, template }),
    );
  await becomes(true, false);
  assert.deepEqual((await set([])).body.default_org_member_roles, []);
  await becomes(false, false);
  const given = await set(['organization-template-admin', 'organization-template-admin', 'organization-member']);
  assert.deepEqual(given.body.default_org_member_roles, ['organization-template-admin']);
  await becomes(false, true);

  for (const wrong of ['watcher', 'owner', 'constructor']) {
    const { status, body } = await set([wrong]);
    assert.deepEqual([status, body.validations?.[0]?.field], [400, 'default_org_member_roles'], wrong);
  }
  // may change the organization, and assign no roles
  const roles = '/organizations/defaults/members/roles';
  const editor = { name: 'editor', organization_permissions: allow('organization:read', 'organization:update') };
  assert.equal((await server.api('POST', roles, { body: editor })).status, 200);
  assert.equal(
    (await server.api('PUT', '/organizations/defaults/members/ned/roles', { body: { roles: ['editor'] } })).status,
    200,
  );
  const as = { token: ned.token };
  assert.equal((await set([], as)).status, 403);
  assert.equal((await set(['organization-admin'], as)).status, 403);
  assert.equal((await set(['organization-template-admin'], as)).status, 200, 'unchanged');

  // an administrator of people takes over no account with a role above theirs, and makes none
  const ulla = await createPerson(server, 'ulla', ['user-admin']);
  const by = { token: ulla.token };
  const password = { body: { password: 'another correct horse' } };
  assert.equal((await server.api('PUT', '/users/mel/password', { ...by, ...password })).status, 403);
  const account = { username: 'olaf', email: 'olaf@example.com', login_type: 'none', organization_ids: [home.id] };
  assert.equal((await server.api('POST', '/users', { ...by, body: account })).status, 403);
  assert.equal((await server.api('POST', '/organizations/defaults/members/ulla', by)).status, 403);
  assert.equal((await set(['organization-workspace-access'])).status, 200);
  assert.equal((await server.api('PUT', '/users/mel/password', { ...by, ...password })).status, 204);
  assert.equal((await server.api('POST', '/users', { ...by, body: account })).status, 201);
});
