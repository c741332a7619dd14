import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AssignableRoles, Group, Role } from '@ropewalk/contract';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const coder = (args: string, stdin = '') =>
  invoke(args.split(' '), { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken }, stdin);

test('creates, changes, lists and deletes groups', async () => {
  const [ann] = [await insertPerson(server, 'ann'), await insertPerson(server, 'bob')];
  const made = await coder('groups create devs --display-name Developers -u /emojis/1f525.png --quota-allowance 40');
  assert.deepEqual([made.code, made.stderr], [0, '']);
  assert.match(made.stdout, /The group devs has been created in coder/);
  assert.equal((await coder(`group edit devs -a bob@example.com,${ann.id}`)).code, 0);
  const listed = await coder('groups list');
  assert.match(listed.stdout, /Everyone/);
  assert.match(listed.stdout, /devs +Developers .*ann@example.com, bob@example.com +\/emojis\/1f525.png/);
  const renamed = await coder('groups edit devs -n ops -r ANN --quota-allowance 0');
  assert.match(renamed.stdout, /The group ops has been changed/);
  const [, row] = JSON.parse((await coder('groups list -o json')).stdout) as { Group: Group }[];
  const group = row!.Group;
  assert.deepEqual(
    [group.name, group.display_name, group.quota_allowance, group.members.map(({ username }) => username)],
    ['ops', 'Developers', 0, ['bob']],
  );
  for (const [args, words] of [
    ['groups edit ops', /Nothing to change: use --name/],
    ['groups edit ops -a eve', /"eve" is not a member of coder/],
    ['groups edit absent -n x', /Group "absent" not found in coder/],
    ['groups create ops', /already exists/],
  ] as const) {
    const failed = await coder(args);
    assert.deepEqual([failed.code, failed.stdout], [1, ''], args);
    assert.match(failed.stderr, words);
  }
  assert.equal((await coder('groups rm ops')).code, 0);
  assert.doesNotMatch((await coder('groups list')).stdout, /ops/);
});

test('creates and changes custom roles from flags and from JSON', async () => {
  const made = await coder('org roles create janitor --permissions workspace:read,workspace:stop -y');
  assert.deepEqual([made.code, made.stderr], [0, '']);
  const shown = JSON.parse((await coder('org roles show janitor -o json')).stdout) as AssignableRoles[];
  const permissions = ({ organization_permissions: list }: Role) =>
    list.map(({ resource_type, action }) => `${resource_type}:${action}`).sort();
  assert.deepEqual(permissions(shown[0]!), ['workspace:read', 'workspace:stop']);
  const edited = [{ ...shown[0]!, display_name: 'Janitor' }];
  edited[0]!.organization_permissions.push({ resource_type: 'template', action: 'read', negate: false });
  const dry = await coder('org roles update janitor --stdin --dry-run', JSON.stringify(edited));
  assert.match(dry.stdout, /Janitor .*3 permissions/);
  assert.match((await coder('org roles show janitor')).stdout, /2 permissions/);
  const changed = await coder('org roles update JANITOR --stdin -o json', JSON.stringify(edited));
  assert.equal(permissions((JSON.parse(changed.stdout) as Role[])[0]!).length, 3);
  const renamed = await coder('org roles update janitor --display-name Caretaker -y -o json');
  assert.deepEqual(permissions((JSON.parse(renamed.stdout) as Role[])[0]!).length, 3);
  for (const [args, stdin, words] of [
    ['org roles create x --permissions nothing:read', '', /Unknown resource in "nothing:read"/],
    ['org roles create x --permissions file:ssh', '', /Actions of file: create, read, \*/],
    ['org roles create x --stdin', '[{"name": "a"}, {"name": "b"}]', /has 2 roles/],
    ['org roles create x --stdin', 'nonsense', /not valid JSON/],
    ['org roles create x --stdin', '{"name": "y"}', /is "y", not "x"/],
    ['org roles create x -y', '', /set --permissions or --stdin/],
    ['org roles update organization-admin -y', '', /built-in role/],
  ] as const) {
    const failed = await coder(args, stdin);
    assert.deepEqual([failed.code, failed.stdout], [1, ''], args);
    assert.match(failed.stderr, words);
  }
});

test('shows and replaces the sync with the identity provider', async () => {
  const shown = await coder('organizations settings show group-sync');
  assert.deepEqual([shown.code, shown.stderr], [0, '']);
  const settings = { ...(JSON.parse(shown.stdout) as object), field: 'groups', auto_create_missing_groups: true };
  const set = await coder('org setting set groupsync', JSON.stringify(settings));
  assert.deepEqual(JSON.parse(set.stdout), settings);
  assert.deepEqual(JSON.parse((await coder('organizations settings show group-sync')).stdout), settings);
  const roles = await coder(
    'organizations settings set role-sync',
    '{"field":"roles","mapping":{"a":["organization-admin"]}}',
  );
  assert.deepEqual(JSON.parse(roles.stdout), { field: 'roles', mapping: { a: ['organization-admin'] } });
  const broken = await coder('organizations settings set org-sync', 'x');
  assert.deepEqual([broken.code, broken.stdout], [1, '']);
  assert.match(broken.stderr, /does not contain a JSON object/);
  const organizations = await coder(
    'organizations settings set org-sync',
    '{"field":"orgs","organization_assign_default":true}',
  );
  assert.deepEqual(JSON.parse(organizations.stdout), { field: 'orgs', mapping: {}, organization_assign_default: true });
});
