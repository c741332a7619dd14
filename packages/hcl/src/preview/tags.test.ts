// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Chosen, PlannedValues, previewTemplate, Template, type WorkspaceTags, workspaceTags } from '../index.ts';

const OWNER = {
  ...{ id: 'i', name: 'ada', full_name: '', email: '', login_type: '', ssh_public_key: '' },
  ...{ groups: [], rbac_roles: [] },
};
const CHOSEN: Chosen = { inputs: {}, owner: OWNER, variables: [] };

function templateOf(files: Record<string, string>): Template {
  const data = new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
  return new Template({ read: (path) => data.get(path), paths: () => data.keys() });
}

const tagsOf = (files: Record<string, string>, chosen: Partial<Chosen> = {}, plan?: unknown): WorkspaceTags =>
  workspaceTags(templateOf(files), new PlannedValues(plan), { ...CHOSEN, ...chosen });

const block = (tags: string, label = 't', more = '') =>
  `data "coder_workspace_tags" "${label}" {\n${more}  tags = ${tags}\n}\n`;
const problemsOf = (files: Record<string, string>) =>
  tagsOf(files).problems.map(({ label, why }) => (label ? `${label}: ${why}` : why));

test('names the tag, its expression, its module and what is not known before Terraform runs', () => {
  const main = `
module "zone" {
  source = "./zone"
  where  = local.where
}
locals {
  where = upper(null_resource.x.id)
}
resource "null_resource" "x" {}
data "http" "page" {
  url = "https://example.com"
}
${block('merge({ (data.http.page.body) = 1 }, {})', 'merged')}
${block('merge({ a = 1, late = module.zone.where }, {})', 'late')}
${block('{ never = 1 }', 'counted', '  count = length(data.http.page.body)\n')}
`;
  const zone = `variable "where" {}\noutput "where" {\n  value = var.where\n}\n${block('{ zone = "x-${var.where}", (var.where) = 1, list = [1] }')}`;
  const later = 'which is not known before Terraform runs.';
  assert.deepEqual(problemsOf({ 'main.tf': main, 'zone/main.tf': zone }), [
    `tags = merge({ (data.http.page.body) = 1 }, {}): It depends on data.http.page, ${later}`,
    `tags = merge({ a = 1, late = module.zone.where }, {}): Its value of "late" depends on null_resource.x, ${later}`,
    `tags = { never = 1 }: How often the block exists depends on data.http.page, ${later}`,
    `Tag "(var.where)" = 1 in module.zone: It depends on null_resource.x, ${later}`,
  ]);
});

test('names the block of a JSON file and the expression of an override file', () => {
  const json = JSON.stringify({ data: { coder_workspace_tags: { j: { tags: { zone: '${null_resource.x.id}' } } } } });
  const files = {
    'main.tf': `${block('{ a = "b" }')}resource "null_resource" "x" {}\n`,
    'a_override.tf': `\n\n${block('{ overridden = [1] }')}`,
    'more.tf.json': json,
  };
  assert.deepEqual(problemsOf(files), [
    'Tag "overridden" = [1]: Its value must be a string, a number or a bool.',
    'Tag "zone" of data.coder_workspace_tags.j: It depends on null_resource.x, which is not known before Terraform runs.',
  ]);
});

test('a tag may be set several times to the same value, and once to different ones by blocks that exist in turn', () => {
  const turns = (count: string, zone: string) => block(`{ zone = "${zone}" }`, zone, `  count = ${count}\n`);
  const files = (eu: string, us: string) => ({ 'main.tf': turns(eu, 'eu') + turns(us, 'us') });
  assert.deepEqual(tagsOf(files('1', '0')), { tags: { zone: 'eu' }, problems: [] });
  assert.deepEqual(tagsOf(files('3', '0')), { tags: { zone: 'eu' }, problems: [] });
  assert.deepEqual(problemsOf(files('1', '1')), ['Tag "zone" = "us": Tag "zone" is set twice, to different values.']);
});

test('does not show the value of a sensitive variable, wherever it comes through', () => {
  const main = `
variable "token" {
  default   = "hunter2"
  sensitive = true
}
module "m" {
  source = "./m"
  given  = "${'${var.token}'}"
}
data "http" "page" {
  url = local.url
}
locals {
  url = var.token
}
${block('{ x = 1 }[data.http.page.url]', 'data')}
${block('merge({ (module.m.out) = "\\u0000" }, {})', 'output')}
${block('{ a = { x = 1 }[var.token], open = [] }', 'mixed')}
`;
  const m = `variable "given" {}\noutput "out" {\n  value = var.given\n}\n${block('{ zone = { x = 1 }[var.given] }')}`;
  const problems = problemsOf({ 'main.tf': main, 'm/main.tf': m });
  assert.equal(problems.length, 4, problems.join('\n'));
  for (const problem of problems) assert.match(problem, /hidden because it depends on sensitive variables\.$/);
  const form = previewTemplate(templateOf({ 'main.tf': main, 'm/main.tf': m }), new PlannedValues(undefined), CHOSEN);
  assert.equal(form.diagnostics.length, 4);
  assert.doesNotMatch(JSON.stringify([problems, form]), /hunter2/);
});

test('knows the workspace of a build', () => {
  const names = ['id', 'name', 'transition', 'start_count', 'is_prebuild', 'is_prebuild_claim', 'prebuild_count'];
  const of = (workspace: Chosen['workspace']) =>
    tagsOf(
      {
        'main.tf': `data "coder_workspace" "me" {}\n${block(`{ for n in ${JSON.stringify(names)} : n => data.coder_workspace.me[n] }`)}`,
      },
      workspace ? { workspace } : {},
    ).tags;
  const facts = { transition: 'start', start_count: '1', is_prebuild: 'false', is_prebuild_claim: 'false' };
  assert.deepEqual(of(undefined), { ...facts, prebuild_count: '0' });
  assert.deepEqual(of({ id: 'w', name: 'box', transition: 'stop' }), {
    ...{ ...facts, id: 'w', name: 'box', transition: 'stop', start_count: '0', prebuild_count: '0' },
  });
  const pooled = of({ id: 'w', name: 'box', transition: 'start', prebuilt: 'create' });
  assert.deepEqual([pooled['is_prebuild'], pooled['prebuild_count']], ['true', '1']);
  assert.equal(of({ id: 'w', name: 'box', transition: 'start', prebuilt: 'claim' })['is_prebuild_claim'], 'true');
});

test('uses no tags when a file cannot be parsed or the work exceeds its limit', () => {
  assert.deepEqual(problemsOf({ 'main.tf': block('{ a = 1 }'), 'x.tf': 'locals {\n  a = \n}\n' }), [
    'x.tf:2: Expected an expression, found the end of the line.',
  ]);
  const long = 'join("", [for a in range(1000) : join("", [for b in range(1000) : "x"])])';
  const [only, ...more] = problemsOf({ 'main.tf': block(`{ a = ${long} }`) });
  assert.match(only!, /^data\.coder_workspace_tags\.t: The expression takes more than 400,000 steps/);
  assert.deepEqual(more, []);
});
