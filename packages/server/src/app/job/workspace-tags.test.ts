// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, TemplateVersion, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { loadModule } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import {
  finishImport,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  tarOf,
} from '@ropewalk/testkit';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { systemContext } from '../context/context.ts';
import { withAnswers } from '../parameters/answers.ts';
import { createLogKeeper } from './log-keeper.ts';
import { updateJob } from './update.ts';
import { type BuildOf, buildTags } from './workspace-tags.ts';

let server: TestServer;
let me: string;
before(async () => {
  server = await startTestServer();
  me = (await server.api<{ id: string }>('GET', '/users/me')).body.id;
});
after(() => server.stop());

interface Given {
  /** Files next to main.tf. */
  files?: Record<string, string>;
  parameters?: { name: string; type?: string; defaultValue?: string; required?: boolean }[];
  variables?: { name: string; value: string }[];
  tags?: Record<string, string>;
  /** Further tags of main.tf: expressions by name, or by the expression of a name. */
  workspaceTags?: Record<string, string>;
}

/** A version whose import result contains what a daemon reports for these files. */
async function version(main: string, given: Given = {}): Promise<TemplateVersion> {
  const written = Object.entries(given.workspaceTags ?? {}).map(
    ([key, expression]) => `${key.startsWith('(') ? key : `"${key}"`} = ${expression}`,
  );
  const more = written.length > 0 ? `\n${tagsBlock(written.join('\n'), 'given')}` : '';
  const files = { 'main.tf': main + more, ...given.files };
  const uploaded = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: await tarOf(files) },
  });
  const pending = await pendingVersion(server, {
    file_id: uploaded.body.hash,
    tags: given.tags ?? {},
    user_variable_values: given.variables ?? [],
  });
  const own = await takeJob(server, pending.job.tags);
  const module = loadModule(files);
  const request = create(UpdateJobRequestSchema, {
    jobId: own.jobId,
    templateVariables: module.variables.map(({ default: defaultValue, ...rest }) => ({ ...rest, defaultValue })),
    userVariableValues: given.variables ?? [],
    workspaceTags: module.workspaceTags,
  });
  await updateJob(server.services, own, request, createLogKeeper());
  const richParameters = (given.parameters ?? []).map((one) => ({ type: 'string', mutable: true, ...one }));
  await finishImport(server, own, { richParameters });
  return pending;
}

const tagsOf = (build: BuildOf) =>
  withAnswers(systemContext(server.services, 'test'), (answers) =>
    buildTags(server.services, server.services.sql, answers, build),
  );

const tagsBlock = (lines: string, label = 't') =>
  `data "coder_workspace_tags" "${label}" {\n  tags = {\n${lines}\n  }\n}\n`;

async function template(name: string, versionId: string): Promise<Template> {
  const made = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: versionId },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
}

const MAIN = `
variable "cluster" {
  type    = string
  default = "Main"
}
variable "size" {
  type    = number
  default = 3
}
variable "spot" {
  type    = bool
  default = false
}
variable "zones" {
  type    = list(string)
  default = ["x", "y"]
}
variable "prices" {
  type    = map(object({ cents = number, note = optional(string, "none") }))
  default = { eu = { cents = 5 } }
}
variable "any" {
  type    = any
  default = { deep = [true] }
}
variable "plain" {
  default = 7
}
variable "token" {
  type      = string
  default   = "hunter2"
  sensitive = true
}
data "coder_parameter" "where" {
  name    = "region of the machine"
  default = "EU"
}
data "coder_parameter" "cpus" {
  name    = local.cpus_name
  type    = "number"
  default = 4
}
data "coder_parameter" "maybe" {
  count   = local.asked
  name    = "maybe"
  default = "perhaps"
}
data "coder_parameter" "each" {
  for_each = { a = 10, b = 20 }
  name     = "disk-\${each.key}"
  default  = each.value
}
data "coder_parameter" "late" {
  name = "late"
}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}
data "http" "page" {
  url = "https://example.com"
}
resource "null_resource" "x" {}
locals {
  cpus_name = "cpus"
  asked     = 1
  where     = lower(data.coder_parameter.where.value)
  cluster   = "\${var.cluster}-\${local.where}"
  names     = { eu = "frankfurt", us = "ohio" }
  ring_a    = local.ring_b
  ring_b    = local.ring_a
}
`;
const JSON_FILE = JSON.stringify({
  locals: { json: 'from-${var.size}-"quoted"', list: [1, '${local.where}'], '//': 'a ${ comment' },
  data: { coder_parameter: { tier: { name: 'service tier', default: 'gold' } } },
});
const PARAMETERS = [
  { name: 'region of the machine', defaultValue: 'EU' },
  { name: 'cpus', type: 'number', defaultValue: '4' },
  { name: 'maybe', defaultValue: 'perhaps' },
  { name: 'disk-a', defaultValue: '10' },
  { name: 'disk-b', defaultValue: '20' },
  { name: 'service tier', defaultValue: 'gold' },
];

