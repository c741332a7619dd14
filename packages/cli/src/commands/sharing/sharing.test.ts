import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let owner: string;
let guest: string;
before(async () => {
  server = await startTestServer();
  ({ token: owner } = await insertPerson(server, 'olga'));
  ({ token: guest } = await insertPerson(server, 'uma'));
  await insertPerson(server, 'adam');
  assert.equal((await server.api('POST', '/organizations/default/groups', { body: { name: 'team' } })).status, 201);
  const { id } = await createTestTemplate(server, 'base');
  const body = { name: 'dev', template_id: id };
  assert.equal((await server.api('POST', '/users/me/workspaces', { token: owner, body })).status, 201);
});
after(() => server.stop());

const run = (args: string, token = owner, stdin = '') =>
  invoke(args.split(' '), { CODER_URL: server.url, CODER_SESSION_TOKEN: token }, stdin);
async function coder(args: string, token?: string, stdin?: string): Promise<string> {
  const { code, stdout, stderr } = await run(args, token, stdin);
  assert.equal(code, 0, stderr);
  return stdout;
}
async function fails(args: string, why: RegExp, token?: string): Promise<void> {
  const { code, stderr } = await run(args, token);
  assert.ok(code !== 0, args);
  assert.match(stderr, why);
}
/** The cells of a table, without its head. */
const cells = (table: string) =>
  table
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.split(/ {2,}/).map((cell) => cell.trim()));

test('shares a workspace, shows it, finds it, and takes it back', async () => {
  assert.equal(await coder('sharing status dev -o json'), '[]\n');
  const added = await coder('sharing add dev --user adam:admin,uma --group team');
  assert.match(added, /^USER +GROUP +ROLE/);
  const all = [
    ['adam', '-', 'admin'],
    ['uma', '-', 'use'],
    ['-', 'team', 'use'],
  ];
  assert.deepEqual(cells(added), all);
  assert.deepEqual(cells(await coder('sharing list olga/dev', guest)), all);
  for (const search of ['shared:true', 'shared_with_user:me'])
    assert.match(await coder(`list --search ${search}`, guest), /olga\/dev/);
  assert.deepEqual(JSON.parse(await coder('share unshare dev --user adam --group team -o json')), [
    { user: 'uma', group: '-', role: 'use' },
  ]);
  await fails('sharing remove olga/dev --user uma', /You may not share this workspace/, guest);
  assert.deepEqual(cells(await coder('sharing rm dev --user uma')), []);
  await fails('sharing status olga/dev', /not found/, guest);
});

test('says what is wrong with a share before anything changes', async () => {
  await fails('sharing add dev', /name people with --user or groups with --group/);
  await fails('sharing add dev --user uma:boss', /Invalid share "uma:boss": use NAME, NAME:use or NAME:admin/);
  await fails('sharing add dev --user uma,nobody', /"nobody" is not a member/);
  await fails('sharing add dev --group crowd', /Group "crowd" not found/);
  assert.equal(await coder('sharing status dev -o json'), '[]\n');
});

test('shows and sets whose workspaces can be shared in an organization', async () => {
  const admin = server.adminToken;
  const setting = 'organizations settings';
  assert.equal(JSON.parse(await coder(`${setting} show workspace-sharing`)).shareable_workspace_owners, 'everyone');
  const none = '{"shareable_workspace_owners": "none", "sharing_globally_disabled": false}';
  assert.equal(JSON.parse(await coder(`${setting} set workspace-sharing`, admin, none)).sharing_disabled, true);
  await fails('sharing add dev --group team', /sharing is disabled for this organization/);
});
