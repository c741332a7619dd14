// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Persistence, persistence, Template } from '../index.ts';

// The templates of `testing/transitions` are also imported with Terraform's own plans of both transitions
// (packages/provisioner/src/job/transitions.test.ts).

const FOLDER = join(import.meta.dirname, '..', 'testing', 'transitions');

function templateOf(files: Record<string, string>): Template {
  const data = new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
  return new Template({ read: (path) => data.get(path), paths: () => data.keys() });
}

function decided(template: Template): Persistence {
  const found = persistence(template, []);
  assert.ok(!('why' in found), 'why' in found ? found.why : '');
  return found;
}

/** The instances of each template at a start, and whether a stop has them. */
const EXPECTED: Record<string, Record<string, boolean>> = {
  counted: {
    'coder_agent.main': true,
    'terraform_data.home': true,
    'terraform_data.machine[0]': false,
    'coder_metadata.machine[0]': false,
    'terraform_data.after': true,
    'terraform_data.replica[0]': true,
    'terraform_data.replica[1]': false,
  },
  keyed: {
    'terraform_data.each["a"]': false,
    'terraform_data.each["b.c"]': true,
    'terraform_data.same[0]': true,
  },
  called: {
    'module.machine[0].terraform_data.machine[0]': false,
    'module.machine[0].terraform_data.machine[1]': false,
    'module.disk["x"].terraform_data.disk': true,
    'module.disk["y"].terraform_data.disk': true,
    'module.disk["x"].terraform_data.mount[0]': false,
    'module.disk["y"].terraform_data.mount[0]': false,
  },
  json: { 'terraform_data.kept': true, 'terraform_data.gone[0]': false },
  override: {
    'terraform_data.always[0]': true,
    'terraform_data.sometimes[0]': false,
    'terraform_data.sometimes[1]': false,
  },
  variables: {
    'terraform_data.replica[0]': false,
    'terraform_data.replica[1]': false,
    'terraform_data.disk[0]': true,
    'terraform_data.disk[1]': false,
    'terraform_data.disk[2]': false,
  },
  unchanged: { 'coder_agent.other': true, 'terraform_data.machine': true },
};

