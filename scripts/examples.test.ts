import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { PlannedValues, previewTemplate, Template } from '@platform/hcl';
import { STARTERS } from '@platform/kit/starter-ids';
import { starterOf } from '@platform/kit/starters';
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

for (const name of readdirSync(root)) {
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

test('every starter template is listed, and ids of earlier releases still work', () => {
  assert.deepEqual(readdirSync(root).sort(), [...STARTERS].sort());
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
