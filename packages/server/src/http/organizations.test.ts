import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type {
  AssignableRoles,
  Organization,
  OrganizationMember,
  OrganizationMemberWithUserData,
  PaginatedMembersResponse,
} from '@platform/contract';
import { createPerson, startTestServer, type TestServer } from '@platform/testkit/server';

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
  const deadline = Date.now() + 6_000;
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
