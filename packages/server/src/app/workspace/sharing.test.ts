import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type {
  Group,
  OrganizationMemberWithUserData,
  PaginatedMembersResponse,
  Workspace,
  WorkspaceACL,
  WorkspaceBuild,
  WorkspacesResponse,
} from '@ropewalk/contract';
import {
  createTestTemplate,
  insertPerson,
  limitedToken,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { tokenScope } from '../../authz/scope.ts';
import { acquiredJobMessage } from '../job/message.ts';
import { MAX_SHARES_PER_WORKSPACE } from './sharing.ts';

type Person = Awaited<ReturnType<typeof insertPerson>>;
type Answer = { message: string; detail?: string; validations?: { field: string; detail: string }[] };

let server: TestServer;
let organization: string;
let owner: Person;
let user: Person;
let admin: Person;
let stranger: Person;
let boss: Person;
let workspace: Workspace;
let template: string;

const SETTING = '/organizations/default/settings/workspace-sharing';
const path = () => `/workspaces/${workspace.id}`;
const share = (person: { token: string }, body: object) =>
  server.api<Answer>('PATCH', `${path()}/acl`, { token: person.token, body });
const acl = async (person: { token: string } = owner) =>
  (await server.api<WorkspaceACL>('GET', `${path()}/acl`, { token: person.token })).body;
const statusOf = async (person: { token: string }, method: string, to: string, body?: object) =>
  (await server.api(method, to, { token: person.token, ...(body ? { body } : {}) })).status;

before(async () => {
  server = await startTestServer({ env: { CODER_ALLOW_WORKSPACE_RENAMES: 'true' } });
  const { sql } = server.services;
  organization = (await server.api<{ id: string }>('GET', '/organizations/default')).body.id;
  owner = await insertPerson(server, 'olga');
  user = await insertPerson(server, 'uma');
  admin = await insertPerson(server, 'adam');
  stranger = await insertPerson(server, 'sam');
  boss = await insertPerson(server, 'boss');
  await sql`UPDATE organization_members SET roles = '{organization-admin}' WHERE user_id = ${boss.id}`;
  const made = await createTestTemplate(server, 'base');
  template = made.id;
  const created = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token: owner.token,
    body: { name: 'dev', template_id: template },
  });
  assert.equal(created.status, 201);
  workspace = created.body;
  await finishBuild();
  await sql`UPDATE users SET name = 'Uma Umarova' WHERE id = ${user.id}`;
});
after(() => server.stop());

/** Ends the newest build. */
const finishBuild = () =>
  server.services.sql`UPDATE provisioner_jobs SET started_at = now(), completed_at = now() WHERE completed_at IS NULL`;

test('shares a workspace with people and groups of the organization, and shows them', async () => {
  const group = await server.api<Group>('POST', '/organizations/default/groups', { body: { name: 'team' } });
  assert.equal(await statusOf(user, 'GET', path()), 404);
  const roles = {
    user_roles: { [user.id]: 'use', [admin.id.toUpperCase()]: 'admin' },
    group_roles: { [group.body.id]: 'use' },
  };
  assert.equal((await share(owner, roles)).status, 204);
  const shown = await acl(user);
  assert.deepEqual(
    shown.users.map(({ username, name, role }) => [username, name, role]),
    [
      ['adam', '', 'admin'],
      ['uma', 'Uma Umarova', 'use'],
    ],
  );
  assert.deepEqual(
    shown.group.map(({ name, role, members }) => [name, role, members]),
    [['team', 'use', []]],
  );
  const seen = await server.api<Workspace>('GET', path(), { token: user.token });
  assert.deepEqual(
    seen.body.shared_with?.map(({ actor_type: type, name, roles: given }) => [type, name, given]),
    [
      ['user', 'Uma Umarova', ['use']],
      ['user', 'adam', ['admin']],
      ['group', 'team', ['use']],
    ],
  );
  const byName = await server.api<Workspace>('GET', '/users/olga/workspace/dev', { token: user.token });
  assert.equal(byName.body.id, workspace.id, JSON.stringify(byName.body));
  assert.equal(await statusOf(stranger, 'GET', '/users/olga/workspace/dev'), 404);
  const entries = await server.services.sql<{ diff: Record<string, { old: unknown; new: unknown }> }[]>`
    SELECT diff FROM audit_logs WHERE resource_type = 'workspace' AND resource_id = ${workspace.id} AND action = 'write'`;
  assert.deepEqual(entries.at(-1)?.diff['user_acl'], {
    old: null,
    new: { [user.id]: 'use', [admin.id]: 'admin' },
    secret: false,
  });
});

