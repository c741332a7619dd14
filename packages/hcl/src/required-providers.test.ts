import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requiredProviders } from './index.ts';

const versions = (files: Record<string, string>) =>
  requiredProviders(files).map(({ name, source = '', version }) => [name, source, version].join(' '));

test('reads the version constraints of providers in native and JSON files', () => {
  assert.deepEqual(
    versions({
      'a.tf': `terraform {
  required_providers {
    coder  = { source = "coder/coder", "version" = ">= 2.0" }
    docker = {
      source                = "kreuzwerker/docker"
      configuration_aliases = [docker.other]
    }
    old = "~> 1.0"
  }
}
provider "coder" {
  version = "< 3"
}
provider "docker" {}
`,
      'b.tf.json': JSON.stringify({
        terraform: [{ required_providers: { json: { source: 'x/json', version: '1.2.3' }, text: '> 0.1' } }],
        provider: { json: [{ alias: 'a', version: '< 2' }, { alias: 'b' }] },
      }),
      'notes.txt': 'terraform { required_providers { no = "1" } }',
    }),
    [
      'coder coder/coder >= 2.0',
      'old  ~> 1.0',
      'json x/json 1.2.3',
      'text  > 0.1',
      'coder coder/coder < 3',
      'json x/json < 2',
    ],
  );
});

test('lets an override file replace the entry of a provider', () => {
  const entry = (value: string) => `terraform {\n  required_providers {\n    coder = ${value}\n  }\n}\n`;
  const files = { 'a.tf': entry('{ source = "coder/coder", version = ">= 99" }') };
  assert.deepEqual(versions({ ...files, 'x_override.tf': entry('{ source = "coder/coder" }') }), []);
  assert.deepEqual(versions({ ...files, 'override.tf': entry('{ source = "a/b", version = "1" }') }), ['coder a/b 1']);
});

test('leaves out what cannot be read', () => {
  assert.deepEqual(versions({ 'a.tf': 'provider "x" { version = var.y }', 'b.tf.json': '{"version' }), []);
});
