import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Organization } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const coder = (args: string, token = server.adminToken) =>
  invoke(args.split(' '), { CODER_URL: server.url, CODER_SESSION_TOKEN: token });

async function list(token?: string): Promise<string[]> {
  const { code, stdout, stderr } = await coder('organizations list -o json', token);
  assert.equal(code, 0, stderr);
  return (JSON.parse(stdout) as Organization[]).map(({ name }) => name);
}

test('lists the organizations that the person may read', async () => {
  assert.equal((await coder('organizations create acme -y')).code, 0);
  assert.deepEqual(await list(), ['coder', 'acme']);
  const table = await coder('orgs ls');
  assert.match(table.stdout, /^NAME +DISPLAY NAME +ID +DEFAULT\ncoder +.* +\S{36} +true\nacme +acme +\S{36} +false\n$/);
  const member = await insertPerson(server, 'member');
  assert.deepEqual(await list(member.token), ['coder']);
});

test('deletes an empty organization, after a question', async () => {
  await server.api('POST', '/organizations', { body: { name: 'gone' } });
  const { body: full } = await server.api<Organization>('POST', '/organizations', { body: { name: 'full' } });
  const template = await createTestTemplate(server, 'docker', {});
  await server.services.sql`UPDATE templates SET organization_id = ${full.id} WHERE id = ${template.id}`;
  const member = await insertPerson(server, 'other');
  for (const [args, message, token] of [
    ['organizations delete gone', /^error: Delete the organization gone\? Cannot ask without a terminal\./],
    [
      'organizations delete coder -y',
      /^error: Cannot delete the organization coder: it is the default organization\.\n/,
    ],
    ['organizations delete never -y', /^error: Organization "never" not found, or you don't have access to it\.\n/],
    ['organizations delete full -y', /not empty\. Delete its workspaces and templates first/],
    ['organizations delete gone -y', /^error: Organization "gone" not found/, member.token],
  ] as const) {
    const { code, stdout, stderr } = await coder(args, token);
    assert.deepEqual([code, stdout], [1, ''], args);
    assert.match(stderr, message, args);
  }
  assert.ok((await list()).includes('gone'));
  const deleted = await coder('orgs rm gone --yes');
  assert.deepEqual(deleted, { code: 0, stdout: 'The organization gone has been deleted.\n', stderr: '' });
  assert.ok(!(await list()).includes('gone'));
});
