import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestTemplate, startTestServer, startTestWorkspace, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
  await createTestTemplate(server, 'docker', { presets: [{ name: 'Big', parameters: [] }] });
});
after(() => server.stop());

async function run(...argv: string[]): Promise<string> {
  const { code, stdout, stderr } = await invoke(argv, {
    CODER_URL: server.url,
    CODER_SESSION_TOKEN: server.adminToken,
  });
  assert.equal(code, 0, stderr);
  return stdout;
}
const json = async <T>(...argv: string[]) => JSON.parse(await run(...argv, '-o', 'json')) as T;

test('lists of templates, versions and presets have the form of upstream’s JSON', async () => {
  const [template, ...others] = await json<{ Template: { name: string } }[]>('templates', 'list');
  assert.deepEqual([Object.keys(template!), template!.Template.name, others], [['Template'], 'docker', []]);
  const [version] = await json<{ TemplateVersion: { name: string }; active: boolean }[]>(
    'templates',
    'versions',
    'list',
    'docker',
  );
  assert.deepEqual([Object.keys(version!), version!.active], [['TemplateVersion', 'active'], true]);
  assert.equal('active' in version!.TemplateVersion, false);
  const [preset] = await json<{ TemplatePreset: { Name: string } }[]>('templates', 'presets', 'list', 'docker');
  assert.deepEqual([Object.keys(preset!), preset!.TemplatePreset.Name], [['TemplatePreset'], 'Big']);
});

test('users show names the organizations', async () => {
  const user = await json<{ username: string; organization_ids: string[]; organization_names: string[] }>(
    'users',
    'show',
    'me',
  );
  assert.deepEqual([user.username, user.organization_ids.length, user.organization_names], ['admin', 1, ['coder']]);
  assert.match(await run('users', 'show', 'me'), /^Organizations\s+coder$/m);
});

test('list shows upstream’s words for the status, and JSON the status of the API', async (t) => {
  const dev = await startTestWorkspace(server, 'dev');
  t.after(() => dev.stop());
  assert.match(await run('list', '-c', 'workspace,status'), /^admin\/dev\s+Started$/m);
  const [one] = await json<{ latest_build: { status: string } }[]>('list');
  assert.equal(one!.latest_build.status, 'running');
});

test('list names workspaces whose agents have another version than the server, next to the rows', async (t) => {
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const dev = await startTestWorkspace(server, 'aged');
  t.after(() => dev.stop());
  const argv = ['list', '-c', 'workspace,status'];
  await server.services.sql`UPDATE workspace_agents SET version = ''`;
  const before = await invoke(argv, env);
  assert.doesNotMatch(before.stderr, /Not the server's version/);
  await server.services.sql`UPDATE workspace_agents SET version = 'v1.2.3' WHERE id = ${dev.agentId}`;
  const { code, stdout, stderr } = await invoke(argv, env);
  assert.equal(code, 0, stderr);
  assert.equal(stdout, before.stdout, 'scripts read the rows');
  assert.match(
    stderr,
    /^Not the server's version, v\S+: agents of admin\/aged \(v1\.2\.3\)\. Restart these workspaces to update their agents\.$/m,
  );
  assert.doesNotMatch((await invoke([...argv, '-o', 'json'], env)).stderr, /Not the server's version/);
});
