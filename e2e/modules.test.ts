import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { connect } from '@ropewalk/server/db/connect';
import { type ModuleSources, startModuleSources } from '@ropewalk/testkit/modules';

import { type DaemonProcess, makeKey, startDaemon } from './daemon-process.ts';
import {
  AGENT_TEMPLATE,
  buildEnds,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// Tests modules that Terraform fetches, which most templates of the public registry use.

let server: ServerProcess;
let sources: ModuleSources;
let external: DaemonProcess;

const moduleOf = (slug: string) => ({
  'main.tf': `
terraform {
  required_providers {
    coder = {
      source  = "coder/coder"
      version = ">= 0.17"
    }
  }
}
variable "agent_id" { type = string }
data "coder_workspace_owner" "me" {}
data "coder_parameter" "here" {
  name    = "in_${slug}"
  default = "x"
}
resource "coder_app" "here" {
  agent_id = var.agent_id
  slug     = "${slug}"
  url      = "http://localhost:1"
  # the values that modules such as coder-login need
  display_name = join(" ", [
    for secret in [data.coder_workspace_owner.me.session_token, data.coder_workspace_owner.me.ssh_public_key] :
    secret == "" ? "missing" : "present"
  ])
}
`,
});

/** Text that does not compress. */
function noise(bytes: number): string {
  let text = '';
  for (let turn = 0; text.length < bytes; turn++) text += createHash('sha512').update(`${turn}`).digest('base64');
  return text;
}

before(async () => {
  sources = await startModuleSources();
  server = await startCoderServer({ env: sources.env });
  await firstUser(server);
  const key = await makeKey(server, 'external', { where: 'outside' });
  external = await startDaemon(server, {
    name: 'external',
    env: { ...sources.env, CODER_PROVISIONER_DAEMON_KEY: key },
  });
});
after(async () => {
  await external.kill();
  await server.stop();
  await sources.close();
});

interface Agent {
  apps: { slug: string; display_name: string }[];
}

/** Imports and builds a template with these modules, and returns the paths of the module files on the server. */
async function works(name: string, modules: Record<string, string>, tags: Record<string, string>): Promise<string[]> {
  const templateId = await makeTemplate(
    server,
    name,
    {
      ...AGENT_TEMPLATE,
      'modules.tf': Object.entries(modules)
        .map(
          ([slug, source]) => `module "${slug}" {
  source   = "${source}"
  agent_id = coder_agent.main.id
}
`,
        )
        .join(''),
    },
    { tags },
  );
  const template = await server.api<{ active_version_id: string }>('GET', `/templates/${templateId}`);
  const versionId = template.body.active_version_id;
  const parameters = await server.api<{ name: string }[]>('GET', `/templateversions/${versionId}/rich-parameters`);
  const slugs = Object.keys(modules).sort();
  assert.deepEqual(
    parameters.body.map((parameter) => parameter.name),
    slugs.map((slug) => `in_${slug}`),
  );
  const { latest_build } = await createWorkspace(server, templateId, name);
  const build = await buildEnds(server, latest_build.id);
  assert.equal(build.job.status, 'succeeded', build.job.error ?? '');
  const agents = build.resources.flatMap(({ agents = [] }) => agents as unknown as Agent[]);
  assert.deepEqual(agents[0]?.apps.map(({ slug }) => slug).sort(), slugs);
  for (const { display_name: secrets } of agents[0]!.apps) assert.equal(secrets, 'present present');
  const sql = connect(server.databaseUrl!, { max: 1 });
  try {
    const [file] = await sql<{ data: Buffer }[]>`
      SELECT f.data FROM template_version_terraform_values v JOIN files f ON f.id = v.module_files_id
      WHERE v.template_version_id = ${versionId}`;
    const text = file!.data.toString('latin1');
    return slugs.filter((slug) => text.includes(`in_${slug}`));
  } finally {
    await sql.end();
  }
}

const DAEMONS: Record<string, Record<string, string>> = { 'built-in': {}, external: { where: 'outside' } };

for (const [daemon, tags] of Object.entries(DAEMONS)) {
  test(`fetched modules work from the ${daemon} daemon`, { timeout: 120_000 }, async () => {
    const at = daemon.replace('-', '');
    const modules = {
      path: sources.path(`path${at}`, moduleOf('path')),
      git: sources.git(`git${at}`, moduleOf('git')),
      registry: await sources.registry(`registry${at}`, moduleOf('registry')),
    };
    assert.deepEqual(await works(`small-${at}`, modules, tags), ['git', 'path', 'registry']);
    // larger than a message of the protocol, so the daemon uploads the files first
    const large = { ...moduleOf('large'), 'data.txt': noise(5 << 20) };
    const source = await sources.registry(`large${at}`, large);
    assert.deepEqual(await works(`large-${at}`, { large: source }, tags), ['large']);
  });
}

test('builds of a template without stored modules fetch them again, and leave nothing in the cache', {
  timeout: 120_000,
}, async () => {
  const web = (name: string) => sources.registry('again', { 'main.tf': `resource "terraform_data" "${name}" {}\n` });
  const template = await makeTemplate(
    server,
    'again',
    { 'main.tf': `module "web" { source = "${await web('first')}" }\n` },
    { tags: { where: 'outside' } },
  );
  const workspace = await createWorkspace(server, template, 'again');
  const machines = async (id: string) => {
    const { job, resources } = await buildEnds(server, id);
    assert.equal(job.status, 'succeeded', job.error ?? '');
    return resources.map(({ name }) => name);
  };
  const start = async () => {
    const { body } = await server.api<{ id: string }>('POST', `/workspaces/${workspace.id}/builds`, {
      transition: 'start',
    });
    return machines(body.id);
  };
  const prepared = () => globSync(join(external.cacheDir, 'tf/versions', '[0-9a-f]*')).sort();
  assert.deepEqual(await machines(workspace.latest_build.id), ['first']);
  const before = prepared();
  assert.ok(before.length > 0);
  await web('second');
  assert.deepEqual(await start(), ['first'], 'the modules of the import');
  const off = await server.api<{ disable_module_cache: boolean }>('PATCH', `/templates/${template}`, {
    disable_module_cache: true,
  });
  assert.deepEqual([off.status, off.body.disable_module_cache], [200, true]);
  assert.deepEqual(await start(), ['second'], 'the modules of today');
  await web('third');
  assert.deepEqual(await start(), ['third']);
  await eventually('results of single builds are removed', () => isDeepStrictEqual(prepared(), before));
  await server.api('PATCH', `/templates/${template}`, { disable_module_cache: false });
  assert.deepEqual(await start(), ['first']);
});
