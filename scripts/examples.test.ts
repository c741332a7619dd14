import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { type Body, PlannedValues, parseHcl, previewTemplate, Template } from '@ropewalk/hcl';
import { STARTERS } from '@ropewalk/rules/starter-ids';
import { starterOf } from '@ropewalk/rules/starters';
import { parse } from 'yaml';
import { readEmojis, readIcons } from './dashboard/icons.ts';

const root = join(dirname(import.meta.dirname), 'examples');
const icons = new Set([
  ...(await readIcons()).keys(),
  ...Object.keys(readEmojis()).map((code) => `/emojis/${code}.svg`),
]);
const OWNER = {
  id: '11111111-1111-4111-8111-111111111111',
  name: 'ada',
  full_name: 'Ada',
  email: 'ada@example.com',
  ssh_public_key: 'ssh-ed25519 AAAA',
  login_type: 'password',
  groups: [],
  rbac_roles: [],
};

for (const name of STARTERS) {
  test(`the starter template ${name} can be chosen, read and evaluated`, () => {
    const dir = join(root, name);
    const [, head = '', text = ''] =
      /^---\n(.*?)\n---\n(.*)$/s.exec(readFileSync(join(dir, 'README.md'), 'utf8')) ?? [];
    const front = parse(head) as Record<string, unknown>;
    assert.deepEqual(Object.keys(front).sort(), ['description', 'display_name', 'icon', 'tags']);
    assert.match(text, new RegExp(`^\\n# ${front['display_name']!.toString().replace(/[()]/g, '\\$&')}\\n\\n\\S`));
    assert.ok(icons.has(String(front['icon']).replace(/\.png$/, '.svg')), `the icon ${front['icon']}`);

    // Terraform parses the files, and finds each in the usual form
    assert.equal(execFileSync('terraform', ['fmt', '-check', '-recursive', '-list=true', dir]).toString(), '');

    const template = new Template({
      read: (path) => (existsSync(join(dir, path)) ? readFileSync(join(dir, path)) : undefined),
      paths: () => readdirSync(dir),
    });
    const variables = [...readFileSync(join(dir, 'main.tf'), 'utf8').matchAll(/^variable "(\w+)"/gm)].map(
      ([, one]) => ({
        name: one!,
        type: 'string',
        value: 'given',
      }),
    );
    const { parameters, diagnostics } = previewTemplate(template, new PlannedValues(undefined), {
      inputs: {},
      owner: OWNER,
      variables,
    });
    assert.deepEqual(diagnostics, []);
    for (const parameter of parameters) {
      assert.deepEqual(parameter.diagnostics, [], parameter.name);
      assert.ok(parameter.description && parameter.display_name, `${parameter.name} says what it is`);
      assert.ok(parameter.value.valid, `${parameter.name} has a default`);
    }
  });
}