test('evaluates expressions that are known before Terraform runs', async () => {
  const cases: [expression: string, expected: string][] = [
    ['"text"', 'text'],
    ['""', ''],
    ['3', '3'],
    ['0.1 + 0.2', '0.3'],
    ['true', 'true'],
    ['var.cluster', 'Main'],
    ['var.size + 1', '4'],
    ['var.spot ? "spot" : "fixed"', 'fixed'],
    ['var.zones[1]', 'y'],
    ['var.prices["eu"].cents', '5'],
    ['var.prices.eu.note', 'none'],
    ['"${var.plain}-${var.plain == "7"}"', '7-false'],
    ['var.any.deep[0]', 'true'],
    ['var.token', 'hunter2'],
    ['data.coder_parameter.where.value', 'EU'],
    ['data.coder_parameter.cpus.value', '8'],
    ['data.coder_parameter.cpus.value == 8', 'false'],
    ['data.coder_parameter.cpus.value == "8"', 'true'],
    ['data.coder_parameter.cpus.value * 2', '16'],
    ['data.coder_parameter.cpus.default', '4'],
    ['data.coder_parameter.maybe[0].value', 'perhaps'],
    ['data.coder_parameter.each["b"].value', '20'],
    ['join("+", [for k, p in data.coder_parameter.each : "${k}${p.value}"])', 'a10+b20'],
    ['join(",", data.coder_parameter.maybe[*].value)', 'perhaps'],
    ['data.coder_parameter.tier.value', 'gold'],
    ['local.cluster', 'Main-eu'],
    ['local.json', 'from-3-"quoted"'],
    ['"${local.list[0]}${local.list[1]}"', '1eu'],
    ['lookup(local.names, local.where, "nowhere")', 'frankfurt'],
    ['format("%s-%02d", upper("a"), var.size)', 'A-03'],
    ['join("-", [for z in var.zones : upper(z) if z != "x"])', 'Y'],
    ['{ for k, v in local.names : v => k }["ohio"]', 'us'],
    ['<<EOT\n%{ if var.size > 2 }big%{ else }small%{ endif }\nEOT\n', 'big\n'],
    ['data.coder_workspace.me.name', 'box'],
    ['data.coder_workspace.me.access_url', server.services.accessUrl],
    ['data.coder_workspace.me.is_prebuild', 'false'],
    ['data.coder_workspace_owner.me.groups[0]', 'Everyone'],
    ['"${data.coder_workspace.me.transition}/${data.coder_workspace.me.start_count}"', 'start/1'],
    ['data.coder_workspace_owner.me.name', 'admin'],
    ['data.coder_workspace_owner.me.full_name', 'default'],
    ['data.coder_workspace_owner.me.email', 'admin@example.com'],
    ['try(local.names.nope, "else")', 'else'],
    ['var.size > 2 ? "known" : data.http.page.body', 'known'],
    ['try(module.m.out, "no such module")', 'no such module'],
    ['data.http.page.url', 'https://example.com'],
    ['path.module', '.'],
  ];
  const { id } = await version(MAIN, {
    files: { 'more.tf.json': JSON_FILE },
    parameters: PARAMETERS,
    workspaceTags: Object.fromEntries(cases.map(([expression], i) => [`t${i}`, expression])),
  });
  const tags = await tagsOf({
    versionId: id,
    ownerId: me,
    parameters: [{ name: 'cpus', value: '8' }],
    workspace: { id: crypto.randomUUID(), name: 'box', transition: 'start' },
  });
  for (const [i, [expression, expected]] of cases.entries()) assert.equal(tags[`t${i}`], expected, expression);
  assert.equal(Object.keys(tags).length, cases.length + 2);
});

test('tag names may be expressions, and variables have the given values', async () => {
  const main = `${MAIN}${tagsBlock('"a b" = 1\n(local.where) = 2\n"${var.cluster}.x" = 3\nplain-name = 4\n"q\\"q" = 5')}`;
  const { id } = await version(main, { parameters: PARAMETERS, variables: [{ name: 'cluster', value: 'Given' }] });
  const tags = await tagsOf({ versionId: id, ownerId: me });
  const named = { 'a b': '1', eu: '2', 'Given.x': '3', 'plain-name': '4', 'q"q': '5' };
  assert.deepEqual(tags, { scope: 'organization', owner: '', ...named });
});

