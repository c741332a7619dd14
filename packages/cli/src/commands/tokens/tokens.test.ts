import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { APIKeyWithOwner } from '@ropewalk/contract';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let token: string;
before(async () => {
  server = await startTestServer();
  ({ token } = await insertPerson(server, 'ann'));
});
after(() => server.stop());

const run = (args: string) => invoke(args.split(' '), { CODER_URL: server.url, CODER_SESSION_TOKEN: token }, '');
const coder = async (args: string) => {
  const done = await run(args);
  assert.equal(done.code, 0, done.stderr);
  return done.stdout;
};
const WORKSPACE = 'workspace:11111111-0000-4000-8000-000000000001';

test('creates a token with scopes and an allow list, and shows both', async () => {
  const key = (
    await coder(`tokens create -n ci --scope workspace:read --scope workspace:start --allow ${WORKSPACE}`)
  ).trim();
  assert.match(key, /^\w{10}-\w{22}$/);
  const [id] = key.split('-');
  const listed = await coder('tokens list');
  assert.match(listed, /^ID +NAME +SCOPES +ALLOW LIST +LAST USED +EXPIRES AT +CREATED AT *\n/);
  assert.ok(listed.includes('workspace:read, workspace:start'), listed);
  for (const name of ['ci', id]) {
    const shown = await coder(`tokens view ${name} -c id,scopes -c allow_list`.replace('allow_list', 'name'));
    assert.ok(
      shown.includes(`${id}`) && shown.includes('workspace:read, workspace:start') && shown.includes('ci'),
      shown,
    );
  }
  const [json] = JSON.parse(await coder('tokens view ci -o json')) as APIKeyWithOwner[];
  assert.deepEqual([json!.scopes, json!.allow_list], [['workspace:read', 'workspace:start'], [WORKSPACE]]);
});

test('names an unknown scope and a malformed entry', async () => {
  const scope = await run('tokens create --scope workspace:fly');
  assert.ok(scope.code !== 0 && scope.stderr.includes('workspace:fly'), scope.stderr);
  const entry = await run('tokens create --allow workspace:dev');
  assert.ok(entry.code !== 0 && entry.stderr.includes('must be UUID'), entry.stderr);
});

test('expires a token, which only --include-expired lists, or deletes it', async () => {
  const key = (await coder('tokens create -n old')).trim();
  assert.match(await coder(`tokens rm ${key}`), /has expired/);
  const names = async (flags: string) =>
    (JSON.parse(await coder(`tokens ls -o json${flags}`)) as APIKeyWithOwner[]).map((one) => one.token_name);
  assert.ok(!(await names('')).includes('old'));
  assert.ok((await names(' --include-expired')).includes('old'));
  assert.match(await coder('tokens rm old --delete'), /has been deleted/);
  assert.ok(!(await names(' --include-expired')).includes('old'));
});