for (const name of readdirSync(join(root, 'modules'))) {
  test(`the module ${name} of the template builder can be chosen and read`, () => {
    const dir = join(root, 'modules', name);
    const [, head = '', text = ''] =
      /^---\n(.*?)\n---\n(.*)$/s.exec(readFileSync(join(dir, 'README.md'), 'utf8')) ?? [];
    const front = parse(head) as Record<string, unknown>;
    for (const key of ['display_name', 'description', 'icon', 'category', 'version']) assert.ok(front[key], key);
    assert.match(text, new RegExp(`^\\n# ${front['display_name']}\\n\\n\\S`));
    assert.ok(icons.has(String(front['icon'])), `the icon ${front['icon']}`);
    assert.equal(execFileSync('terraform', ['fmt', '-check', '-recursive', '-list=true', dir]).toString(), '');
    // only the provider that is built in, and no module from elsewhere
    const source = readFileSync(join(dir, 'main.tf'), 'utf8');
    assert.deepEqual(
      [...source.matchAll(/\bsource\s+= "([^"]+)"/g)].map(([, one]) => one),
      ['coder/coder'],
    );
    for (const [, description] of source.matchAll(/^variable "\w+" \{\n {2}type +=.*\n {2}description = "(.*)"$/gm))
      assert.match(description!, /\.$/);
  });
}

/** What a resource or a block may contain. */
interface Schema {
  [name: string]: { required?: boolean; block?: Schema };
}
const schemas: Record<string, Schema> = JSON.parse(
  readFileSync(join(import.meta.dirname, 'starter-schemas.json'), 'utf8'),
).resources;
/** Terraform's own words in resources. */
const META = ['count', 'for_each', 'depends_on', 'provider', 'lifecycle', 'provisioner', 'connection'];
/** Providers whose schemas are not recorded: coder and terraform_data have other tests, and the others cannot be had. */
const UNKNOWN = ['coder', 'terraform', 'incus', 'random', 'tls'];

/** The arguments that a body has too much or lacks. */
function wrong(body: Body, schema: Schema, place: string): string[] {
  const blocks = body.blocks.map(({ type, labels, body: inner }) =>
    type === 'dynamic'
      ? { name: labels[0]!, inner: inner.blocks.find((block) => block.type === 'content')!.body }
      : { name: type, inner },
  );
  const names = [...body.attributes.keys(), ...blocks.map(({ name }) => name)].filter((name) => !META.includes(name));
  return [
    ...names.filter((name) => !schema[name]).map((name) => `${place} has no ${name}`),
    ...Object.keys(schema)
      .filter((name) => schema[name]!.required && !names.includes(name))
      .map((name) => `${place} needs ${name}`),
    ...blocks.flatMap(({ name, inner }) =>
      schema[name]?.block ? wrong(inner, schema[name].block, `${place}.${name}`) : [],
    ),
  ];
}

for (const name of STARTERS) {
  test(`the resources of the starter template ${name} have the arguments that their providers know`, () => {
    for (const [path, text] of Object.entries(starterOf(name)!.files)) {
      if (!path.endsWith('.tf')) continue;
      const { body, diagnostics } = parseHcl(text, path);
      assert.deepEqual(diagnostics, []);
      for (const { type, labels, body: inner } of body.blocks) {
        if ((type !== 'resource' && type !== 'data') || UNKNOWN.includes(labels[0]!.split('_')[0]!)) continue;
        const schema = schemas[labels[0]!];
        assert.ok(schema, `scripts/starter-schemas.json lacks ${labels[0]}`);
        assert.deepEqual(wrong(inner, schema, `${path}: ${labels.join('.')}`), []);
      }
    }
  });
}

test('starter templates say whose their resources are, and have an editor in the browser', () => {
  for (const name of STARTERS) {
    const files = starterOf(name)!.files;
    // they have no resource but a process, or none
    if (['quickstart', 'local', 'scratch'].includes(name)) continue;
    for (const value of ['coder_workspace_owner.me.name', 'coder_workspace.me.name', 'coder_workspace.me.id'])
      assert.ok(files['main.tf']!.includes(`data.${value}`), `${name} has a label with ${value}`);
    const editor = Object.keys(files).filter((path) => /^(code-server|vscode-web)\.tf$/.test(path));
    assert.equal(editor.length, 1, `${name} has one editor`);
    // each template stands by itself, so the file is in each, and is the same in each
    const first = STARTERS.find((other) => starterOf(other)!.files[editor[0]!])!;
    assert.equal(files[editor[0]!], starterOf(first)!.files[editor[0]!], `${editor[0]} of ${name} and ${first}`);
    assert.doesNotMatch(files['main.tf']!, /"kubernetes_pod/, 'nothing starts a bare pod again');
  }
});

test('every starter template is listed, and ids of earlier releases still work', () => {
  assert.deepEqual(readdirSync(root).sort(), [...STARTERS, 'modules'].sort());
  assert.equal(STARTERS[0], 'quickstart');
  for (const [before, now] of [
    ['digitalocean', 'digitalocean-linux'],
    ['nomad', 'nomad-docker'],
  ] as const) {
    assert.equal(starterOf(before)?.id, now);
    assert.ok(starterOf(before)?.files['main.tf']);
  }
  for (const none of ['', 'x', '../packages', 'local/main.tf']) assert.equal(starterOf(none), undefined, none);
});