test('lists and searches shared workspaces', async () => {
  const names = async (person: { token: string }, q: string) => {
    const { status, body } = await server.api<WorkspacesResponse>('GET', `/workspaces?q=${encodeURIComponent(q)}`, {
      token: person.token,
    });
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.count, body.workspaces.length);
    return body.workspaces.map(({ owner_name, name }) => `${owner_name}/${name}`);
  };
  const all = ['olga/dev'];
  for (const [person, q, expected] of [
    [user, '', all],
    [stranger, '', []],
    [user, 'owner:me', []],
    [user, 'shared:true', all],
    [user, 'shared:false', []],
    [owner, 'shared:true', all],
    [user, 'shared_with_user:me', all],
    [owner, 'shared_with_user:me', []],
    [owner, 'shared_with_user:uma', all],
    [owner, `shared_with_user:${user.id}`, all],
    [owner, 'shared_with_user:nobody', []],
    [owner, 'shared_with_group:team', all],
    [owner, 'shared_with_group:coder/team', all],
    [owner, 'shared_with_group:other', []],
    [stranger, 'shared_with_user:uma', []],
  ] as const) {
    assert.deepEqual(await names(person, q), expected, q);
  }
  assert.equal(await statusOf(owner, 'GET', '/workspaces?q=shared_with_group:a/b/c'), 400);
  const { sql } = server.services;
  const group = (await acl()).group[0]!.id;
  await sql`INSERT INTO group_members (group_id, organization_id, user_id) VALUES (${group}, ${organization}, ${stranger.id})`;
  await server.services.events.publish(sql, 'revoked', { user_ids: [stranger.id] });
  assert.deepEqual(await names(stranger, ''), all, 'a member of the group');
  assert.equal((await server.api('DELETE', `/groups/${group}`)).status, 200);
  assert.equal(await statusOf(stranger, 'GET', path()), 404, 'of a deleted group');
  assert.deepEqual((await acl()).group, []);
});

test('the level decides what a person may do, and nobody but its owner deletes a shared workspace', async () => {
  const attempts: [string, string, object | undefined, number, number][] = [
    ['GET', path(), undefined, 200, 200],
    ['GET', `${path()}/builds`, undefined, 200, 200],
    ['PATCH', path(), { name: 'dev' }, 403, 204],
    ['PUT', `${path()}/ttl`, { ttl_ms: 7_200_000 }, 403, 204],
    ['PUT', `${path()}/dormant`, { dormant: false }, 403, 200],
    ['PUT', `${path()}/favorite`, undefined, 403, 403],
    ['DELETE', `${path()}/acl`, undefined, 403, 0],
    ['PATCH', `${path()}/acl`, { user_roles: { [stranger.id]: 'use' } }, 403, 204],
    ['PATCH', `${path()}/acl`, { user_roles: { [stranger.id]: '' } }, 403, 204],
    ['POST', `${path()}/builds`, { transition: 'delete' }, 403, 403],
    ['GET', `/workspacebuilds/${workspace.latest_build.id}/state`, undefined, 404, 404],
    ['GET', `${path()}/external-agent/main/credentials`, undefined, 403, 403],
  ];
  for (const [method, to, body, ofUser, ofAdmin] of attempts) {
    assert.equal(await statusOf(user, method, to, body), ofUser, `${method} ${to} of use`);
    if (ofAdmin !== 0) assert.equal(await statusOf(admin, method, to, body), ofAdmin, `${method} ${to} of admin`);
  }
});

