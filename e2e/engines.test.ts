import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ProvisionerDaemon, ProvisionerJob } from '@ropewalk/contract';
import { isAtLeast } from '@ropewalk/kit/version';
import { type DaemonProcess, makeKey, startDaemon } from './daemon-process.ts';
import {
  buildEnds,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  postVersion,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// The oldest and the newest Terraform, and OpenTofu, in one daemon. scripts/build-terraforms.sh builds them.

const folder = process.env['TERRAFORMS'];
const ENGINES = [
  ['terraform 1.1.9', 'terraform-1.1.9'],
  ['terraform 1.15.0', 'terraform-1.15.0'],
  ['opentofu 1.12.6', 'tofu-1.12.6'],
] as const;

let server: ServerProcess;
let daemon: DaemonProcess;
before(async () => {
  if (!folder) return;
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0' } });
  await firstUser(server);
  const key = await makeKey(server, 'engines', { engines: 'all' });
  daemon = await startDaemon(server, {
    name: 'engines',
    args: ENGINES.flatMap(([, file]) => ['--terraform-binary', join(folder, file)]),
    env: { CODER_PROVISIONER_DAEMON_KEY: key },
  });
});
after(async () => {
  await daemon?.kill();
  await server?.stop();
});

/** `machine`: with a resource on which the agent runs, for engines that have their own. */
const template = (version: string, machine: boolean) => ({
  'main.tf': `terraform {
  required_version = "${version}"
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "image" { default = "plain" }
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}
data "coder_parameter" "size" {
  name    = "size"
  type    = "number"
  default = 2
  mutable = true
  validation {
    min = 1
    max = 9
  }
}
locals { name = "\${data.coder_workspace_owner.me.name}/\${data.coder_workspace.me.name}" }
module "web" {
  source = "./web"
  id     = coder_agent.main[0].id
}
resource "coder_agent" "main" {
  count = 1
  os    = "linux"
  arch  = "amd64"
  env   = { IMAGE = var.image, NAME = local.name }
  metadata {
    key          = "load"
    script       = "cat /proc/loadavg"
    interval     = 10
    timeout      = 1
  }
}
resource "coder_script" "start" {
  for_each     = toset(["one", "two"])
  agent_id     = coder_agent.main[0].id
  display_name = each.key
  script       = "true"
  run_on_start = true
}
${machine ? 'resource "terraform_data" "machine" { input = coder_agent.main[0].id }' : ''}
`,
  'web/main.tf': `terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "id" {}
resource "coder_app" "web" {
  agent_id = var.id
  slug     = "web"
  url      = "http://localhost:1"
}
resource "coder_metadata" "web" {
  resource_id = coder_env.here.id
  item {
    key   = "id"
    value = var.id
  }
}
resource "coder_env" "here" {
  agent_id = var.id
  name     = "HERE"
  value    = "yes"
}
`,
});

test('a daemon runs each job with an engine that its template allows', {
  timeout: 240_000,
  skip: folder ? false : 'TERRAFORMS is not set: see scripts/build-terraforms.sh',
}, async (t) => {
  for (const [, file] of ENGINES) assert.ok(existsSync(join(folder!, file)), `${file} is not built`);
  const { body: daemons } = await server.api<ProvisionerDaemon[]>('GET', '/organizations/default/provisionerdaemons');
  assert.deepEqual(
    daemons[0]?.engines,
    ENGINES.map(([engine]) => engine),
  );
  for (const [engine] of ENGINES) {
    await t.test(engine, async () => {
      const version = engine.split(' ')[1]!;
      const machine = isAtLeast(version, '1.4.0');
      const name = engine.replace(/[ .]/g, '-');
      const templateId = await makeTemplate(server, name, template(`= ${version}`, machine), {
        tags: { engines: 'all' },
      });
      const workspace = await createWorkspace(server, templateId, name);
      const build = await buildEnds(server, workspace.latest_build.id);
      assert.equal(build.job.status, 'succeeded', `${build.job.error}\n${daemon.log()}`);
      assert.deepEqual(build.resources.map(({ name: resource }) => resource).sort(), [
        'here',
        ...(machine ? ['machine'] : []),
      ]);
      const agents = build.resources.flatMap(({ agents: found = [] }) => found);
      assert.deepEqual(
        agents.map((agent) => agent.name),
        machine ? ['main'] : [],
      );
    });
  }
});

for (const [first, constraint, second] of [
  ['terraform-1.1.9', '>= 1.12', 'terraform-1.15.0'],
  ['terraform-1.15.0', '< 1.2', 'terraform-1.1.9'],
] as const)
  test(`an import on ${first} moves to a daemon with ${second} when a fetched module requires that`, {
    timeout: 120_000,
    skip: folder ? false : 'TERRAFORMS is not set: see scripts/build-terraforms.sh',
  }, async (t) => {
    const module = mkdtempSync(join(tmpdir(), 'module-'));
    t.after(() => rmSync(module, { recursive: true }));
    writeFileSync(join(module, 'main.tf'), `terraform {\n  required_version = "${constraint}"\n}\n`);
    const tags = { moves: first.replaceAll('.', '-') };
    const start = async (file: string) => {
      const name = `${file}-after-${first}`.replaceAll('.', '-');
      const key = await makeKey(server, name, tags);
      const args = ['--terraform-binary', join(folder!, file)];
      const started = await startDaemon(server, { name, args, env: { CODER_PROVISIONER_DAEMON_KEY: key } });
      t.after(() => started.kill());
    };
    await start(first);
    const { id: versionId } = await postVersion(
      server,
      { 'main.tf': `module "far" {\n  source = "${module}"\n}\n` },
      { tags },
    );
    const look = async () =>
      (await server.api<{ job: ProvisionerJob }>('GET', `/templateversions/${versionId}`)).body.job;
    const reason = await eventually('it waits for another daemon', async () => {
      const { status, pending_reason: reason, error } = await look();
      assert.notEqual(status, 'failed', error ?? '');
      return reason?.reason === 'no_matching_provisioners' && reason.message;
    });
    assert.ok(reason.includes(`The template requires Terraform ${constraint}.`), reason);
    await start(second);
    const job = await eventually('it ends', async () => {
      const found = await look();
      return found.completed_at === undefined ? undefined : found;
    });
    assert.equal(job.status, 'succeeded', job.error ?? '');
  });

const LATER = {
  'a later function': 'strcontains("workspace", "work")',
  'a condition that only 1.12 stops early': 'var.proxy != null && length(var.proxy) > 0',
};
for (const [what, use] of Object.entries(LATER))
  test(`an import with ${what} uses the newer engine, and so do its builds`, {
    timeout: 120_000,
    skip: folder ? false : 'TERRAFORMS is not set: see scripts/build-terraforms.sh',
  }, async (t) => {
    const name = `language-${Object.keys(LATER).indexOf(what)}`;
    const tags = { language: name };
    const key = await makeKey(server, name, tags);
    const args = ['terraform-1.1.9', 'terraform-1.15.0'].flatMap((file) => ['--terraform-binary', join(folder!, file)]);
    const both = await startDaemon(server, { name, args, env: { CODER_PROVISIONER_DAEMON_KEY: key } });
    t.after(() => both.kill());
    const later = `terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "proxy" {
  type    = string
  default = null
}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  env  = { HAS = ${use} }
}
resource "terraform_data" "machine" { input = coder_agent.main.id }
`;
    const templateId = await makeTemplate(server, name, { 'main.tf': later }, { tags });
    const { body: template } = await server.api<{ active_version_id: string }>('GET', `/templates/${templateId}`);
    const { body: lines } = await server.api<{ output: string }[]>(
      'GET',
      `/templateversions/${template.active_version_id}/logs`,
    );
    const log = lines.map(({ output }) => output).join('\n');
    assert.match(log, /terraform 1\.1\.9 rejects the template\. .* Trying again with terraform 1\.15\.0\./);
    assert.match(log, /The template excludes terraform 1\.1\.9\. The job uses terraform 1\.15\.0\./);
    const { latest_build } = await createWorkspace(server, templateId, name);
    const build = await buildEnds(server, latest_build.id);
    assert.equal(build.job.status, 'succeeded', `${build.job.error}\n${both.log()}`);
  });
