import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { AppError, silentLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit';
import { ParameterFormType } from '@ropewalk/wire/proto/provisioner';
import type { CompletedJob_TemplateImport } from '@ropewalk/wire/proto/provisionerd';
import tar from 'tar-stream';
import { createProcessContext } from '../daemon/daemon.ts';
import { Engines } from '../daemon/engines.ts';
import { findTerraform } from '../terraform/binary.ts';
import { inheritedEnv, withReadableConfig } from '../terraform/env.ts';
import type { TerraformBinary } from '../terraform/version.ts';
import { CODER, type Harness, harness, importJob, tarOf } from '../testing/harness.ts';

let h: Harness;
before(async () => {
  h = await harness();
  h.start();
});
after(() => h.close());

const TEMPLATE = `${CODER}
variable "image" {
  type        = string
  description = "What runs"
}
variable "size" {
  type    = number
  default = 3
}
variable "secret" {
  default   = "s3cret"
  sensitive = true
}
data "coder_workspace" "me" {}
data "coder_workspace_tags" "tags" {
  tags = { "zone" = data.coder_parameter.region.value }
}
data "coder_parameter" "region" {
  name         = "region"
  display_name = "Region"
  default      = "eu"
  mutable      = true
  option {
    name  = "Europe"
    value = "eu"
  }
  option {
    name  = "America"
    value = "us"
  }
}
data "coder_parameter" "cpus" {
  name = "cpus"
  type = "number"
  default = 2
  validation {
    min   = 1
    error = "at least {min}"
  }
}
data "coder_workspace_preset" "small" {
  name       = "Small"
  default    = true
  parameters = { region = "eu", cpus = "1" }
  prebuilds { instances = 2 }
}
data "coder_external_auth" "github" {
  id       = "github"
  optional = true
}
module "local" {
  source = "./inner"
  token  = coder_agent.main.token
}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
resource "coder_app" "web" {
  agent_id = coder_agent.main.id
  slug     = "web"
}
resource "terraform_data" "home" {}
resource "terraform_data" "vm" {
  count = data.coder_workspace.me.start_count
  input = coder_agent.main.init_script
}
`;
const FILES = {
  'main.tf': TEMPLATE,
  'README.md': '# Hello',
  'inner/main.tf': 'variable "token" {}\nresource "terraform_data" "in" { count = 0 }\n',
};

test('an import returns parameters, presets, resources of both transitions, modules and the plan', async () => {
  const archive = await tarOf(FILES);
  const { completed, failed } = await h.server.verdict(
    h.server.post(importJob(archive, [{ name: 'image', value: 'img' }])),
  );
  assert.ok(completed?.type.case === 'templateImport', failed?.error ?? 'no verdict');
  const result = completed.type.value;
  assert.deepEqual(
    result.richParameters.map(({ name, type, required, mutable, defaultValue, formType }) => ({
      name,
      type,
      required,
      mutable,
      defaultValue,
      formType,
    })),
    [
      {
        name: 'cpus',
        type: 'number',
        required: false,
        mutable: false,
        defaultValue: '2',
        formType: ParameterFormType.INPUT,
      },
      {
        name: 'region',
        type: 'string',
        required: false,
        mutable: true,
        defaultValue: 'eu',
        formType: ParameterFormType.RADIO,
      },
    ],
  );
  const [cpus, region] = result.richParameters;
  assert.equal(cpus?.validationMin, 1);
  assert.equal(cpus?.validationMax, undefined);
  assert.deepEqual(
    region?.options.map(({ name, value }) => [name, value]),
    [
      ['Europe', 'eu'],
      ['America', 'us'],
    ],
  );
  assert.equal(result.presets[0]?.name, 'Small');
  assert.equal(result.presets[0]?.prebuild?.instances, 2);
  assert.deepEqual(
    result.externalAuthProviders.map(({ id, optional }) => [id, optional]),
    [['github', true]],
  );
  const labels = (resources: typeof result.startResources) =>
    resources.map(({ type, name, agents }) => [`${type}.${name}`, agents.map((agent) => agent.name)]).sort();
  assert.deepEqual(labels(result.startResources), [
    ['terraform_data.home', []],
    ['terraform_data.vm', ['main']],
  ]);
  const [agent] = result.startResources.find(({ name }) => name === 'vm')?.agents ?? [];
  assert.deepEqual([agent?.id, agent?.auth.value, agent?.apps[0]?.slug], ['', '', 'web']);
  assert.deepEqual(labels(result.stopResources), [['terraform_data.home', []]]);
  assert.deepEqual(
    result.startModules.map(({ key, source }) => [key, source]),
    [['local', './inner']],
  );
  assert.equal(result.moduleFiles.length, 0);
  assert.ok(JSON.parse(Buffer.from(result.plan).toString()).planned_values);

  const update = h.server.updates.find(({ templateVariables }) => templateVariables.length > 0);
  assert.deepEqual(
    update?.templateVariables.map(({ name, type, defaultValue, required, sensitive }) => [
      name,
      type,
      defaultValue,
      required,
      sensitive,
    ]),
    [
      ['image', 'string', '', true, false],
      ['size', 'number', '3', false, false],
      ['secret', '', 's3cret', false, true],
    ],
  );
  assert.equal(Buffer.from(update?.readme ?? []).toString(), '# Hello');
  assert.deepEqual(update?.workspaceTags, { zone: 'data.coder_parameter.region.value' });
  const stages = [...new Set(h.server.logs.map(({ stage }) => stage))];
  assert.deepEqual(
    stages,
    [
      'Setting up',
      'Parsing template parameters',
      'Parse parameters',
      'Detecting persistent resources',
      'Detecting ephemeral resources',
      'Cleaning Up',
    ].filter((stage) => stages.includes(stage)),
  );
});

test('an import names the links that it leaves out', async () => {
  const pack = tar.pack();
  pack.entry({ name: 'main.tf' }, CODER);
  pack.entry({ name: 'shared.tf', type: 'symlink', linkname: '../shared.tf' });
  pack.entry({ name: 'setup.sh', type: 'link', linkname: 'main.tf' });
  pack.finalize();
  const { completed, failed } = await h.server.verdict(h.server.post(importJob(await buffer(pack))));
  assert.ok(completed, failed?.error ?? '');
  assert.ok(
    h.server.text.includes('The template is imported without its links: "shared.tf" and "setup.sh".'),
    h.server.text,
  );
});

test('an import says which presets cannot be used, and why', async () => {
  const template = `${CODER}
data "coder_parameter" "kind" {
  name    = "kind"
  default = "small"
}
data "coder_parameter" "size" {
  count = data.coder_parameter.kind.value == "large" ? 1 : 0
  name  = "size"
  type  = "number"
  validation {
    min = 1
    max = 8
  }
}
data "coder_workspace_preset" "fits" {
  name       = "Fits"
  parameters = { kind = "large", size = "4" }
  prebuilds { instances = 1 }
}
data "coder_workspace_preset" "beyond" {
  name       = "Beyond"
  parameters = { kind = "large", size = "9" }
}
data "coder_workspace_preset" "lacks" {
  name       = "Lacks"
  parameters = { kind = "large" }
  prebuilds { instances = 1 }
}
data "coder_workspace_preset" "asks" {
  name       = "Asks"
  parameters = { kind = "large" }
}
data "coder_workspace_preset" "other" {
  name       = "Other"
  parameters = { color = "red" }
}
`;
  const before = h.server.logs.length;
  const { completed, failed } = await h.server.verdict(h.server.post(importJob(await tarOf({ 'main.tf': template }))));
  assert.ok(completed, failed?.error ?? '');
  const lines = h.server.logs.slice(before).map(({ output }) => output);
  const said = lines.filter((line) => line.startsWith('Preset ')).sort();
  assert.match(said[0] ?? '', /^Preset "Beyond" cannot be used: .*\b8\b/);
  assert.match(
    said[1] ?? '',
    /^Preset "Lacks" cannot be used: .*Parameter "size": .* Its pool of prebuilt workspaces stays empty\.$/,
  );
  assert.match(said[2] ?? '', /^Preset "Other" cannot be used: .*"color"/);
  assert.equal(said.length, 3, said.join('\n'));
});

test('a dry run plans with the given parameters and changes nothing', async () => {
  const archive = await tarOf(FILES);
  const id = h.server.post({
    templateSourceArchive: archive,
    type: {
      case: 'templateDryRun',
      value: {
        metadata: {},
        richParameterValues: [{ name: 'region', value: 'us' }],
        variableValues: [{ name: 'image', value: 'img' }],
      },
    },
  });
  const { completed, failed } = await h.server.verdict(id);
  assert.ok(completed?.type.case === 'templateDryRun', failed?.error ?? 'no verdict');
  assert.deepEqual(completed.type.value.resources.map(({ name }) => name).sort(), ['home', 'vm']);
  assert.deepEqual(
    completed.type.value.modules.map(({ key }) => key),
    ['local'],
  );
});

test('a wrong parameter, a missing variable, broken HCL and a duplicate parameter fail with the reason', async () => {
  const wrong = await h.server.verdict(
    h.server.post({
      templateSourceArchive: await tarOf(FILES),
      type: {
        case: 'templateDryRun',
        value: {
          metadata: {},
          richParameterValues: [{ name: 'region', value: 'mars' }],
          variableValues: [{ name: 'image', value: 'img' }],
        },
      },
    }),
  );
  assert.match(wrong.failed?.error ?? '', /^run dry-run provision job: terraform plan: exit status 1: /);
  const missing = await h.server.verdict(h.server.post(importJob(await tarOf(FILES))));
  assert.equal(missing.failed?.error, 'update job: required template variables need values: image');
  assert.equal(missing.failed?.errorCode, 'REQUIRED_TEMPLATE_VARIABLES');
  const broken = await h.server.verdict(h.server.post(importJob(await tarOf({ 'main.tf': 'resource "a" {\n' }))));
  assert.match(broken.failed?.error ?? '', /^run parse: load module: main\.tf:\d+: /);
  const twice = await h.server.verdict(
    h.server.post(
      importJob(
        await tarOf({
          'main.tf': `${CODER}
data "coder_parameter" "a" { name = "same" }
data "coder_parameter" "b" { name = "same" }`,
        }),
      ),
    ),
  );
  assert.match(twice.failed?.error ?? '', /for start: duplicate parameter: "same"/);
});

test("a module's missing argument and an unavailable version fail with Terraform's text", async () => {
  const refused = async (files: Record<string, string>) => {
    const { failed } = await h.server.verdict(h.server.post(importJob(await tarOf(files))));
    return failed?.error ?? '';
  };
  const inner = 'variable "needed" {}\n';
  const missing = await refused({ 'main.tf': `${CODER}module "m" { source = "./inner" }`, 'inner/main.tf': inner });
  assert.match(
    missing,
    /exit status 1: (?:[\w/]+\.tf:\d+: )?Missing required argument: The argument "needed" is required/,
  );
  const lines = h.server.logs.map(({ output }) => output);
  assert.ok(lines.some((line) => /main\.tf line 6, in module "m"/.test(line)));
  assert.ok(!lines.some((line) => line.includes('\u001b')), 'no escapes');

  const version = (text: string) => CODER.replace('"coder/coder"', `"coder/coder"\n version = "${text}"`);
  assert.match(await refused({ 'main.tf': version('>= 99') }), /no available releases match .* >= 99\. This server/);
  const within = await refused({
    'main.tf': `${version('>= 2.0')}module "m" { source = "./inner" }`,
    'inner/main.tf': version('< 2.0'),
  });
  assert.match(within, /no available releases match/);
  assert.equal(await refused({ 'main.tf': version('~> 1.0, != 1.0.2') }), '', 'our provider serves an older release');
});

test("a failed init reports the first actual error with Terraform's explanation", async () => {
  const refused = async (text: string) => {
    const { failed } = await h.server.verdict(h.server.post(importJob(await tarOf({ 'main.tf': CODER + text }))));
    return failed?.error ?? '';
  };
  assert.match(
    await refused('resource "terraform_data" "a" { lifecycle { prevent_destroy = true } }'),
    /exit status 1: main\.tf:\d+: Argument definition required: A single-line block .* assign it a value\./,
  );
  assert.match(
    await refused('module "x" { source = "./nope" }'),
    /exit status 1: Unreadable module directory: .*no such file or directory/,
  );
});

test('the import of a template that needs no downloads runs no init', async (t) => {
  const other = await harness();
  t.after(() => other.close());
  const [wrapper, ran] = [join(other.dir, 'terraform'), join(other.dir, 'ran')];
  await writeFile(wrapper, `#!/bin/sh\necho "$1" >> '${ran}'\nexec terraform "$@"\n`, { mode: 0o755 });
  other.start({ terraformBinaries: [wrapper] });
  const commands = async (files: Record<string, string>) => {
    await writeFile(ran, '');
    const { completed, failed } = await other.server.verdict(other.server.post(importJob(await tarOf(files))));
    assert.ok(completed, failed?.error ?? '');
    return (await readFile(ran, 'utf8')).split('\n').filter((one) => one !== '' && one !== 'version');
  };
  const agent = `${CODER}resource "coder_agent" "a" {\n  os   = "linux"\n  arch = "amd64"\n}\n`;
  const used = `${agent}resource "terraform_data" "b" {\n  input = coder_agent.a.id\n}\n`;
  assert.deepEqual(await commands({ 'main.tf': used }), ['plan', 'show']);
  const withModule = { 'main.tf': `${used}module "m" {\n  source = "./m"\n}\n`, 'm/main.tf': '' };
  assert.deepEqual(await commands(withModule), ['init', 'plan', 'show']);
  const locked = { 'main.tf': `${used}# other`, '.terraform.lock.hcl': '' };
  assert.deepEqual(await commands(locked), ['init', 'plan', 'show']);
});

test('rejects a template that stores its state elsewhere', async () => {
  const imported = async (backend: string) => {
    const text = `terraform {\n  backend "local" {\n${backend}\n  }\n}\n${CODER}`;
    return (await h.server.verdict(h.server.post(importJob(await tarOf({ 'main.tf': text }))))).failed?.error ?? '';
  };
  assert.match(await imported('path = "elsewhere.tfstate"'), /in the backend "local"\. .* remove the backend/);
  assert.equal(await imported(''), '');
  assert.equal(await imported('path = "terraform.tfstate"'), '');
});

/** A template with a module from an absolute path that contains this data. */
async function withModule(data: string): Promise<Uint8Array> {
  const source = await mkdtemp(join(h.dir, 'module-'));
  await writeFile(join(source, 'main.tf'), 'output "here" { value = "fetched" }\n');
  await writeFile(join(source, 'data.txt'), data);
  return tarOf({ 'main.tf': `module "x" { source = "${source}" }\n` });
}

for (const ours of [true, false]) {
  test(`sends small module files inline and uploads large ones first, to ${ours ? 'our' : 'an upstream'} server`, async (t) => {
    const other = await harness({ ours });
    t.after(() => other.close());
    other.start();
    for (const [data, uploads] of [['small', 0] as const, ['x'.repeat(5 << 20), 1] as const]) {
      const job = other.server.post(importJob(await withModule(data)));
      const { completed, failed } = await other.server.verdict(job);
      assert.ok(!failed, failed?.error ?? '');
      const result = completed!.type.value as CompletedJob_TemplateImport;
      assert.equal(other.server.uploads.length, uploads);
      const files = uploads === 0 ? result.moduleFiles : other.server.uploads[0]!;
      assert.equal(result.moduleFiles.length > 0, uploads === 0);
      assert.deepEqual(Buffer.from(result.moduleFilesHash), createHash('sha256').update(files).digest());
      assert.ok(Buffer.from(files).includes('value = "fetched"'));
    }
  });
}

test('modules that are too large to store cause a warning and do not fail the import', async () => {
  const job = h.server.post(importJob(await withModule('x'.repeat(21 << 20))));
  const { completed, failed } = await h.server.verdict(job);
  assert.ok(!failed, failed?.error ?? '');
  const result = completed!.type.value as CompletedJob_TemplateImport;
  assert.deepEqual([result.moduleFiles.length, result.moduleFilesHash.length], [0, 0]);
  assert.match(
    h.server.text,
    /Cannot archive the fetched modules: The template's modules are larger than 20 MiB: module "x" at main\.tf:1 .* has 21\.0 MiB/,
  );
});

test('the modules stay in place while the plans of an import run', async (t) => {
  const other = await harness();
  t.after(() => other.close());
  const moved = join(other.dir, 'moved');
  const wrapper = join(other.dir, 'terraform');
  const script = `#!/bin/sh
[ "$1" = plan ] || exec terraform "$@"
before=$(stat -c %i .terraform)
terraform "$@"
status=$?
sleep 0.5
[ "$(stat -c %i .terraform)" = "$before" ] || touch '${moved}'
exit $status
`;
  await writeFile(wrapper, script, { mode: 0o755 });
  other.start({ terraformBinaries: [wrapper] });
  const { completed, failed } = await other.server.verdict(other.server.post(importJob(await withModule('small'))));
  assert.ok(completed, failed?.error ?? '');
  assert.equal(existsSync(moved), false);
});

/** A line of the output of `terraform plan -json`. */
const diagnostic = (summary: string) =>
  JSON.stringify({
    ...{ '@level': 'error', '@message': `Error: ${summary}`, type: 'diagnostic' },
    diagnostic: { severity: 'error', summary, detail: 'Blocks of type "newer" are not expected here.' },
  });

/** A program like Terraform 1.9.8, which rejects every template, as if a module required a newer version. */
async function olderEngine(dir: string): Promise<string> {
  const path = join(dir, 'older');
  const script = `#!/bin/sh
case "$*" in
version*) echo 'Terraform v1.9.8' ;;
init*)
  terraform get >/dev/null || exit 2
  echo 'Error: Unsupported Terraform Core version' >&2
  exit 1
  ;;
plan*)
  echo '${diagnostic('Unsupported Terraform Core version')}'
  exit 1
  ;;
*) exit 9 ;;
esac
`;
  await writeFile(path, script, { mode: 0o755 });
  return path;
}

/** A template with a module that requires Terraform 1.10, which only init fetches. */
async function withStricterModule(dir: string): Promise<Uint8Array> {
  const source = await mkdtemp(join(dir, 'module-'));
  await writeFile(join(source, 'main.tf'), 'terraform {\n  required_version = ">= 1.10"\n}\n');
  return tarOf({ 'main.tf': `${CODER}module "x" {\n  source = "${source}"\n}\n` });
}

test('an import changes to the engine that a fetched module requires', async (t) => {
  const other = await harness();
  t.after(() => other.close());
  const { path: newer, version } = await findTerraform({ env: process.env, log: silentLogger });
  other.start({ terraformBinaries: [await olderEngine(other.dir), newer] });
  const { completed, failed } = await other.server.verdict(
    other.server.post(importJob(await withStricterModule(other.dir))),
  );
  assert.ok(completed, failed?.error ?? '');
  assert.ok(
    other.server.text.includes(
      `Module "x" requires Terraform >= 1.10. The job continues with terraform ${version} instead of terraform 1.9.8.`,
    ),
    other.server.text,
  );
  assert.deepEqual(other.server.requiredEngines, []);
});

/** A program like Terraform 1.9.8 that rejects a block as if a later version had introduced it. */
async function engineOfOlderLanguage(dir: string): Promise<string> {
  const path = join(dir, 'older-language');
  const script = `#!/bin/sh
case "$*" in
version*) echo 'Terraform v1.9.8' ;;
plan*)
  echo '${diagnostic('Unsupported block type')}'
  exit 1
  ;;
*) exit 9 ;;
esac
`;
  await writeFile(path, script, { mode: 0o755 });
  return path;
}

test('an import whose language the engine rejects starts again with the newest engine', async (t) => {
  const other = await harness();
  t.after(() => other.close());
  const { path: newer, version } = await findTerraform({ env: process.env, log: silentLogger });
  other.start({ terraformBinaries: [await engineOfOlderLanguage(other.dir), newer] });
  const { failed } = await other.server.verdict(other.server.post(importJob(await tarOf({ 'main.tf': CODER }))));
  assert.match(failed?.error ?? '', /Unsupported block type/, 'the server kept the job');
  assert.deepEqual(other.server.requiredEngines, [`>= ${version}`]);
  assert.ok(
    other.server.text.includes(
      `terraform 1.9.8 rejects the template. A later version may support it. Trying again with terraform ${version}.`,
    ),
    other.server.text,
  );
});

test('an import that fails for another reason keeps its engine', async (t) => {
  const other = await harness();
  t.after(() => other.close());
  const { path: newer } = await findTerraform({ env: process.env, log: silentLogger });
  other.start({ terraformBinaries: [await olderEngine(other.dir), newer] });
  const { failed } = await other.server.verdict(other.server.post(importJob(await tarOf({ 'main.tf': CODER }))));
  assert.match(failed?.error ?? '', /Unsupported Terraform Core version/);
  assert.deepEqual(other.server.requiredEngines, []);
});

test('a daemon downloads the engine that a template requires, and offers it no longer if that fails', async (t) => {
  const other = await harness();
  t.after(() => other.close());
  const first = { ...(await findTerraform({ env: process.env, log: silentLogger })) };
  const path = join(other.dir, 'cache', 'later');
  let downloads = 0;
  let fails = true;
  const later: TerraformBinary = {
    ...{ path, version: '9.1.0', engine: 'terraform' },
    install: async () => {
      downloads++;
      if (fails) throw new AppError('unavailable', 'Cannot install terraform 9.1.0: no route');
      await writeFile(path, '#!/bin/sh\n[ "$1" = version ] && exec echo "Terraform v9.1.0"\nexit 9\n', { mode: 0o755 });
    },
  };
  const { options } = other;
  const sharedParts = () => {
    const env = withReadableConfig(inheritedEnv(options.env!, []), options.log);
    const shared = createProcessContext(options, { engines: new Engines([first, later]), launcher: undefined, env });
    t.after(() => shared.runner.release());
    return shared;
  };
  const template = await tarOf({ 'main.tf': 'terraform {\n  required_version = ">= 9"\n}\n' });
  const post = () => other.server.post({ ...importJob(template) });

  fails = false;
  const works = other.start({ shared: sharedParts() });
  const { failed } = await other.server.verdict(post());
  assert.match(failed?.error ?? '', /exit status 9/, 'the downloaded program ran');
  assert.equal(downloads, 1);
  assert.ok(
    other.server.text.includes(`The template excludes terraform ${first.version}. The job uses terraform 9.1.0.`),
  );
  const offered = () => other.server.dials.at(-1)?.headers['platform-engines'];
  assert.equal(offered(), `terraform ${first.version}, terraform 9.1.0`);
  works.drain();
  await works.done;

  fails = true;
  other.start({ name: 'offline', shared: sharedParts() });
  const offline = await other.server.verdict(post());
  assert.match(offline.failed?.error ?? '', /Cannot install terraform 9\.1\.0: no route\. Install it on PATH/);
  await eventually('it offers the rest', () => offered() === `terraform ${first.version}`);
});

for (const ours of [true, false])
  test(`an import that no engine of the daemon can run fails with the module's name, with ${ours ? 'our' : 'an upstream'} server`, async (t) => {
    const other = await harness({ ours });
    t.after(() => other.close());
    other.start({ terraformBinaries: [await olderEngine(other.dir)] });
    const { failed } = await other.server.verdict(other.server.post(importJob(await withStricterModule(other.dir))));
    assert.match(
      failed!.error,
      /initialize terraform: Module "x" requires Terraform >= 1\.10\. This daemon has terraform 1\.9\.8\.$/,
    );
    assert.deepEqual(other.server.requiredEngines, ours ? ['>= 1.10'] : []);
  });

test('a daemon gives up an import that the server puts back for another engine, and takes the next job', async (t) => {
  const other = await harness();
  t.after(() => other.close());
  other.server.putBack = true;
  other.start({ terraformBinaries: [await olderEngine(other.dir)] });
  other.server.post(importJob(await withStricterModule(other.dir)));
  await eventually('the server gets the requirement', () => other.server.requiredEngines.length === 1);
  other.server.putBack = false;
  const { failed } = await other.server.verdict(other.server.post(importJob(await withStricterModule(other.dir))));
  assert.ok(failed);
  assert.equal(other.server.failed.length, 1);
  await eventually('both sessions are gone', async () => (await readdir(other.options.workDir)).length === 0);
});
