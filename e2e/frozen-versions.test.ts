import assert from 'node:assert/strict';
import { appendFileSync, globSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { directoryHash } from '@ropewalk/server/postgres/place';
import { type ModuleSources, startModuleSources } from '@ropewalk/testkit/modules';
import { type DaemonProcess, makeKey, startDaemon } from './daemon-process.ts';
import {
  buildEnds,
  coder,
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
  // more than the server stores in one file
  mirror = await startProviderMirror({ filler: 110 << 20 });
  appendFileSync(sources.env['TF_CLI_CONFIG_FILE']!, mirror.config);
  server = await startCoderServer({ env: { ...sources.env, ...mirror.env, CODER_PROVISIONER_DAEMONS: '1' } });
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

const template = (module: string) => ({
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
});

test('daemons build without the registries that the import used', { timeout: 120_000 }, async () => {
  const importer = await daemon('importer');
  const module = await sources.registry('web', {
    'main.tf': `variable "id" {}\noutput "name" { value = "web-\${var.id}" }\n`,
  });
  const [outside, inside] = await Promise.all([
    makeTemplate(server, 'outside', template(module), { tags: { where: 'outside' } }),
    makeTemplate(server, 'inside', template(module)),
  ]);
  await importer.kill();
  assert.ok(mirror.sent() > 0);
  await sources.cut();
  await mirror.close();

  const fresh = await daemon('fresh');
  // the built-in daemon loses what it has prepared. It runs builds under their own uids if the server runs as root
  const roots = [`/var/lib/coder/provisioners/${directoryHash(server.configDir)}`, server.configDir];
  const caches = roots.flatMap((root) => globSync(join(root, '{daemons,cache}/**/{versions,plugins}')));
  assert.ok(caches.length > 0, 'the built-in daemon has a cache');
  for (const dir of caches) rmSync(dir, { recursive: true });
  const workspaces = [
    await createWorkspace(server, outside, 'outside'),
    await createWorkspace(server, inside, 'inside'),
  ];
  for (const { latest_build } of workspaces) {
    const build = await buildEnds(server, latest_build.id);
    assert.equal(build.job.status, 'succeeded', `${build.job.error}\n${fresh.log()}`);
    assert.deepEqual(
      build.resources.map(({ name }) => name),
      ['machine'],
    );
  }

  const prune = (...args: string[]) =>
    coder(['provisioner', 'cache', 'prune', '--cache-dir', fresh.cacheDir, ...args], { env: server.env });
  const planned = await prune('--size', '1MiB', '--dry-run');
  // a build has just used the version
  assert.match(
    planned.stdout,
    /^Would remove 0 prepared versions, 0 providers, 0 sets of modules and 0 engines: 0 B\. [\d.]+ MiB/,
  );
  const unset = await prune();
  assert.match(unset.stderr, /Nothing to remove: set --age/);
});