test('evaluates tags that are not written as an object, together with others', async () => {
  const more = `data "coder_workspace_tags" "more" {
  tags = merge(local.base, { for z in var.zones : "zone-\${z}" => true }, { where = local.where })
}
data "coder_workspace_tags" "json" {
  tags = jsondecode(<<-EOT
    {"disk": "\${var.cluster}", "size": \${var.size}}
    EOT
  )
}
locals {
  base = { where = "nowhere", team = "core" }
}
`;
  const { id } = await version(`${MAIN}${tagsBlock('plain = 1')}${more}`, { parameters: PARAMETERS });
  const found = { disk: 'Main', plain: '1', size: '3', team: 'core', where: 'eu', 'zone-x': 'true', 'zone-y': 'true' };
  assert.deepEqual(await tagsOf({ versionId: id, ownerId: me }), { scope: 'organization', owner: '', ...found });
});

test('rejects such tags with the reason', async () => {
  const cases: [tags: string, why: RegExp][] = [
    ['local.where', /^tags = local\.where: It must be an object/],
    ['merge(local.names, { late = data.coder_parameter.late.value })', /depends on data\.coder_parameter\.late,/],
    ['merge({ x = [] }, {})', /value of "x" must be a string/],
    ['merge({ plain = 2 }, {})', /Tag "plain" is set twice/],
    ['{ for z in range(1001) : "t-${z}" => z }', /more than 1000 tags/],
  ];
  for (const [tags, why] of cases) {
    const { id } = await version(
      `${MAIN}${tagsBlock('plain = 1')}data "coder_workspace_tags" "more" {\n  tags = ${tags}\n}\n`,
      { parameters: PARAMETERS },
    );
    await assert.rejects(tagsOf({ versionId: id, ownerId: me }), (err: AppError) => {
      assert.match(err.validations?.[0]?.detail ?? '', why);
      return true;
    });
  }
});

test('rejects an unknown or invalid tag with its name and its expression', async () => {
  const cases: [key: string, expression: string, why: RegExp][] = [
    ['a', 'data.http.page.body', /data\.http\.page, which is not known before Terraform runs/],
    ['a', 'data.coder_parameter.each[data.http.page.body].value', /depends on data\.http\.page, which/],
    ['a', 'local.names[data.http.page.body]', /depends on data\.http\.page, which/],
    ['a', 'null_resource.x.id', /depends on null_resource\.x,/],
    ['a', 'data.coder_workspace.me.template_name', /depends on data\.coder_workspace\.me,/],
    ['a', 'data.coder_workspace.me.name', /depends on data\.coder_workspace\.me,/],
    ['a', 'data.coder_workspace_owner.me.session_token', /depends on data\.coder_workspace_owner\.me,/],
    ['a', 'data.coder_parameter.late.value', /depends on data\.coder_parameter\.late,/],
    ['a', '["x"]', /must be a string, a number or a bool/],
    ['a', '"x\\u0000"', /NUL/],
    ['a', '"x\\ud800"', /invalid Unicode/],
    ['a', 'var.nope', /var\.nope is not declared/],
    ['a', 'data.coder_parameter.nope.value', /data\.coder_parameter\.nope is not declared/],
    ['a', 'local.ring_a', /depends on local\.ring_a,/],
    ['a', 'nope("x")', /Unknown function nope/],
    ['a', 'file("/etc/passwd")', /\/etc\/passwd/],
    ['a', '1 +', /Expected/],
    ['a', 'join("", [for a in range(1000) : join("", [for b in range(1000) : "x"])])', /more than 400,000 steps/],
    ['a', '"${var.zones[9]}"', /Invalid index 9/],
    ['(local.none)', '"x"', /local\.none is not declared/],
    ['(data.http.page.body)', '"x"', /depends on data\.http\.page,/],
    ['${""}', '"x"', /needs a name/],
    ['a', 'format("%s", repeat("x", 2))', /Unknown function repeat/],
    ['a', 'join("", [for a in range(1000) : "8 bytes!"])', /exceed 7000 bytes/],
    ['scope', '"everybody"', /must be "organization" or "user"/],
    ['owner', '"00000000-0000-4000-8000-000000000000"', /Tag "owner"/],
    ['owner', 'data.coder_workspace_owner.me.id', /Tag "owner"/],
  ];
  for (const [key, expression, why] of cases) {
    const { id } = await version(MAIN, {
      parameters: PARAMETERS,
      workspaceTags: { [key]: expression, fine: '"fine"' },
    });
    await assert.rejects(tagsOf({ versionId: id, ownerId: me }), (err: unknown) => {
      assert.ok(err instanceof AppError, String(err));
      assert.equal(err.code, 'invalid');
      const [first, ...more] = err.validations ?? [];
      assert.deepEqual([first?.field, more.length], ['tags', 0]);
      assert.match(first!.detail, why, expression);
      // where the parser or the limit of work stops, no tag can be named
      if (!/bytes|scope|owner|Expected|400,000/.test(first!.detail))
        assert.ok(first!.detail.includes(`${JSON.stringify(key)} = ${expression}`));
      return true;
    });
  }
});