for (const [name, instances] of Object.entries(EXPECTED))
  test(`${name}: finds what a stop has, and that a plan agrees`, () => {
    const dir = join(FOLDER, name);
    const paths = globSync('**/*.{tf,tf.json,tfvars}', { cwd: dir });
    const found = decided(
      templateOf(Object.fromEntries(paths.map((path) => [path, readFileSync(join(dir, path), 'utf8')]))),
    );
    const addresses = Object.keys(instances);
    assert.ok(found.agrees(addresses));
    assert.deepEqual(Object.fromEntries(addresses.map((address) => [address, found.persists(address)])), instances);
    const gone = addresses.find((address) => !instances[address] && !address.startsWith('module.'));
    if (gone) {
      assert.ok(!found.agrees(addresses.filter((address) => address !== gone)), 'a plan without it');
      assert.ok(!found.agrees([...addresses, gone.replace(/\[.*/, '["another"]')]), 'a plan with more');
    }
  });

test('the instances of other calls and blocks do not count', () => {
  const main = `data "coder_workspace" "me" {}
    module "m" {
      source = "./m"
      count  = data.coder_workspace.me.start_count
    }
    resource "r" "a" { count = data.coder_workspace.me.start_count }`;
  const found = decided(templateOf({ 'main.tf': main, 'm/main.tf': 'resource "r" "a" {}' }));
  const others = ['r.ab', 'r.ab[0]', 'module.mm.r.a', 'module.x.module.m[0].r.a', 'module.x.r.a[0]'];
  assert.ok(found.agrees(['r.a[0]', 'module.m[0].r.a', ...others]));
  assert.ok(found.agrees(['r.a[0]']), 'a module without resources is not in the plan');
  assert.ok(!found.agrees(['r.a[0]', 'module.m[1].r.a']));
  assert.deepEqual(others.map(found.persists), [true, true, true, true, true]);
});

const WORKSPACE = 'data "coder_workspace" "me" {}\n';
const GONE = `${WORKSPACE}resource "r" "gone" { count = data.coder_workspace.me.start_count }\n`;

/** Templates whose stop only Terraform knows, with the reason. */
const UNDECIDED: Record<string, [files: string | Record<string, string>, why: RegExp]> = {
  'an argument with the transition': [
    `${WORKSPACE}resource "r" "a" { x = data.coder_workspace.me.transition }`,
    /^r\.a: x depends on the transition\.$/,
  ],
  'an argument with the whole workspace': [
    `${WORKSPACE}resource "r" "a" { x = jsonencode(data.coder_workspace.me) }`,
    /r\.a: x/,
  ],
  'a for expression over the workspace': [
    `${WORKSPACE}resource "r" "a" { x = [for w in [data.coder_workspace.me] : w.start_count] }`,
    /r\.a: x/,
  ],
  'all workspaces': [`${WORKSPACE}resource "r" "a" { x = data.coder_workspace.me[*].start_count }`, /r\.a: x/],
  'a workspace with an index': [
    `data "coder_workspace" "me" { count = 1 }
    resource "r" "a" { x = data.coder_workspace.me[0].start_count }`,
    /r\.a: x/,
  ],
  'an inner block': [
    `${WORKSPACE}resource "r" "a" {
      b {
        c { x = data.coder_workspace.me.transition }
      }
    }`,
    /r\.a: b: c: x/,
  ],
  'the number of inner blocks': [
    `${WORKSPACE}resource "r" "a" {
      dynamic "b" {
        for_each = range(data.coder_workspace.me.start_count)
        content {}
      }
    }`,
    /r\.a: dynamic: for_each/,
  ],
  'a precondition': [
    `${GONE}resource "r" "a" {
      lifecycle {
        precondition {
          condition     = length(r.gone) > 0
          error_message = "x"
        }
      }
    }`,
    /r\.a: lifecycle: precondition: condition/,
  ],
  'a chain through locals, modules and outputs': [
    {
      'main.tf': `${WORKSPACE}locals { a = data.coder_workspace.me.transition }
        module "m" {
          source = "./m"
          x      = "\${local.a}!"
        }
        resource "r" "a" { x = module.m.y }`,
      'm/main.tf': 'variable "x" {}\noutput "y" { value = upper(var.x) }',
    },
    /^r\.a: x/,
  ],
  'a reference to what is gone': [`${GONE}resource "r" "a" { x = r.gone[*].id }`, /r\.a: x/],
  'a missing instance': [`${GONE}output "o" { value = r.gone[0].id }`, /Invalid index 0/],
  'a missing instance that nobody reads': [`${GONE}locals { o = r.gone[0].id }`, /Invalid index 0/],
  'a missing instance for a module': [
    {
      'main.tf': `${GONE}module "m" {
        source = "./m"
        x      = r.gone[0].id
      }`,
      'm/main.tf': 'variable "x" {}',
    },
    /Invalid index 0/,
  ],
  'a wrong type only at a stop': [
    {
      'main.tf': `${WORKSPACE}module "m" {
        source = "./m"
        x      = data.coder_workspace.me.transition == "start" ? "1" : "one"
      }`,
      'm/main.tf': 'variable "x" { type = number }',
    },
    /var\.x/,
  ],
  'a checked variable': [
    `${WORKSPACE}variable "x" {
      default = 1
      validation {
        condition     = var.x == data.coder_workspace.me.start_count
        error_message = "x"
      }
    }`,
    /var\.x: condition/,
  ],
  'a checked variable of a module': [
    {
      'main.tf': `${WORKSPACE}module "m" {
        source = "./m"
        x      = data.coder_workspace.me.start_count
      }`,
      'm/main.tf': `variable "x" {
        validation {
          condition     = var.x == 1
          error_message = "x"
        }
      }`,
    },
    /var\.x: condition/,
  ],
  'a condition of an output': [
    `${GONE}output "o" {
      value = 1
      precondition {
        condition     = length(r.gone) == 1
        error_message = "x"
      }
    }`,
    /output\.o: precondition: condition/,
  ],
  'a value that is unknown': [
    `${GONE}output "o" { value = [length(r.gone), r.b.id] }\nresource "r" "b" {}`,
    /not known/,
  ],
  'an instance that appears': [
    `${WORKSPACE}resource "r" "a" { count = 1 - data.coder_workspace.me.start_count }`,
    /^r\.a\[0\] exists only while the workspace is stopped\.$/,
  ],
  'an unknown number of instances': [
    `${WORKSPACE}data "d" "x" {}
    resource "r" "a" { count = data.d.x.n * data.coder_workspace.me.start_count }`,
    /^r\.a: the number of its instances/,
  ],
  'a number that is unknown only at a start': [
    `${WORKSPACE}data "d" "x" {}
    resource "r" "a" { count = data.coder_workspace.me.transition == "start" ? data.d.x.n : 0 }`,
    /^r\.a depends on the transition\.$/,
  ],
  'a number that depends in a module of unknown number': [
    {
      'main.tf': `${WORKSPACE}data "d" "x" {}
        module "m" {
          source = "./m"
          count  = data.d.x.n
          on     = data.coder_workspace.me.start_count
        }`,
      'm/main.tf': 'variable "on" {}\nresource "r" "a" { count = var.on }',
    },
    /number of its instances/,
  ],
  'a module call with an unknown number': [
    {
      'main.tf': `${WORKSPACE}data "d" "x" {}
        module "m" {
          source = "./m"
          count  = data.d.x.n * data.coder_workspace.me.start_count
        }`,
      'm/main.tf': 'resource "r" "a" {}',
    },
    /module\.m: the number of its instances/,
  ],
  'an order of a data source': [`${GONE}data "d" "x" { depends_on = [r.gone] }`, /data\.d\.x: depends_on/],
  'an order of a module': [
    { 'main.tf': `${GONE}module "m" {\n source = "./m"\n depends_on = [r.gone]\n}`, 'm/main.tf': 'data "d" "x" {}' },
    /module\.m: depends_on/,
  ],
  'an order in JSON': [
    {
      'main.tf': GONE,
      'more.tf.json': '{"data": {"d": {"x": {"depends_on": ["r.gone"]}}}}',
    },
    /data\.d\.x: depends_on/,
  ],
  'a program': [`data "external" "x" { program = ["true"] }`, /data\.external\.x: its program may know/],
  'a provider': [`${WORKSPACE}provider "p" { x = data.coder_workspace.me.transition }`, /main\.tf:2: x depends/],
  'a check': [
    `${GONE}check "c" {
      assert {
        condition     = length(r.gone) == 1
        error_message = "x"
      }
    }`,
    /main\.tf:3: assert: condition/,
  ],
  'an import': [`import {\n to = r.a\n id = "1"\n}\nresource "r" "a" {}`, /only Terraform knows blocks import/],
  'an ephemeral block': ['ephemeral "e" "x" {}', /only Terraform knows blocks ephemeral/],
  'an unknown block': ['action "a" "x" {}', /only Terraform knows blocks action/],
  'a module without files': ['module "m" { source = "example.com/m" }', /"m" is not loaded/],
  'a file that cannot be parsed': ['resource "r" "a" {', /main\.tf:1/],
  'more work than allowed': [
    `${WORKSPACE}locals { x = [for i in range(1000) : [for j in range(1000) : [for k in range(1000) : i]]] }
    output "o" { value = [local.x, data.coder_workspace.me.start_count] }`,
    /steps|elements|more than/,
  ],
};

for (const [what, [files, why]] of Object.entries(UNDECIDED))
  test(`${what}: only Terraform can plan the stop`, () => {
    const found = persistence(templateOf(typeof files === 'string' ? { 'main.tf': files } : files), []);
    assert.match('why' in found ? found.why : 'decided', why);
  });

test('long chains and circles of references end', () => {
  const locals = Array.from({ length: 5_000 }, (_, i) => `l${i} = local.l${i + 1}`).join('\n');
  const long = persistence(templateOf({ 'main.tf': `${WORKSPACE}locals {\n${locals}\nl5000 = 1\n}` }), []);
  assert.match('why' in long ? long.why : 'decided', /chains of over 300 references/);
  const circle = `${WORKSPACE}locals {
    a = [local.b, data.coder_workspace.me.transition]
    b = local.a
  }`;
  assert.ok('why' in persistence(templateOf({ 'main.tf': circle }), []));
});
