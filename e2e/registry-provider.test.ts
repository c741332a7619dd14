import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { platformKey } from '@ropewalk/provisioner/terraform/install';
import { starterOf } from '@ropewalk/rules/starters';
import { PROVIDER_VERSION } from '@ropewalk/terraform-provider';
import {
  buildEnds,
  createWorkspace,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// Upstream's coder provider from a mirror, in place of the daemons' own.

const upstream = process.env['UPSTREAM_PROVIDER'];
let server: ServerProcess;
let dir: string;

before(async () => {
  if (!upstream) return;
  dir = mkdtempSync(join(tmpdir(), 'registry-'));
  // builds under their own uids read it
  chmodSync(dir, 0o755);
  const folder = join(dir, 'registry.terraform.io/coder/coder', PROVIDER_VERSION, platformKey());
  mkdirSync(folder, { recursive: true });
  const program = join(folder, `terraform-provider-coder_v${PROVIDER_VERSION}`);
  copyFileSync(join(upstream, 'terraform-provider-coder'), program);
  chmodSync(program, 0o755);
  const config = join(dir, 'terraformrc');
  writeFileSync(config, `provider_installation {\n  filesystem_mirror {\n    path = ${JSON.stringify(dir)}\n  }\n}\n`);
  server = await startCoderServer({
    env: { CODER_TERRAFORM_PROVIDER: 'registry', CODER_PROVISIONER_DAEMONS: '1', TF_CLI_CONFIG_FILE: config },
  });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  if (dir) rmSync(dir, { recursive: true, force: true });
});

const PARAMETERS = `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
data "coder_workspace" "me" {}
data "coder_parameter" "size" {
  name    = "size"
  type    = "number"
  default = 3
  mutable = true
}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
resource "coder_app" "web" {
  agent_id = coder_agent.main.id
  slug     = "web"
  url      = "http://localhost:\${8000 + data.coder_parameter.size.value}"
}
resource "terraform_data" "machine" {
  count = data.coder_workspace.me.start_count
  input = coder_agent.main.token
}
`;

test("templates import and build with upstream's provider", {
  timeout: 120_000,
  skip: upstream ? false : 'UPSTREAM_PROVIDER is not set: see scripts/build-upstream-provider.sh',
}, async (t) => {
  // the starter templates that need no other provider
  const starters = ['quickstart', 'local', 'scratch'].map((id) => [id, starterOf(id)!.files] as const);
  for (const [name, files] of [...starters, ['parameters', { 'main.tf': PARAMETERS }] as const]) {
    await t.test(name, async () => {
      const templateId = await makeTemplate(server, name, files);
      const template = await server.api<{ active_version_id: string }>('GET', `/templates/${templateId}`);
      const versionId = template.body.active_version_id;
      const logs = await server.api<{ output: string }[]>('GET', `/templateversions/${versionId}/logs`);
      const text = logs.body.map(({ output }) => output).join('\n');
      assert.match(text, new RegExp(`Install(ed|ing) coder/coder v${PROVIDER_VERSION}`));
      const { latest_build } = await createWorkspace(server, templateId, name);
      const build = await buildEnds(server, latest_build.id);
      assert.equal(build.job.status, 'succeeded', build.job.error ?? '');
      const agents = build.resources.flatMap(({ agents: found = [] }) => found);
      assert.deepEqual(
        agents.map((agent) => agent.name),
        ['main'],
      );
    });
  }
});
