import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { makeKey, startDaemon } from './daemon-process.ts';
import {
  buildEnds,
  coder,
  createWorkspace,
  firstUser,
  type ServerProcess,
  signedInEnv,
  startCoderServer,
} from './harness.ts';

let server: ServerProcess;
before(async () => {
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0' } });
  await firstUser(server);
});
after(() => server?.stop());

interface Ran {
  id: string;
  worker_name?: string;
  tags: Record<string, string>;
}

/** The parameter's label differs from its name, and its value goes through a local and a variable. */
const TEMPLATE = `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
variable "zones" {
  type    = map(string)
  default = { east = "b", west = "a" }
}
data "coder_parameter" "region" {
  name    = "where it runs"
  default = "west"
  mutable = true
}
locals {
  zone = var.zones[lower(data.coder_parameter.region.value)]
}
data "coder_workspace_tags" "where" {
  tags = {
    zone = local.zone
  }
}
resource "terraform_data" "it" {}
`;

test('a build runs on the daemon with the template’s tags', { timeout: 180_000 }, async () => {
  const daemon = async (name: string, tags: Record<string, string>) =>
    startDaemon(server, { name, env: { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, `key-${name}`, tags) } });
  await Promise.all([daemon('in-a', { zone: 'a' }), daemon('in-b', { zone: 'b' }), daemon('anywhere', {})]);

  const dir = join(server.configDir, 'zones');
  mkdirSync(dir);
  writeFileSync(join(dir, 'main.tf'), TEMPLATE);
  const env = signedInEnv(server);
  /** Uploads a version and returns its import job. */
  const upload = async (command: 'push' | 'create', ...flags: string[]): Promise<Ran> => {
    const done = await coder(['templates', command, 'zones', '-d', dir, '-y', ...flags], { env });
    assert.equal(done.code, 0, done.stderr);
    const { active_version_id } = await activeTemplate();
    return (await server.api<{ job: Ran }>('GET', `/templateversions/${active_version_id}`)).body.job;
  };
  const push = (...flags: string[]) => upload('push', ...flags);
  const activeTemplate = async () =>
    (await server.api<{ id: string; active_version_id: string }>('GET', '/organizations/default/templates/zones')).body;
  /** The name of the daemon that ran a build, and the tag of its job. */
  const ran = async (buildId: string): Promise<[string | undefined, string | undefined]> => {
    const build = await buildEnds(server, buildId);
    const job = build.job as typeof build.job & Ran;
    assert.equal(job.status, 'succeeded', job.error ?? '');
    return [job.worker_name, job.tags['zone']];
  };
  const build = async (workspaceId: string, body: object): Promise<[string | undefined, string | undefined]> => {
    const made = await server.api<{ id: string }>('POST', `/workspaces/${workspaceId}/builds`, body);
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return ran(made.body.id);
  };
  const east = { rich_parameter_values: [{ name: 'where it runs', value: 'EAST' }] };

  const created = await upload('create', '--provisioner-tag', 'zone=b');
  assert.deepEqual([created.worker_name, created.tags['zone']], ['in-b', 'b']);
  const first = await push('--provisioner-tag', 'zone=a');
  assert.deepEqual([first.worker_name, first.tags['zone']], ['in-a', 'a']);
  const { id } = await activeTemplate();
  const [inWest, inEast] = await Promise.all([
    createWorkspace(server, id, 'in-west'),
    createWorkspace(server, id, 'in-east', east),
  ]);
  assert.deepEqual(await ran(inWest.latest_build.id), ['in-a', 'a']);
  assert.deepEqual(await ran(inEast.latest_build.id), ['in-b', 'b']);

  const again = await push();
  assert.deepEqual([again.worker_name, again.tags['zone'], again.id === first.id], ['in-a', 'a', false]);
  const cleared = await push('--provisioner-tag=-');
  assert.deepEqual([cleared.worker_name, cleared.tags['zone']], ['anywhere', undefined]);
  const { active_version_id } = await activeTemplate();
  // a changed parameter moves the machine to another daemon, which later deletes it
  assert.deepEqual(await build(inWest.id, { transition: 'start', template_version_id: active_version_id, ...east }), [
    'in-b',
    'b',
  ]);
  assert.deepEqual(await build(inWest.id, { transition: 'delete' }), ['in-b', 'b']);
});
