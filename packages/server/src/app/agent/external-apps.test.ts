import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { AppLink, Workspace, WorkspaceAgent, WorkspaceBuild } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../job/complete.ts';

interface Refusal {
  message: string;
  detail: string;
}
let server: TestServer;
let owner: { id: string; token: string };
/** The agent of a workspace that its owner started, and of one that another person started for the same owner. */
let own: WorkspaceAgent;
let foreign: WorkspaceAgent;

const LINKS = {
  site: 'https://example.com/?t=$SESSION_TOKEN',
  'site-caps': 'HTTPS://example.com/?t=$SESSION_TOKEN',
  plain: 'http://example.com/?t=$SESSION_TOKEN',
  script: 'javascript:fetch("//x/$SESSION_TOKEN")',
  coder: 'coder://x?t=$SESSION_TOKEN',
  spaced: ' vscode-evil://x?t=$SESSION_TOKEN',
  bare: 'x?t=$SESSION_TOKEN',
  nested: 'https://example.com/?t=$SESSION$SESSION_TOKEN_TOKEN',
  docs: 'https://example.com/docs',
  clone: 'vscode://vscode.git/clone?url=https://example.com/$SESSION_TOKEN',
  extension: 'vscode://evil.extension/open?token=$SESSION_TOKEN',
  authority: 'vscode://coder.coder-remote@evil/open?token=$SESSION_TOKEN',
  suffix: 'vscode://coder.coder-remote.evil/open?token=$SESSION_TOKEN',
  elsewhere: 'vscode://coder.coder-remote/open?url=https%3A%2F%2Fevil.example.com&token=$SESSION_TOKEN',
  'elsewhere-twice': 'cursor://coder.coder-remote/open?url=SERVER&url=https://evil.example.com&token=$SESSION_TOKEN',
  'elsewhere-caps': 'cursor://coder.coder-remote/open?URL=//evil.example.com&token=$SESSION_TOKEN',
  'elsewhere-ide': 'jetbrains-gateway://connect#type=coder&url=https://evil.example.com&token=$SESSION_TOKEN',
  'elsewhere-box': 'jetbrains://gateway/coder?workspace=a#url=https://evil.example.com&token=$SESSION_TOKEN',
  'other-type': 'jetbrains-gateway://connect#type=ssh&host=evil&token=$SESSION_TOKEN',
  'two-types': 'jetbrains-gateway://connect#type=coder&type=ssh&host=evil&token=$SESSION_TOKEN',
  'other-box': 'jetbrains://idea/checkout/git?checkout.repo=https://example.com/$SESSION_TOKEN',
  code: 'vscode://coder.coder-remote/open?token=$SESSION_TOKEN&again=$SESSION_TOKEN',
  // as upstream's modules write them
  windsurf:
    'windsurf://coder.coder-remote/open?owner=o&workspace=w&folder=/a&openRecent&url=SERVER&token=$SESSION_TOKEN',
  ide: 'jetbrains-gateway://connect#type=coder&workspace=w&owner=o&folder=/a&url=SERVER&token=$SESSION_TOKEN&ide_product_code=IU',
  box: 'jetbrains://gateway/coder?&workspace=w&owner=o&folder=/a&url=SERVER/&token=$SESSION_TOKEN&agent_name=main',
};
const EDITORS = ['code', 'windsurf', 'ide', 'box'];
/** The link of an app, with the address of the server. */
const linkOf = (slug: string): string =>
  LINKS[slug as keyof typeof LINKS].replaceAll('SERVER', server.services.accessUrl);

