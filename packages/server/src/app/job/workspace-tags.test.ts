// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, TemplateVersion, Workspace, WorkspaceBuild } from '@platform/contract';
import { loadModule } from '@platform/hcl';
import { AppError } from '@platform/kit';
import { finishImport, pendingVersion, startTestServer, type TestServer, takeJob, tarOf } from '@platform/testkit';
import { UpdateJobRequestSchema } from '@platform/wire/proto/provisionerd';
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
  /** Files beside main.tf. */
  files?: Record<string, string>;
  parameters?: { name: string; type?: string; defaultValue?: string; required?: boolean }[];
  variables?: { name: string; value: string }[];
  tags?: Record<string, string>;
  /** Replaces the tags found in the files. */
  workspaceTags?: Record<string, string>;
}

/** A version whose import result contains what a daemon reports for these files. */
async function version(main: string, given: Given = {}): Promise<TemplateVersion> {
  const files = { 'main.tf': main, ...given.files };
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
    workspaceTags: given.workspaceTags ?? module.workspaceTags,
  });
  await updateJob(server.services, own, request, createLogKeeper());
  const richParameters = (given.parameters ?? []).map((one) => ({ type: 'string', mutable: true, ...one }));
  await finishImport(server, own, { richParameters });
  return pending;
}

const tagsOf = (build: BuildOf) =>
  withAnswers(systemContext(server.services, 'test'), (answers) => buildTags(server.services.sql, answers, build));

const tagsBlock = (lines: string) => `data "coder_workspace_tags" "t" {\n  tags = {\n${lines}\n  }\n}\n`;

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
  name = "region of the machine"
}
data "coder_parameter" "cpus" {
  name = local.cpus_name
  type = "number"
}
data "coder_parameter" "maybe" {
  count = local.asked
  name  = "maybe"
}
data "coder_parameter" "each" {
  for_each = toset(["a", "b"])
  name     = "disk-\${each.key}"
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
  data: { coder_parameter: { tier: { name: 'service tier' } } },
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
    ['"${data.coder_workspace.me.transition}/${data.coder_workspace.me.start_count}"', 'start/1'],
    ['data.coder_workspace_owner.me.name', 'admin'],
    ['data.coder_workspace_owner.me.full_name', 'default'],
    ['data.coder_workspace_owner.me.email', 'admin@example.com'],
    ['try(local.names.nope, "else")', 'else'],
    ['var.size > 2 ? "known" : data.http.page.body', 'known'],
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
    ['merge({ x = null }, {})', /value of "x" is null/],
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
    ['a', 'null_resource.x.id', /depends on null_resource\.x,/],
    ['a', 'try(module.m.out, "x")', /depends on module\.m\.out,/],
    ['a', 'data.coder_workspace.me.access_url', /depends on data\.coder_workspace\.me,/],
    ['a', 'data.coder_workspace.me.name', /depends on data\.coder_workspace\.me,/],
    ['a', 'data.coder_workspace_owner.me.session_token', /depends on data\.coder_workspace_owner\.me,/],
    ['a', 'data.coder_parameter.late.value', /depends on data\.coder_parameter\.late,/],
    ['a', 'null', /value is null/],
    ['a', '["x"]', /must be a string, a number or a bool/],
    ['a', '"x\\u0000"', /NUL/],
    ['a', '"x\\ud800"', /invalid Unicode/],
    ['a', 'var.nope', /var\.nope is not declared/],
    ['a', 'data.coder_parameter.nope.value', /data\.coder_parameter\.nope is not declared/],
    ['a', 'local.ring_a', /refers to itself/],
    ['a', 'nope("x")', /Unknown function nope/],
    ['a', 'file("/etc/passwd")', /file cannot read files here/],
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
      if (!/bytes|scope|owner/.test(first!.detail))
        assert.ok(first!.detail.includes(`${JSON.stringify(key)} = ${expression}`));
      return true;
    });
  }
});

test('reports only the first ones of many wrong tags', async () => {
  const rejected = (err: AppError) => err.validations?.length === 10;
  let id = '';
  for (const expression of ['null_resource.x.id', '1 +']) {
    const wrong = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`t${i}`, expression]));
    ({ id } = await version(MAIN, { workspaceTags: wrong }));
    await assert.rejects(tagsOf({ versionId: id, ownerId: me }), rejected);
  }
  await server.services.sql`INSERT INTO template_version_workspace_tags VALUES (${id}, 'more', '"x"')`;
  await assert.rejects(tagsOf({ versionId: id, ownerId: me }), (err: AppError) =>
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
    const { id, job } = await version('# nothing', { tags, workspaceTags });
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
  const main = `${MAIN}${tagsBlock('zone = data.coder_parameter.where.value == "bad" ? null : local.where')}`;
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
  assert.match(rejected.body.validations![0]!.detail, /^Tag "zone" = data.*: Its value is null\.$/);
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
  const main = `${MAIN}${tagsBlock('zone = local.where')}`;
  const imported = await version(main, { parameters: PARAMETERS });
  const { id: template_id } = await template('broken-later', imported.id);
  const { body: workspace } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'stuck', template_id },
  });
  const { tags } = workspace.latest_build.job;
  assert.equal(tags['zone'], 'eu');
  const canceled = await server.api('PATCH', `/workspacebuilds/${workspace.latest_build.id}/cancel`);
  assert.equal(canceled.status, 200);
  await server.services.sql`UPDATE template_version_workspace_tags SET value = 'local.gone'
    WHERE template_version_id = ${imported.id}`;
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
