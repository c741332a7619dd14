import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace } from '@ropewalk/contract';
import { loadModule, PlannedValues, previewTemplate, Template as TemplateFiles } from '@ropewalk/hcl';
import { finishImport, pendingVersion, startTestServer, type TestServer, takeJob, tarOf } from '@ropewalk/testkit';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { createLogKeeper } from './log-keeper.ts';
import { updateJob } from './update.ts';

// A form and a build evaluate a template's workspace tags with one engine, so that they find the same ones.

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const OWNER = {
  ...{ id: '', name: 'admin', full_name: '', email: 'admin@example.com', login_type: 'password', ssh_public_key: '' },
  ...{ groups: [], rbac_roles: [] },
};

interface Row {
  files: Record<string, string>;
  /** The files of modules that Terraform fetched. */
  modules?: Record<string, string>;
  plan?: object;
  tags: Record<string, string>;
}

function formTags({ files, modules = {}, plan }: Row): Record<string, string> {
  const data = new Map(Object.entries({ ...files, ...modules }).map(([path, text]) => [path, Buffer.from(text)]));
  const template = new TemplateFiles({ read: (path) => data.get(path), paths: () => data.keys() });
  const chosen = { inputs: {}, owner: OWNER, variables: [] };
  const { tags, unknownTags, diagnostics } = previewTemplate(template, new PlannedValues(plan), chosen);
  assert.deepEqual([unknownTags, diagnostics], [[], []]);
  return tags;
}

async function buildTags(name: string, { files, modules, plan }: Row): Promise<Record<string, string>> {
  const uploaded = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: await tarOf(files) },
  });
  const version = await pendingVersion(server, { file_id: uploaded.body.hash });
  const own = await takeJob(server);
  const { workspaceTags, diagnostics } = loadModule(files);
  assert.deepEqual(diagnostics, [], 'the import succeeds');
  const request = create(UpdateJobRequestSchema, { jobId: own.jobId, workspaceTags });
  await updateJob(server.services, own, request, createLogKeeper());
  await finishImport(server, own, {
    ...(modules ? { moduleFiles: await tarOf(modules) } : {}),
    ...(plan ? { plan: Buffer.from(JSON.stringify(plan)) } : {}),
  });
  const template = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: version.id },
  });
  assert.equal(template.status, 201, JSON.stringify(template.body));
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.body.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { id, job } = made.body.latest_build;
  // no later import may be mistaken for this job
  assert.equal((await server.api('PATCH', `/workspacebuilds/${id}/cancel`)).status, 200);
  const { scope, owner, ...tags } = job.tags;
  assert.deepEqual([scope, owner], ['organization', '']);
  return tags;
}

const block = (tags: string, more = '') => `data "coder_workspace_tags" "t" {\n${more}  tags = ${tags}\n}\n`;
const external = 'data "external" "x" {\n  program = ["true"]\n}\n';
const read = (values: object) => ({
  prior_state: {
    values: { root_module: { resources: [{ address: 'data.external.x', type: 'external', mode: 'data', values }] } },
  },
});

const ROWS: Record<string, Row> = {
  'a-submodule': {
    files: { 'main.tf': 'module "m" {\n  source = "./m"\n}\n', 'm/main.tf': block('{ zone = "eu" }') },
    tags: { zone: 'eu' },
  },
  'a-fetched-module': {
    files: { 'main.tf': 'module "m" {\n  source = "example.com/m/x"\n}\n' },
    modules: {
      '.terraform/modules/modules.json': JSON.stringify({ Modules: [{ Key: 'm', Dir: '.terraform/modules/m' }] }),
      '.terraform/modules/m/main.tf': block('{ zone = "eu" }'),
    },
    tags: { zone: 'eu' },
  },
  'a-count-of-0': { files: { 'main.tf': block('{ zone = "eu" }', '  count = 0\n') }, tags: {} },
  'a-null': { files: { 'main.tf': block('{ a = null, b = "x" }') }, tags: { b: 'x' } },
  'a-fallback': {
    files: { 'main.tf': block('{ a = try(data.external.x.result, "fallback") }') },
    tags: { a: 'fallback' },
  },
  'a-planned-value': {
    files: { 'main.tf': external + block('{ a = try(data.external.x.result.zone, "fallback") }') },
    plan: read({ result: { zone: 'eu' } }),
    tags: { a: 'eu' },
  },
  'a-planned-value-without-it': {
    files: { 'main.tf': external + block('{ a = try(data.external.x.result.zone, "fallback") }') },
    plan: read({ result: {} }),
    tags: { a: 'fallback' },
  },
};

for (const [name, row] of Object.entries(ROWS))
  test(`a form and a build find the same tags: ${name.replaceAll('-', ' ')}`, async () => {
    assert.deepEqual(formTags(row), row.tags);
    assert.deepEqual(await buildTags(name, row), row.tags);
  });

test('an import searches its archives for tags, so that no build has to', async () => {
  const { sql } = server.services;
  await buildTags('searched', ROWS['a-fetched-module']!);
  const searched = await sql<{ template: boolean | null; modules: boolean | null }[]>`
    SELECT f.names_workspace_tags AS template, m.names_workspace_tags AS modules
    FROM templates t JOIN template_versions v ON v.id = t.active_version_id JOIN provisioner_jobs j ON j.id = v.job_id
    JOIN template_version_terraform_values tv ON tv.template_version_id = v.id
    JOIN files f ON f.id = j.file_id JOIN files m ON m.id = tv.module_files_id WHERE t.name = 'searched'`;
  assert.deepEqual([...searched], [{ template: false, modules: true }]);
});