test('nobody shares what they do not own, gives more than they have, or changes their own level', async () => {
  const withStranger = { user_roles: { [stranger.id]: 'use' } };
  assert.equal((await share(stranger, withStranger)).status, 404);
  const self = await share(admin, { user_roles: { [admin.id]: '' } });
  assert.deepEqual([self.status, self.body.message], [400, 'You cannot change your own workspace sharing role.']);
  // an administrator of the organization manages the list, but cannot open shells, and so cannot let anyone in
  for (const person of [stranger, boss]) {
    const given = await share(boss, { user_roles: { [person.id]: 'use' } });
    assert.deepEqual([given.status, given.body.detail?.includes('"ssh"')], [403, true], JSON.stringify(given.body));
  }
  assert.equal((await share(boss, { user_roles: { [user.id]: '' } })).status, 204);
  assert.equal(await statusOf(user, 'GET', path()), 404);
  const away = await insertPerson(server, 'away', [], { member: false });
  for (const [body, detail] of [
    [{ user_roles: { [away.id]: 'use' } }, 'not the id of a member'],
    [{ user_roles: { 'not-an-id': 'use' } }, 'not the id of a member'],
    [{ group_roles: { [user.id]: 'use' } }, 'not the id of a group'],
    [{ user_roles: { [owner.id]: 'use' } }, 'owns the workspace'],
  ] as const) {
    const { status, body: answer } = await share({ token: server.adminToken }, body);
    assert.equal(status, 400, JSON.stringify(answer));
    assert.ok(answer.validations?.[0]?.detail.includes(detail), JSON.stringify(answer));
  }
  assert.equal((await share(owner, { user_roles: { [user.id]: 'rule' } })).status, 400);
  assert.equal((await share(owner, { user_roles: { [user.id]: 'use', [away.id]: '' } })).status, 204);
  const { sql } = server.services;
  const many = Object.fromEntries(Array.from({ length: MAX_SHARES_PER_WORKSPACE }, () => [crypto.randomUUID(), 'use']));
  await sql`UPDATE workspaces SET group_acl = ${sql.json(many)} WHERE id = ${workspace.id}`;
  assert.equal((await share(owner, withStranger)).status, 409);
  await sql`UPDATE workspaces SET group_acl = '{}' WHERE id = ${workspace.id}`;
});

test('a person who leaves the organization loses the workspace for good, and a dormant one is with its owner alone', async () => {
  assert.equal(await statusOf(user, 'GET', path()), 200);
  assert.equal((await server.api('DELETE', '/organizations/default/members/uma')).status, 204);
  assert.equal(await statusOf(user, 'GET', path()), 404);
  assert.equal((await server.api('POST', '/organizations/default/members/uma')).status, 200);
  assert.equal(await statusOf(user, 'GET', path()), 404, 'the entry is gone');
  assert.equal((await share(owner, { user_roles: { [user.id]: 'use' } })).status, 204);
  assert.equal(await statusOf(owner, 'PUT', `${path()}/dormant`, { dormant: true }), 200);
  assert.equal(await statusOf(user, 'GET', path()), 404);
  const listed = await server.api<WorkspacesResponse>('GET', '/workspaces', { token: user.token });
  assert.equal(listed.body.count, 0);
  assert.equal((await share(owner, { user_roles: { [user.id]: 'admin' } })).status, 403);
  assert.equal(await statusOf(owner, 'PUT', `${path()}/dormant`, { dormant: false }), 200);
  assert.equal(await statusOf(user, 'GET', path()), 200);
});

test('a token of a person with a shared workspace stays within its limits', async () => {
  const limited = async (...limits: Parameters<typeof tokenScope>) => ({
    token: await limitedToken(server, admin.id, tokenScope(...limits)),
  });
  const elsewhere = await limited(['coder:all'], [`workspace:${crypto.randomUUID()}`]);
  assert.equal(await statusOf(elsewhere, 'GET', path()), 404);
  const count = async ({ token }: { token: string }) =>
    (await server.api<WorkspacesResponse>('GET', '/workspaces', { token })).body.count;
  assert.equal(await count(elsewhere), 0);
  const here = await limited(['coder:all'], [`workspace:${workspace.id}`]);
  assert.equal(await count(here), 1);
  const reads = await limited(['workspace:read']);
  assert.equal(await statusOf(reads, 'GET', path()), 200);
  assert.equal((await share(reads, { user_roles: { [stranger.id]: 'use' } })).status, 403);
  assert.equal(await statusOf(reads, 'POST', `${path()}/builds`, { transition: 'stop' }), 403);
});

test('a build that another person begins gets nobody’s tokens, and belongs to the owner', async () => {
  const stop = await server.api<WorkspaceBuild>('POST', `${path()}/builds`, {
    token: user.token,
    body: { transition: 'stop' },
  });
  assert.equal(stop.status, 201, JSON.stringify(stop.body));
  await finishBuild();
  const started = await server.api<WorkspaceBuild>('POST', `${path()}/builds`, {
    token: user.token,
    body: { transition: 'start' },
  });
  assert.equal(started.status, 201, JSON.stringify(started.body));
  assert.equal(started.body.initiator_name, 'uma');
  const own = await takeJob(server);
  const { type } = await acquiredJobMessage(server.services, own.job);
  assert.ok(type.case === 'workspaceBuild');
  const { workspaceOwner, workspaceOwnerId, workspaceOwnerSessionToken, workspaceOwnerSshPrivateKey } =
    type.value.metadata!;
  assert.deepEqual([workspaceOwner, workspaceOwnerId], ['olga', owner.id]);
  assert.deepEqual([workspaceOwnerSessionToken, workspaceOwnerSshPrivateKey], ['', '']);
  await finishBuild();
});

