// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BUILT_IN_PROVIDER, providersWithoutModules, Template } from '../index.ts';

function providersOf(files: Record<string, string>) {
  const data = new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
  return providersWithoutModules(new Template({ read: (path) => data.get(path), paths: () => data.keys() }));
}

const required = (entries: string) => `terraform {\n required_providers {\n${entries}\n }\n}\n`;
const CODER = 'registry.terraform.io/coder/coder';

const DECIDED: Record<string, [files: Record<string, string>, providers: string[]]> = {
  'one without a source is of hashicorp': [
    { 'main.tf': 'data "coder_workspace" "me" {}' },
    ['registry.terraform.io/hashicorp/coder'],
  ],
  'one that is part of Terraform': [{ 'main.tf': 'resource "terraform_data" "x" {}' }, [BUILT_IN_PROVIDER]],
  'a required one that nothing uses': [
    { 'main.tf': required('c = { source = "Coder/coder" }\n d = "~> 1.0"') },
    [CODER, 'registry.terraform.io/hashicorp/d'],
  ],
  'one with a host': [{ 'main.tf': required('c = { source = "h.example/n/t" }') }, ['h.example/n/t']],
  'one that a resource names': [
    {
      'main.tf': `${required('c = { source = "coder/coder" }')}resource "x_y" "z" {\n provider = c.other\n}`,
      'b.tf': 'data "x_y" "z" {\n provider = d\n}',
    },
    [CODER, 'registry.terraform.io/hashicorp/d'],
  ],
  'one that is only configured': [{ 'main.tf': 'provider "docker" {}' }, ['registry.terraform.io/hashicorp/docker']],
  'one that an override file replaces': [
    {
      'main.tf': required('c = { source = "a/b" }'),
      'main_override.tf': required('c = { source = "coder/coder" }'),
    },
    [CODER],
  ],
  'a version of Terraform, and resources that moved': [
    { 'main.tf': 'terraform {\n required_version = ">= 1"\n}\nmoved {\n from = a.b\n to = a.c\n}' },
    [],
  ],
};
for (const [what, [files, providers]] of Object.entries(DECIDED))
  test(`providers: ${what}`, () => {
    const found = providersOf(files);
    assert.deepEqual(found instanceof Set ? [...found].sort() : found, providers);
  });

/** Templates that may need more from an init, with the reason. */
const UNDECIDED: Record<string, [files: Record<string, string>, why: RegExp]> = {
  modules: [{ 'main.tf': 'module "m" {\n source = "./m"\n}', 'm/main.tf': '' }, /has modules/],
  'a backend': [{ 'main.tf': 'terraform {\n backend "local" {}\n}' }, /main\.tf:1: only Terraform knows.* backend/],
  'a cloud': [{ 'main.tf': 'terraform {\n cloud {}\n}' }, /cloud/],
  'an experiment': [{ 'main.tf': 'terraform {\n experiments = [x]\n}' }, /experiments/],
  'settings in JSON': [{ 'main.tf.json': '{"terraform": {"backend": {"local": {}}}}' }, /^main\.tf\.json: .* JSON/],
  'a repeated key in JSON': [
    { 'a.tf.json': '{"resource": {"null_resource": {"x": {}}}, "resource": {"terraform_data": {"y": {}}}}' },
    /^a\.tf\.json: .* JSON/,
  ],
  'a list in JSON': [{ 'a.tf.json': '[{"resource": {"null_resource": {"x": {}}}}]' }, /^a\.tf\.json: .* JSON/],
  'a check': [{ 'main.tf': 'check "c" {\n data "d_e" "f" {}\n}' }, /the data sources of a check/],
  'an import': [{ 'main.tf': 'import {\n to = a.b\n id = "x"\n}' }, /only Terraform knows blocks import/],
  'a provider in quotes': [
    { 'main.tf': 'resource "a_b" "c" {\n provider = "${x}"\n}' },
    /main\.tf:1: the provider is not a reference/,
  ],
  'a file that cannot be parsed': [{ 'main.tf': 'resource "a" "b" {' }, /main\.tf:1/],
  'no files': [{ 'README.md': '' }, /no Terraform files/],
};
for (const [what, [files, why]] of Object.entries(UNDECIDED))
  test(`providers: ${what}: only Terraform knows`, () => {
    const found = providersOf(files);
    assert.match('why' in found ? found.why : `decided: ${[...found]}`, why);
  });