test('reports only the first ones of many wrong tags', async () => {
  const many = (count: number, expression: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, expression]));
  const { id } = await version(MAIN, { workspaceTags: many(1000, 'null_resource.x.id') });
  await assert.rejects(tagsOf({ versionId: id, ownerId: me }), (err: AppError) => err.validations?.length === 10);
  const more = await version(MAIN, { workspaceTags: many(1001, '"x"') });
  await assert.rejects(tagsOf({ versionId: more.id, ownerId: me }), (err: AppError) =>
    /more than 1000 tags/.test(err.detail ?? ''),
  );
});

test('an error does not show the value of a sensitive variable', async () => {
  const { id } = await version(`${MAIN}locals {\n  secret = var.token\n}\n`, {
    parameters: PARAMETERS,
    workspaceTags: { a: 'local.names[local.secret]' },
  });
  await assert.rejects(tagsOf({ versionId: id, ownerId: me }), (err: AppError) => {
    assert.match(err.validations![0]!.detail, /sensitive variables/);
    assert.doesNotMatch(JSON.stringify([err.message, err.detail, err.validations]), /hunter2/);
    return true;
  });
});

test('template tags overwrite those of the version by key, even with an empty value, and a user-scoped job belongs to the workspace owner', async () => {
  const of = async (tags: Record<string, string>, workspaceTags: Record<string, string>) => {
    const { id, job } = await version('data "coder_workspace_owner" "me" {}\n', { tags, workspaceTags });
    assert.ok(!('zone' in workspaceTags) || job.tags['zone'] === tags['zone'], 'the import has only the given tags');
    return tagsOf({ versionId: id, ownerId: me });
  };
  const organization = { scope: 'organization', owner: '' };
  assert.deepEqual(await of({ zone: 'a', gpu: 'yes' }, { zone: '"b"', gpu: '""', __proto__x: '"z"' }), {
    ...organization,
    zone: 'b',
    gpu: '',
    __proto__x: 'z',
  });
  assert.deepEqual(await of({}, { scope: '"user"' }), { scope: 'user', owner: me });
  assert.deepEqual(await of({}, { scope: '"user"', owner: 'data.coder_workspace_owner.me.id' }), {
    scope: 'user',
    owner: me,
  });
  assert.deepEqual(await of({ scope: 'user' }, { scope: '"organization"', owner: '""' }), organization);
});

test('a build has the tags, or is not created at all', async () => {
  const main = `${MAIN}${tagsBlock('zone = data.coder_parameter.where.value == "bad" ? null_resource.x.id : local.where')}`;
  const imported = await version(main, { tags: { rack: 'r1' }, parameters: PARAMETERS });
  assert.deepEqual(imported.job.tags, { scope: 'organization', owner: '', rack: 'r1' });
  const { id: template_id } = await template('tagged', imported.id);
  const createWorkspace = (name: string, region: string) =>
    server.api<Workspace & { validations?: { field: string; detail: string }[] }>('POST', '/users/me/workspaces', {
      body: { name, template_id, rich_parameter_values: [{ name: 'region of the machine', value: region }] },
    });
  const rejected = await createWorkspace('rejected', 'bad');
  assert.equal(rejected.status, 400);
  assert.deepEqual([rejected.body.validations?.length, rejected.body.validations?.[0]?.field], [1, 'tags']);
  assert.match(rejected.body.validations![0]!.detail, /^Tag "zone" = data.*: It depends on null_resource\.x, /);
  assert.equal((await server.api('GET', '/users/me/workspace/rejected')).status, 404);
  const made = await createWorkspace('made', 'US');
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const expected = { scope: 'organization', owner: '', rack: 'r1', zone: 'us' };
  assert.deepEqual(made.body.latest_build.job.tags, expected);
  await takeJob(server, expected);
  const dryRun = await server.api<{ tags: Record<string, string> }>(
    'POST',
    `/templateversions/${imported.id}/dry-run`,
    { body: { workspace_name: 'dry', rich_parameter_values: [] } },
  );
  assert.deepEqual(dryRun.body.tags, imported.job.tags);
});