test('members find people and groups to share with by name, but not their accounts', async () => {
  const people = async (q: string) =>
    (
      await server.api<PaginatedMembersResponse>('GET', `/organizations/default/paginated-members?q=${q}`, {
        token: user.token,
      })
    ).body.members;
  const names = (list: OrganizationMemberWithUserData[]) => list.map(({ username }) => username);
  const found = (await people('olg'))[0]!;
  assert.deepEqual([found.username, found.email, found.roles, found.global_roles], ['olga', '', [], []]);
  const self = (await people('uma'))[0]!;
  assert.ok(self.email.includes('@'));
  assert.deepEqual(names(await people('boss%40')), [], 'no search in addresses');
  assert.deepEqual(names(await people('example.com')), []);
  const groups = await server.api<Group[]>('GET', `/groups?organization=${organization}`, { token: user.token });
  const everyone = groups.body.find(({ id }) => id === organization)!;
  assert.deepEqual(
    everyone.members.map(({ username }) => username),
    ['uma'],
  );
});

test('an organization that stops sharing takes all workspaces back', async () => {
  assert.equal(await statusOf(owner, 'PATCH', SETTING, { shareable_workspace_owners: 'none' }), 403);
  assert.equal(await statusOf(admin, 'GET', path()), 200);
  for (const [body, owners, disabled] of [
    [{ shareable_workspace_owners: 'service_accounts' }, 'service_accounts', false],
    [{ sharing_disabled: true }, 'none', true],
  ] as const) {
    const { status, body: setting } = await server.api('PATCH', SETTING, { body });
    assert.equal(status, 200, JSON.stringify(setting));
    assert.deepEqual(setting, {
      shareable_workspace_owners: owners,
      sharing_disabled: disabled,
      sharing_globally_disabled: false,
    });
    assert.equal(await statusOf(admin, 'GET', path()), 404);
    for (const person of [owner, boss, { token: server.adminToken }]) {
      const { status: refused } = await share(person, { user_roles: { [user.id]: 'use' } });
      assert.equal(refused, 403);
      assert.equal(await statusOf(person, 'DELETE', `${path()}/acl`), 403);
    }
  }
  assert.equal((await server.api('PATCH', SETTING, { body: { shareable_workspace_owners: 'all' } })).status, 400);
  const [entry] = await server.services.sql<
    { diff: object; additional_fields: object }[]
  >`SELECT diff, additional_fields
    FROM audit_logs WHERE resource_type = 'organization' AND status_code = 200 AND action = 'write' ORDER BY time LIMIT 1`;
  assert.ok('shareable_workspace_owners' in entry!.diff, JSON.stringify(entry));
  assert.deepEqual(entry!.additional_fields, { unshared_workspaces: 1 });
  assert.equal((await server.api('PATCH', SETTING, { body: {} })).status, 200);
  assert.equal(await statusOf(admin, 'GET', path()), 404, 'stays taken back');
  assert.equal((await share(owner, { user_roles: { [user.id]: 'use' } })).status, 204);
  assert.equal(await statusOf(owner, 'DELETE', `${path()}/acl`), 204);
  assert.equal(await statusOf(user, 'GET', path()), 404);
});

test('an organization can share only the workspaces of service accounts', async () => {
  const made = await server.api<{ id: string }>('POST', '/users', {
    body: { username: 'robot', service_account: true },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const body = { name: 'ci', template_id: workspace.template_id };
  const ci = await server.api<Workspace>('POST', '/users/robot/workspaces', { body });
  assert.equal(ci.status, 201, JSON.stringify(ci.body));
  const token = await server.api<{ key: string }>('POST', '/users/robot/keys/tokens', { body: { token_name: 'ci' } });
  const robot = { token: token.body.key };
  const roles = { user_roles: { [user.id]: 'use' } };
  const shareCi = async (as: { token: string }) =>
    (await server.api('PATCH', `/workspaces/${ci.body.id}/acl`, { ...as, body: roles })).status;
  assert.equal(await shareCi(robot), 204);
  assert.equal((await share(owner, roles)).status, 204);
  const only = { shareable_workspace_owners: 'service_accounts' };
  assert.equal((await server.api('PATCH', SETTING, { body: only })).status, 200);
  assert.equal(await statusOf(user, 'GET', `/workspaces/${ci.body.id}`), 200, 'stays shared');
  assert.equal(await statusOf(user, 'GET', path()), 404);
  assert.equal((await share(owner, roles)).status, 403);
  assert.equal(await shareCi(robot), 204);
  assert.equal((await server.api('PATCH', SETTING, { body: {} })).status, 200);
});
