import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { type ModuleSources, startModuleSources } from '@platform/testkit/modules';
import { type DaemonProcess, makeKey, startDaemon } from './daemon-process.ts';
import {
  buildEnds,
  createWorkspace,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';
import { type ProviderMirror, startProviderMirror } from './provider-mirror.ts';

// What an import has fetched, every later daemon gets from the server.

let server: ServerProcess;
let sources: ModuleSources;
let mirror: ProviderMirror;
const daemons: DaemonProcess[] = [];

before(async () => {
  sources = await startModuleSources();
  mirror = await startProviderMirror();
  appendFileSync(sources.env['TF_CLI_CONFIG_FILE']!, mirror.config);
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0' } });
  await firstUser(server);
});
after(async () => {
  for (const daemon of daemons) await daemon.kill();
  await server.stop();
  await sources.close();
  await mirror.close();
});

async function daemon(name: string): Promise<DaemonProcess> {
  const key = await makeKey(server, name, { where: 'outside' });
  const started = await startDaemon(server, {
    name,
    env: { ...sources.env, ...mirror.env, CODER_PROVISIONER_DAEMON_KEY: key },
  });
  daemons.push(started);
  return started;
}

test('a new daemon builds without the registries that the import used', { timeout: 120_000 }, async () => {
  const importer = await daemon('importer');
  const module = await sources.registry('web', {
    'main.tf': 'variable "id" {}\noutput "name" { value = "web-${var.id}" }\n',
  });
  const templateId = await makeTemplate(
    server,
    'frozen',
    {
      'main.tf': `terraform {
  required_providers {
    coder = { source = "coder/coder" }
    thing = { source = "${mirror.source}" }
  }
}
data "coder_workspace" "other" { provider = thing }
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
module "web" {
  source = "${module}"
  id     = data.coder_workspace.other.transition
}
resource "terraform_data" "machine" { input = "\${coder_agent.main.id} \${module.web.name}" }
`,
    },
    { tags: { where: 'outside' } },
  );
  await importer.kill();
  assert.ok(mirror.sent() > 0);
  await sources.cut();
  await mirror.close();

  const fresh = await daemon('fresh');
  const workspace = await createWorkspace(server, templateId, 'dev');
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.job.status, 'succeeded', `${build.job.error}\n${fresh.log()}`);
  assert.deepEqual(
    build.resources.map(({ name }) => name),
    ['machine'],
  );
});