test('a workspace can be orphaned even when its template tags cannot be determined any more', async () => {
  const main = `${MAIN}${tagsBlock('zone = local.names[var.cluster]')}`;
  const imported = await version(main, { parameters: PARAMETERS, variables: [{ name: 'cluster', value: 'eu' }] });
  const { id: template_id } = await template('broken-later', imported.id);
  const { body: workspace } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'stuck', template_id },
  });
  const { tags } = workspace.latest_build.job;
  assert.equal(tags['zone'], 'frankfurt');
  const canceled = await server.api('PATCH', `/workspacebuilds/${workspace.latest_build.id}/cancel`);
  assert.equal(canceled.status, 200);
  await server.services.sql`UPDATE template_version_variables SET value = 'gone'
    WHERE template_version_id = ${imported.id} AND name = 'cluster'`;
  const build = (body: Record<string, unknown>) =>
    server.api<WorkspaceBuild>('POST', `/workspaces/${workspace.id}/builds`, { body });
  assert.equal((await build({ transition: 'delete' })).status, 400);
  assert.equal((await build({ transition: 'stop' })).status, 400);
  const gone = await build({ transition: 'delete', orphan: true });
  assert.equal(gone.status, 201, JSON.stringify(gone.body));
  assert.deepEqual([gone.body.job.tags, gone.body.job.status], [tags, 'succeeded']);
  assert.equal((await server.api('GET', `/workspaces/${workspace.id}`)).status, 410);
});

test('uses the value of a parameter that the import does not know', async () => {
  const main = `
data "coder_parameter" "zone" {
  count = 1
  name  = "zone"
}
${tagsBlock('    zone = data.coder_parameter.zone[0].value')}`;
  const { id: versionId } = await version(main);
  const build = { versionId, ownerId: me, parameters: [{ name: 'zone', value: 'eu' }] };
  assert.equal((await tagsOf(build))['zone'], 'eu');
  await assert.rejects(tagsOf({ versionId, ownerId: me }), /workspace tags/);
});

test('variables that nobody set have the values that Terraform reads from the files', async () => {
  const { id } = await version(
    'variable "text" {\n  type    = any\n  default = "plain text"\n}\n' +
      'variable "list" {\n  default = ["a", "b"]\n}\n' +
      'variable "file" {\n  default = "default"\n}\n' +
      tagsBlock('text = var.text\nlist = var.list[1]\nfile = var.file'),
    { files: { 'terraform.tfvars': 'file = "from the file"\n' } },
  );
  const tags = await tagsOf({ versionId: id, ownerId: me });
  assert.deepEqual(tags, { scope: 'organization', owner: '', text: 'plain text', list: 'b', file: 'from the file' });
});

test('evaluates the tags of a version whose daemon was too old to send its plan and modules', async () => {
  const { id } = await version(`${MAIN}${tagsBlock('zone = local.where')}`, { parameters: PARAMETERS });
  await server.services
    .sql`UPDATE template_version_terraform_values SET provisionerd_version = '1.3', cached_plan = '{}'
    WHERE template_version_id = ${id}`;
  const parameters = [{ name: 'region of the machine', value: 'US' }];
  assert.equal((await tagsOf({ versionId: id, ownerId: me, parameters }))['zone'], 'us');
});

test('evaluates the tags of a file that an older server stored without looking at it', async () => {
  const { id } = await version(`${MAIN}${tagsBlock('zone = local.where')}`, { parameters: PARAMETERS });
  const plain = await version('# nothing');
  await server.services.sql`UPDATE files SET names_workspace_tags = NULL, required_version = NULL WHERE id IN (
    SELECT j.file_id FROM provisioner_jobs j JOIN template_versions v ON v.job_id = j.id
    WHERE v.id IN (${id}, ${plain.id}))`;
  assert.equal((await tagsOf({ versionId: id, ownerId: me }))['zone'], 'eu');
  assert.deepEqual(await tagsOf({ versionId: plain.id, ownerId: me }), { scope: 'organization', owner: '' });
});

test('a workspace whose owner left the organization still has the tags of its template', async () => {
  const { id } = await version(`${MAIN}${tagsBlock('who = data.coder_workspace_owner.me.name\nzone = local.where')}`);
  const gone = await insertPerson(server, 'gone');
  await server.services.sql`DELETE FROM organization_members WHERE user_id = ${gone.id}`;
  const tags = await tagsOf({ versionId: id, ownerId: gone.id });
  assert.deepEqual([tags['who'], tags['zone']], ['gone', 'eu']);
});
