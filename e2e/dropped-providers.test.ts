import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  AGENT_TEMPLATE,
  type Build,
  buildEnds,
  createWorkspace,
  firstUser,
  importVersion,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';
import { type ProviderMirror, startProviderMirror } from './provider-mirror.ts';

// A workspace has resources of a provider that its new template version does not use.

let server: ServerProcess;
let mirror: ProviderMirror;
let dir: string;

before(async () => {
  mirror = await startProviderMirror({ filler: 10 });
  dir = mkdtempSync(join(tmpdir(), 'dropped-'));
  // builds under their own uids read it
  chmodSync(dir, 0o755);
  const config = join(dir, 'terraformrc');
  writeFileSync(config, mirror.config);
  server = await startCoderServer({
    env: { ...mirror.env, TF_CLI_CONFIG_FILE: config, CODER_PROVISIONER_DAEMONS: '1' },
  });
  await firstUser(server);
});
after(async () => {
  await server.stop();
  await mirror.close();
  rmSync(dir, { recursive: true, force: true });
});

const AGENT = `resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
resource "terraform_data" "machine" { input = coder_agent.main.id }
`;

test('an update to a version without a provider destroys the resources of that provider', async () => {
  const required = `terraform {
  required_providers {
    coder = { source = "coder/coder" }
    thing = { source = "${mirror.source}" }
  }
}
`;
  const used = `resource "coder_env" "old" {
  provider = thing
  agent_id = coder_agent.main.id
  name     = "OLD"
  value    = "1"
}
`;
  const templateId = await makeTemplate(server, 'dropped', { 'main.tf': required + AGENT + used });
  const { id, latest_build } = await createWorkspace(server, templateId, 'dropped');
  const first = await buildEnds(server, latest_build.id);
  assert.equal(first.job.status, 'succeeded', first.job.error ?? '');
  const version = await importVersion(server, AGENT_TEMPLATE, { template_id: templateId });
  assert.equal(version.job.status, 'succeeded', version.job.error ?? '');
  const made = await server.api<Build>('POST', `/workspaces/${id}/builds`, {
    transition: 'start',
    template_version_id: version.id,
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const second = await buildEnds(server, made.body.id);
  assert.equal(second.job.status, 'succeeded', second.job.error ?? '');
});
