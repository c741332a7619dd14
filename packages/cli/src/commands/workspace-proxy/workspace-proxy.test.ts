import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { UpdateWorkspaceProxyResponse, WorkspaceProxy } from '@ropewalk/contract';
import { ADMIN, insertPerson, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let owner: string;
let member: string;
before(async () => {
  server = await startTestServer();
  owner = await logIn(server, ADMIN.email, ADMIN.password);
  ({ token: member } = await insertPerson(server, 'ann'));
});
after(() => server.stop());

const run = (args: string, token = owner) =>
  invoke(['wsproxy', ...args.split(' ')], { CODER_URL: server.url, CODER_SESSION_TOKEN: token }, '');
async function coder(args: string, token?: string): Promise<string> {
  const done = await run(args, token);
  assert.equal(done.code, 0, done.stderr);
  return done.stdout;
}
async function fails(args: string, why: RegExp, token?: string): Promise<void> {
  const { code, stderr } = await run(args, token);
  assert.ok(code !== 0, args);
  assert.match(stderr, why);
}
/** Whether a proxy can use the token. */
const works = async (token: string) =>
  (
    await server.api('GET', '/workspaceproxies/me/crypto-keys?feature=workspace_apps_token', {
      token: null,
      headers: { 'Coder-External-Proxy-Token': token },
    })
  ).status === 200;

test('creates, lists, changes and deletes proxies, and replaces a token', async () => {
  const text = await coder('create --name eu --display-name Europe --icon /emojis/1f5fa.png');
  const first = /^ {2}(\S+:\w{64})$/m.exec(text)![1]!;
  assert.match(text, /^Created workspace proxy eu\.\nSave its token, which is not shown again:\n/);
  assert.ok(text.includes(`coder wsproxy server --primary-access-url ${server.url} --access-url`), text);
  assert.ok(await works(first));
  const second = (await coder('regenerate-token eu --only-token')).trim();
  assert.deepEqual([await works(first), await works(second)], [false, true]);
  const { proxy, proxy_token: third } = JSON.parse(
    await coder('regenerate-token eu -o json'),
  ) as UpdateWorkspaceProxyResponse;
  assert.ok(await works(third));
  assert.match(await coder('create --name us --no-prompt -o table'), /^NAME +URL +PROXY TOKEN *\nus +\S+:\w{64}/);
  const table = await coder('ls');
  assert.match(table, /^NAME +URL +PROXY STATUS *\nprimary +http:\S+ +ok *\neu +unregistered *\nus +unregistered/);
  assert.match(await coder('list -c name,healthy', member), /^NAME +HEALTHY *\nprimary +true *\neu +false/);
  const all = JSON.parse(await coder('ls -o json')) as WorkspaceProxy[];
  assert.deepEqual(
    all.map(({ name }) => name),
    ['primary', 'eu', 'us'],
  );
  assert.match(await coder('ls -o text'), /^primary {2}http:\S+ {2}ok\neu {2}unregistered\n/);
  assert.equal(await coder('edit eu --name eu-2 --icon /emojis/1f3e1.png'), 'Changed workspace proxy eu-2.\n');
  const edited = JSON.parse(await coder(`edit ${proxy.id} --display-name West -o json`)) as WorkspaceProxy;
  assert.deepEqual([edited.name, edited.display_name, edited.icon_url], ['eu-2', 'West', '/emojis/1f3e1.png']);
  assert.match(await coder('edit primary --display-name Home -o table'), /^NAME +URL *\nprimary +http/);
  assert.equal(await coder('delete eu-2 -y'), 'Deleted workspace proxy eu-2.\n');
  assert.equal(await works(third), false);
  await coder('delete us -y');
});

test('explains what is missing, wrong or not allowed', async () => {
  await fails('create', /Missing the name of the proxy: set --name/);
  await fails('create --name eu --icon eu.png', /The icon must be the path of an emoji/);
  await fails('create --name primary', /"primary" is reserved/);
  await fails('create --name eu', /You may not create this workspace proxy/, member);
  await fails('edit primary', /Nothing to change: set --name, --display-name or --icon/);
  await fails('edit absent --name x', /Workspace proxy "absent" not found/);
  await fails('regenerate-token primary', /The primary region has no token/);
  await fails('delete primary -y', /The primary region cannot be deleted/);
  await fails('delete absent', /Workspace proxy "absent" not found/);
});
