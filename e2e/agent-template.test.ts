import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeTestCloud, type TestCloud } from '@ropewalk/server/app/agent/identity/testing/fixtures';
import { connect } from '@ropewalk/server/db/connect';
import {
  buildEnds,
  createWorkspace,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

const TEMPLATE = `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
data "coder_workspace" "me" {}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  resources_monitoring {
    memory {
      enabled   = true
      threshold = 80
    }
    volume {
      path      = "/home"
      enabled   = true
      threshold = 90
    }
    volume {
      path      = "/var"
      enabled   = false
      threshold = 95
    }
  }
}
resource "coder_devcontainer" "app" {
  count            = data.coder_workspace.me.start_count
  agent_id         = coder_agent.main.id
  workspace_folder = "/src/app"
}
resource "coder_agent" "cloud" {
  os   = "linux"
  arch = "amd64"
  auth = "aws-instance-identity"
}
resource "coder_agent_instance" "cloud" {
  agent_id    = coder_agent.cloud.id
  instance_id = "i-from-the-template"
}
resource "terraform_data" "machine" {
  count = data.coder_workspace.me.start_count
  input = [coder_agent.main.id, coder_agent.cloud.id]
}
`;

let cloud: TestCloud;
let server: ServerProcess;
before(async () => {
  cloud = makeTestCloud();
  server = await startCoderServer({
    env: { CODER_AWS_INSTANCE_IDENTITY_CERTIFICATES: cloud.aws, CODER_PROVISIONER_DAEMONS: '1' },
  });
  await firstUser(server);
});
after(async () => {
  await server.stop();
  cloud.remove();
});

test("the server stores an agent's monitors, dev containers and machine from the template", async () => {
  const template = await makeTemplate(server, 'agents', { 'main.tf': TEMPLATE });
  const workspace = await createWorkspace(server, template, 'dev');
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.job.status, 'succeeded', build.job.error ?? '');
  const sql = connect(server.databaseUrl!, { max: 1 });
  try {
    const monitors = await sql`SELECT m.path, m.enabled, m.threshold FROM workspace_agent_monitors m
      JOIN workspace_agents a ON a.id = m.agent_id JOIN workspace_resources r ON r.id = a.resource_id
      WHERE r.job_id = ${build.job.id} ORDER BY m.path`;
    assert.deepEqual(
      [...monitors],
      [
        { path: '', enabled: true, threshold: 80 },
        { path: '/home', enabled: true, threshold: 90 },
        { path: '/var', enabled: false, threshold: 95 },
      ],
    );
    const scripts = await sql<{ display_name: string; script: string }[]>`SELECT s.display_name, s.script
      FROM workspace_agent_devcontainers d JOIN workspace_agent_scripts s ON s.id = d.id
      JOIN workspace_agents a ON a.id = d.workspace_agent_id JOIN workspace_resources r ON r.id = a.resource_id
      WHERE r.job_id = ${build.job.id}`;
    assert.deepEqual(
      scripts.map(({ display_name: name }) => name),
      ['Dev Container (app)'],
    );
    assert.match(scripts[0]!.script, /devcontainer up --workspace-folder '\/src\/app'/);
  } finally {
    await sql.end();
  }
  const document = JSON.stringify({ instanceId: 'i-from-the-template', region: 'eu-test-1' });
  const { status, body } = await server.api<{ session_token: string }>(
    'POST',
    '/workspaceagents/aws-instance-identity',
    { document, signature: cloud.awsSign(document) },
  );
  assert.equal(status, 200, JSON.stringify(body));
  assert.match(body.session_token, /^[0-9a-f-]{36}$/);
});

const MACHINE = `
data "coder_workspace" "me" {}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  auth = "google-instance-identity"
}
resource "terraform_data" "machine" {
  triggers_replace = { user_data = coder_agent.main.init_script }
}
resource "terraform_data" "container" {
  count = data.coder_workspace.me.start_count
  input = coder_agent.main.token
}
`;

test('a machine that boots with the init script works again after a stop and a start', async () => {
  const template = await makeTemplate(server, 'machines', { 'main.tf': MACHINE });
  const workspace = await createWorkspace(server, template, 'vm');
  const machineOf = async (buildId: string) => {
    const build = await buildEnds(server, buildId);
    assert.equal(build.job.status, 'succeeded', build.job.error ?? '');
    const { body } = await server.api<{
      resources: { name: string; instances: { attributes: { id: string } }[] }[];
    }>('GET', `/workspacebuilds/${buildId}/state`);
    return body.resources.find(({ name }) => name === 'machine')?.instances[0]?.attributes.id;
  };
  const made = await machineOf(workspace.latest_build.id);
  assert.match(made ?? '', /^[0-9a-f-]{36}$/);
  for (const transition of ['stop', 'start', 'start']) {
    const { status, body } = await server.api<{ id: string }>('POST', `/workspaces/${workspace.id}/builds`, {
      transition,
    });
    assert.equal(status, 201, JSON.stringify(body));
    assert.equal(await machineOf(body.id), made, transition);
  }
});