async function agentOf(token: string, template: string, name: string): Promise<WorkspaceAgent> {
  const made = await server.api<Workspace>('POST', `/users/${owner.id}/workspaces`, {
    token,
    body: { name, template_id: template },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { job, ...taken } = await takeJob(server);
  const apps = Object.keys(LINKS).map((slug) => ({ slug, url: linkOf(slug), external: true }));
  const agent = { id: crypto.randomUUID(), name: 'main', apps: [...apps, { slug: 'web', url: 'http://localhost:1' }] };
  const auth = { case: 'token' as const, value: crypto.randomUUID() };
  const value = { resources: [{ name: 'machine', type: 'vm', agents: [{ ...agent, auth }] }] };
  const done = { jobId: job.id, type: { case: 'workspaceBuild' as const, value } };
  await completeJob(server.services, taken, create(CompletedJobSchema, done));
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${made.body.latest_build.id}`);
  return body.resources[0]!.agents![0]!;
}

before(async () => {
  server = await startTestServer();
  owner = await insertPerson(server, 'olga');
  const { id } = await createTestTemplate(server, 'links');
  own = await agentOf(owner.token, id, 'own');
  foreign = await agentOf(server.adminToken, id, 'foreign');
});
after(() => server.stop());

const open = (agent: WorkspaceAgent, slug: string, token = owner.token) =>
  server.api<AppLink & Refusal>('POST', `/workspaceagents/${agent.id}/app-link`, { token, body: { slug } });
const keys = async () => Number((await server.services.sql`SELECT count(*) AS n FROM api_keys`)[0]!['n']);

test('an editor of the template gets a session token of the owner who opens it', async () => {
  const recorded = async () =>
    Number(
      (
        await server.services.sql`SELECT count(*) AS n FROM audit_logs
      WHERE resource_type = 'api_key' AND action = 'create' AND user_id = ${owner.id}`
      )[0]!['n'],
    );
  const before = await recorded();
  for (const slug of EDITORS) {
    const { status, body } = await open(own, slug);
    assert.equal(status, 201, JSON.stringify(body));
    const [token] = /\w{10}-\w{22}/.exec(body.url)!;
    assert.equal(body.url, linkOf(slug).replaceAll('$SESSION_TOKEN', token));
    assert.equal((await server.api('GET', '/users/me', { token })).status, 200);
  }
  assert.deepEqual((await open(own, 'docs')).body, { url: LINKS.docs });
  assert.equal(await recorded(), before + EDITORS.length);
});

test('nothing else gets one: sites, scripts, other programs, other people, workspaces that their owner never started', async () => {
  const stranger = await insertPerson(server, 'stranger');
  const before = await keys();
  const refused = async (answer: ReturnType<typeof open>, why: RegExp) => {
    const { status, body } = await answer;
    assert.equal(status, 403, JSON.stringify(body));
    assert.match(`${body.message} ${body.detail}`, why);
  };
  for (const slug of Object.keys(LINKS).filter((each) => each !== 'docs' && !EDITORS.includes(each))) {
    await refused(
      open(own, slug),
      /Only links that open an editor with this server, .*, get a token: antigravity:\/\/coder\.coder-remote\/open,/,
    );
  }
  await refused(open(own, 'code', server.adminToken), /Only olga, who owns the workspace, can open it\./);
  await refused(open(foreign, 'code'), /admin started it, not olga\. olga can restart the workspace/);
  assert.equal((await open(own, 'web')).status, 404);
  assert.equal((await open(own, 'none')).status, 404);
  assert.equal((await open(own, 'code', stranger.token)).status, 404);
  assert.equal(await keys(), before);
});

test('an app that the workspace itself added gets no token, not even an editor', async () => {
  const { sql } = server.services;
  const child = crypto.randomUUID();
  await sql`INSERT INTO workspace_agents (id, parent_id, resource_id, name, auth_token, architecture, operating_system)
    SELECT ${child}, id, resource_id, 'child', gen_random_uuid(), 'amd64', 'linux' FROM workspace_agents WHERE id = ${own.id}`;
  await sql`INSERT INTO workspace_apps (id, agent_id, slug, url, external, sharing_level, health)
    VALUES (gen_random_uuid(), ${child}, 'code', ${LINKS.code}, true, 'owner', 'disabled')`;
  const { body: agent } = await server.api<WorkspaceAgent>('GET', `/workspaceagents/${child}`, { token: owner.token });
  assert.equal(agent.apps[0]!.url, 'vscode://coder.coder-remote/open?token=&again=');
  const { status, body } = await open(agent, 'code');
  assert.equal(status, 403);
  assert.equal(
    body.detail,
    'A program in the workspace added the app. Only apps that the template declares get a token.',
  );
});

test('only links of editors are listed with a place for a token, and to their owner, as upstream’s programs fill it', async () => {
  const listed = async (token: string) =>
    (await server.api<WorkspaceAgent>('GET', `/workspaceagents/${own.id}`, { token })).body.apps;
  for (const { slug, url, external } of await listed(owner.token)) {
    if (!external) continue;
    if (EDITORS.includes(slug)) assert.equal(url, linkOf(slug));
    else assert.ok(!url!.includes('$SESSION_TOKEN'), `${slug}: ${url}`);
  }
  const asAdmin = [
    await listed(server.adminToken),
    ...(await Promise.all(
      ['/workspaces?q=name:own', '/workspaces?q=owner:olga'].map(async (path) => {
        const { body } = await server.api<{ workspaces: Workspace[] }>('GET', path);
        return body.workspaces.flatMap(({ latest_build }) => latest_build.resources[0]!.agents![0]!.apps);
      }),
    )),
  ].flat();
  assert.ok(asAdmin.some(({ slug }) => slug === 'code'));
  for (const { slug, url } of asAdmin) assert.ok(!url!.includes('$SESSION_TOKEN'), `${slug}: ${url}`);
});

test('an app of a sub-agent that the template declares is listed like one of the template', async () => {
  const { sql } = server.services;
  const child = crypto.randomUUID();
  await sql`INSERT INTO workspace_agents (id, parent_id, resource_id, name, auth_token, architecture, operating_system)
    SELECT ${child}, id, resource_id, 'declared', gen_random_uuid(), 'amd64', 'linux' FROM workspace_agents WHERE id = ${own.id}`;
  await sql`INSERT INTO workspace_agent_devcontainers (id, workspace_agent_id, name, workspace_folder, config_path, subagent_id)
    VALUES (gen_random_uuid(), ${own.id}, 'declared', '/a', '', ${child})`;
  await sql`INSERT INTO workspace_apps (id, agent_id, slug, url, external, sharing_level, health)
    VALUES (gen_random_uuid(), ${child}, 'code-declared', ${LINKS.code}, true, 'owner', 'disabled')`;
  const { body: agent } = await server.api<WorkspaceAgent>('GET', `/workspaceagents/${child}`, { token: owner.token });
  assert.equal(agent.apps[0]!.url, LINKS.code);
  assert.equal((await open(agent, 'code-declared')).status, 201);
});
