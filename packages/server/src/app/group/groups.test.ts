import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type {
  ACLAvailable,
  Group,
  Organization,
  Template,
  TemplateACL,
  Workspace,
  WorkspaceBuild,
} from '@ropewalk/contract';
import {
  createTestTemplate,
  importedVersion,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../job/complete.ts';
import { acquiredJobMessage } from '../job/message.ts';

let server: TestServer;
let home: Organization;
before(async () => {
  server = await startTestServer();
  home = (await server.api<Organization>('GET', '/organizations/default')).body;
});
after(() => server.stop());

interface Refusal {
  message: string;
  detail?: string;
  validations?: { field: string }[];
}

const HOME = '/organizations/default/groups';
const make = async (name: string, more: object = {}) => {
  const made = await server.api<Group>('POST', HOME, { body: { name, ...more } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
};
const patch = (group: Group, body: object, token?: string) =>
  server.api<Group & Refusal>('PATCH', `/groups/${group.id}`, { body, ...(token ? { token } : {}) });
const members = ({ members: list }: Group) => list.map(({ username }) => username);

test('creates, renames and deletes groups, and finds them by id and name', async () => {
  const made = await make('devs', { display_name: 'Developers', avatar_url: '/emojis/1f525.png', quota_allowance: 25 });
  assert.deepEqual(
    [made.display_name, made.avatar_url, made.quota_allowance, made.source, made.members, made.total_member_count],
    ['Developers', '/emojis/1f525.png', 25, 'user', [], 0],
  );
  assert.deepEqual([made.organization_id, made.organization_name], [home.id, home.name]);
  assert.deepEqual((await server.api<Group>('GET', `/groups/${made.id}`)).body, made);
  assert.deepEqual((await server.api<Group>('GET', `${HOME}/DEVS`)).body, made);
  for (const [body, status] of [
    [{ name: 'Devs' }, 409],
    [{ name: 'everyone' }, 400],
    [{ name: 'no good' }, 400],
    [{ name: 'x', quota_allowance: -1 }, 400],
    [{ name: 'x'.repeat(256) }, 400],
  ] as const) {
    assert.equal((await server.api('POST', HOME, { body })).status, status, JSON.stringify(body));
  }
  const changed = await patch(made, { name: 'devs', display_name: 'Engineers', quota_allowance: 30 });
  assert.deepEqual(
    [changed.body.name, changed.body.display_name, changed.body.quota_allowance],
    ['devs', 'Engineers', 30],
  );
  const other = await make('ops');
  const clash = await patch(other, { name: 'devs' });
  assert.deepEqual([clash.status, clash.body.validations?.map(({ field }) => field)], [409, ['name']]);
  assert.equal((await server.api('DELETE', `/groups/${other.id}`)).status, 200);
  assert.equal((await server.api('GET', `/groups/${other.id}`)).status, 404);
  assert.equal((await server.api('GET', '/groups/nonsense')).status, 400);
});

test('adds and removes members, who must be members of the organization', async () => {
  const group = await make('crew');
  const [ann, bob] = [await insertPerson(server, 'ann'), await insertPerson(server, 'bob')];
  const away = await insertPerson(server, 'away', [], { member: false });
  const added = await patch(group, { add_users: [bob.id, ann.id] });
  assert.deepEqual([members(added.body), added.body.total_member_count], [['ann', 'bob'], 2]);
  for (const body of [{ add_users: [ann.id] }, { add_users: [away.id] }, { remove_users: [away.id] }]) {
    assert.equal((await patch(group, body)).status, 412, JSON.stringify(body));
  }
  assert.deepEqual(members((await patch(group, { remove_users: [bob.id] })).body), ['ann']);
  // a person who leaves the organization leaves its groups
  assert.equal((await server.api('DELETE', '/organizations/default/members/ann')).status, 204);
  assert.equal((await server.api<Group>('GET', `/groups/${group.id}`)).body.total_member_count, 0);
});

test('Everyone has all members of the organization, and only its allowance and picture change', async () => {
  const everyone = (await server.api<Group>('GET', `/groups/${home.id}`)).body;
  assert.equal(everyone.name, 'Everyone');
  const { count } = (await server.api<{ count: number }>('GET', '/organizations/default/paginated-members')).body;
  assert.equal(everyone.total_member_count, count);
  assert.equal((await patch(everyone, { name: 'all' })).status, 400);
  assert.equal((await patch(everyone, { remove_users: [everyone.members[0]!.id] })).status, 400);
  assert.equal((await server.api('DELETE', `/groups/${home.id}`)).status, 400);
  const raised = await patch(everyone, { name: 'Everyone', quota_allowance: 5, avatar_url: '/icon/coder.svg' });
  assert.deepEqual([raised.status, raised.body.quota_allowance], [200, 5]);
  const made = await server.api<Organization>('POST', '/organizations', { body: { name: 'second' } });
  const fresh = await server.api<Group[]>('GET', '/organizations/second/groups');
  assert.deepEqual(
    fresh.body.map(({ id, name, members: list }) => [id, name, list.length]),
    [[made.body.id, 'Everyone', 1]],
  );
});

test('filters by organization, member and id', async () => {
  const list = async (query: string, token?: string) =>
    (await server.api<Group[]>('GET', `/groups${query}`, token ? { token } : {})).body.map(({ name }) => name);
  const group = await make('filtered');
  const cat = await insertPerson(server, 'cat');
  await patch(group, { add_users: [cat.id] });
  assert.deepEqual(await list('?has_member=cat'), ['Everyone', 'filtered']);
  assert.deepEqual(await list(`?has_member=${cat.id}&organization=${home.name}`), ['Everyone', 'filtered']);
  assert.deepEqual(await list('?organization=second'), ['Everyone']);
  assert.deepEqual(await list('?organization=absent'), []);
  assert.deepEqual(await list(`?group_ids=${group.id}`), ['filtered']);
  assert.equal((await server.api('GET', '/groups?group_ids=x')).status, 400);
  // a member learns nothing about the groups of others
  const dan = await insertPerson(server, 'dan');
  assert.deepEqual(await list('?has_member=cat', dan.token), []);
  assert.deepEqual(await list('?has_member=me', cat.token), ['Everyone', 'filtered']);
});

test('lists the members of a group in pages, and searches them as it searches users', async () => {
  const group = await make('paged');
  const people = await Promise.all(['pia', 'paul', 'pete'].map((name) => insertPerson(server, name)));
  await patch(group, { add_users: people.map(({ id }) => id) });
  interface Page {
    users: { id: string; username: string }[];
    count: number;
  }
  const paul = people[1]!;
  const stranger = await insertPerson(server, 'quinn');
  for (const at of [`/groups/${group.id}/members`, `${HOME}/paged/members`]) {
    const page = async (query: string, token?: string) => {
      const { body } = await server.api<Page>('GET', `${at}?${query}`, token ? { token } : {});
      return [body.users.map(({ username }) => username), body.count];
    };
    // upstream's dashboard of 2.36 sends the first one
    assert.deepEqual(await page('limit=25&offset=0'), [['paul', 'pete', 'pia'], 3]);
    assert.deepEqual(await page('limit=1&offset=1'), [['pete'], 3]);
    assert.deepEqual(await page(`after_id=${paul.id}&q=pe`), [['pete'], 1]);
    assert.deepEqual(await page('q=status:suspended'), [[], 0]);
    assert.deepEqual(await page('q=service_account:true'), [[], 0]);
    assert.deepEqual(await page('q=service_account:false%20pa'), [['paul'], 1]);
    assert.deepEqual(await page('', paul.token), [['paul'], 1]);
    assert.equal((await server.api('GET', `${at}?q=nonsense:1`)).status, 400);
    assert.deepEqual(await page('', stranger.token), [[], 0]);
  }
  for (const at of [`/groups/${group.id}`, `${HOME}/paged`]) {
    const bare = (await server.api<Group>('GET', `${at}?exclude_members=true`)).body;
    assert.deepEqual([bare.members, bare.total_member_count], [[], 3]);
  }
});

test('members read the names of groups and only their own membership', async () => {
  const group = await make('closed');
  const [eve, fay] = [await insertPerson(server, 'eve'), await insertPerson(server, 'fay')];
  const as = { token: eve.token };
  const named = await server.api<Group>('GET', `/groups/${group.id}`, as);
  assert.deepEqual([named.status, members(named.body)], [200, []]);
  await patch(group, { add_users: [eve.id, fay.id] });
  const seen = await server.api<Group>('GET', `/groups/${group.id}`, as);
  assert.deepEqual([seen.status, members(seen.body), seen.body.total_member_count], [200, ['eve'], 2]);
  const all = (await server.api<Group[]>('GET', HOME, as)).body;
  const own = [
    ['Everyone', ['eve']],
    ['closed', ['eve']],
  ];
  assert.deepEqual(
    all.filter((one) => members(one).length > 0).map((one) => [one.name, members(one)]),
    own,
  );
  const setting = '/organizations/default/settings/workspace-sharing';
  const none = await server.api('PATCH', setting, { body: { shareable_workspace_owners: 'none' } });
  assert.equal(none.status, 200);
  await server.services.events.publish(server.services.sql, 'revoked', { user_ids: [eve.id] });
  const without = (await server.api<Group[]>('GET', HOME, as)).body;
  assert.deepEqual(
    without.map((one) => [one.name, members(one)]),
    own,
    'without sharing, members see only their own groups',
  );
  assert.equal((await server.api('PATCH', setting, { body: { shareable_workspace_owners: 'everyone' } })).status, 200);
  assert.equal((await patch(group, { quota_allowance: 1_000 }, eve.token)).status, 403);
  assert.equal((await server.api('DELETE', `/groups/${group.id}`, as)).status, 403);
  assert.equal((await server.api('POST', HOME, { ...as, body: { name: 'mine' } })).status, 403);
});

const acl = (template: Template, body: object, token?: string) =>
  server.api<Refusal>('PATCH', `/templates/${template.id}/acl`, { body, ...(token ? { token } : {}) });
const readAcl = (template: Template, token?: string) =>
  server.api<TemplateACL>('GET', `/templates/${template.id}/acl`, token ? { token } : {});

test('a group of a template gives its members access until they leave it', async () => {
  const template = await createTestTemplate(server, 'for-a-group');
  const group = await make('users');
  const gus = await insertPerson(server, 'gus');
  const names = async () =>
    (await server.api<Template[]>('GET', '/templates', { token: gus.token })).body.map(({ name }) => name);
  const read = async () => (await server.api('GET', `/templates/${template.id}`, { token: gus.token })).status;
  assert.deepEqual(
    (await readAcl(template)).body.group.map(({ name, role }) => [name, role]),
    [['Everyone', 'use']],
  );
  assert.equal((await acl(template, { group_perms: { [group.id]: 'use', [home.id]: '' } })).status, 200);
  assert.deepEqual([await names(), await read()], [[], 404]);
  await patch(group, { add_users: [gus.id] });
  assert.deepEqual([await names(), await read()], [['for-a-group'], 200]);
  await patch(group, { remove_users: [gus.id] });
  assert.deepEqual([await names(), await read()], [[], 404]);
  await patch(group, { add_users: [gus.id] });
  await server.api('DELETE', `/groups/${group.id}`);
  assert.deepEqual([await names(), await read()], [[], 404]);
  assert.deepEqual((await readAcl(template)).body, { users: [], group: [] });
});

test('changes a person’s permission on a template between use, admin and nothing', async () => {
  const template = await createTestTemplate(server, 'for-hal');
  const hal = await insertPerson(server, 'hal');
  const as = { token: hal.token };
  const rename = () => server.api('PATCH', `/templates/${template.id}`, { ...as, body: { description: 'Hal’s' } });
  await acl(template, { group_perms: { [home.id]: '' } });
  assert.equal((await rename()).status, 404);
  await acl(template, { user_perms: { [hal.id]: 'use' } });
  assert.equal((await rename()).status, 403);
  assert.equal((await readAcl(template, hal.token)).status, 403);
  assert.equal((await acl(template, { user_perms: { [hal.id]: 'admin' } }, hal.token)).status, 403);
  await acl(template, { user_perms: { [hal.id.toUpperCase()]: 'admin' } });
  assert.equal((await rename()).status, 200);
  const [own] = (await readAcl(template, hal.token)).body.users;
  assert.deepEqual([own!.username, own!.role, own!.organization_ids], ['hal', 'admin', [home.id]]);
  const found = (await server.api<ACLAvailable>('GET', `/templates/${template.id}/acl/available?q=ha`, as)).body;
  assert.deepEqual([found.users.map(({ username }) => username), found.groups], [['hal'], []]);
  await acl(template, { user_perms: { [hal.id]: '' } });
  assert.equal((await rename()).status, 404);
});

test('people who lose the permission on a template keep their workspaces, at the version that these have', async () => {
  const template = await createTestTemplate(server, 'for-ken');
  const ken = await insertPerson(server, 'ken');
  const finish = async () => {
    const own = await takeJob(server);
    const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
    await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  };
  const body = { name: 'kept', template_id: template.id };
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { token: ken.token, body });
  assert.equal(made.status, 201);
  await finish();
  const newer = await importedVersion(server, { template_id: template.id });
  const activate = { body: { id: newer.id } };
  assert.equal((await server.api('PATCH', `/templates/${template.id}/versions`, activate)).status, 200);
  const order = async (transition: string, more: object = {}) => {
    const path = `/workspaces/${made.body.id}/builds`;
    const answer = await server.api<WorkspaceBuild & Refusal>('POST', path, {
      token: ken.token,
      body: { transition, ...more },
    });
    if (answer.status === 201) await finish();
    return [answer.status, answer.body.template_version_id ?? answer.body.message] as const;
  };
  const updates = { token: ken.token, body: { automatic_updates: 'always' } };
  assert.equal((await server.api('PUT', `/workspaces/${made.body.id}/autoupdates`, updates)).status, 204);
  await acl(template, { group_perms: { [home.id]: '' } });
  assert.deepEqual(await order('stop'), [201, template.active_version_id]);
  assert.deepEqual(await order('start'), [201, template.active_version_id]);
  await order('stop');
  const [status, message] = await order('start', { template_version_id: newer.id });
  assert.equal(status, 403);
  assert.match(message, /can only have its current version/);
  const restart = { token: ken.token, body: { template_version_id: newer.id } };
  assert.equal((await server.api('POST', `/workspaces/${made.body.id}/restart`, restart)).status, 403);
  const requires = { body: { require_active_version: true } };
  assert.equal((await server.api('PATCH', `/templates/${template.id}`, requires)).status, 200);
  assert.match((await order('start')).join(), /^403,The template requires its active version/);
  await acl(template, { group_perms: { [home.id]: 'use' } });
  assert.deepEqual(await order('start'), [201, newer.id]);
  await acl(template, { group_perms: { [home.id]: '' } });
  assert.deepEqual(await order('delete'), [201, newer.id]);
});

test('rejects permissions for people and groups outside of the organization', async () => {
  const template = await createTestTemplate(server, 'for-nobody');
  const ivy = await insertPerson(server, 'ivy', [], { member: false });
  const [second] = (await server.api<Group[]>('GET', '/organizations/second/groups')).body;
  for (const body of [
    { user_perms: { [ivy.id]: 'use' } },
    { user_perms: { nonsense: 'use' } },
    { group_perms: { [second!.id]: 'use' } },
    { group_perms: { [home.id]: 'own' } },
  ]) {
    assert.equal((await acl(template, body)).status, 400, JSON.stringify(body));
  }
  const wrong = await acl(template, { user_perms: { [ivy.id]: 'use' } });
  assert.deepEqual(
    wrong.body.validations?.map(({ field }) => field),
    ['user_perms'],
  );
  assert.equal((await acl(template, { user_perms: { [ivy.id]: '' } })).status, 200);
});

test('a build knows the groups of the workspace’s owner in its organization', async () => {
  const owner = await insertPerson(server, 'builder');
  const group = await make('builders');
  assert.equal((await patch(group, { add_users: [owner.id] })).status, 200);
  const template = await createTestTemplate(server, 'grouped');
  const body = { name: 'dev', template_id: template.id };
  assert.equal((await server.api('POST', '/users/me/workspaces', { token: owner.token, body })).status, 201);
  const { type } = await acquiredJobMessage(server.services, (await takeJob(server)).job);
  assert.equal(type.case, 'workspaceBuild');
  const { metadata } = type.value as { metadata: { workspaceOwnerGroups: string[] } };
  assert.deepEqual(metadata.workspaceOwnerGroups, ['Everyone', 'builders']);
});
