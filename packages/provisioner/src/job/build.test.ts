import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { PrebuiltWorkspaceBuildStage, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import type { CompletedJob_WorkspaceBuild } from '@ropewalk/wire/proto/provisionerd';
import { CODER, type Harness, harness, tarOf } from '../testing/harness.ts';

let h: Harness;
before(async () => {
  h = await harness();
  h.start();
});
after(() => h.close());

const TEMPLATE = `${CODER}
data "coder_workspace" "me" {}
data "coder_parameter" "size" {
  name    = "size"
  default = "small"
}
variable "greeting" { default = "hello" }
locals { token = coder_agent.main.token }
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  env  = { SIZE = data.coder_parameter.size.value }
  metadata {
    key      = "cpu"
    script   = "uptime"
    interval = 5
    timeout  = 1
  }
}
resource "coder_app" "code" {
  agent_id = coder_agent.main.id
  slug     = "code"
  url      = "http://localhost:8080"
  share    = "authenticated"
  healthcheck {
    url       = "http://localhost:8080/healthz"
    interval  = 5
    threshold = 6
  }
}
resource "coder_script" "hello" {
  agent_id     = coder_agent.main.id
  display_name = "Hello"
  script       = "echo hello"
  run_on_start = true
}
resource "terraform_data" "vm" {
  count = data.coder_workspace.me.start_count
  input = "\${local.token} \${var.greeting}"
}
resource "coder_metadata" "vm" {
  count       = data.coder_workspace.me.start_count
  resource_id = terraform_data.vm[0].id
  icon        = "/icon/vm.svg"
  item {
    key   = "size"
    value = data.coder_parameter.size.value
  }
}
`;

function build(archive: Uint8Array, transition: WorkspaceTransition, more: { state?: Uint8Array } = {}) {
  return {
    templateSourceArchive: archive,
    type: {
      case: 'workspaceBuild' as const,
      value: {
        workspaceBuildId: crypto.randomUUID(),
        workspaceName: 'dev',
        richParameterValues: [{ name: 'size', value: 'large' }],
        variableValues: [{ name: 'greeting', value: 'hi', sensitive: true }],
        metadata: {
          coderUrl: 'http://127.0.0.1:3000',
          workspaceTransition: transition,
          workspaceName: 'dev',
          workspaceId: crypto.randomUUID(),
          workspaceBuildId: crypto.randomUUID(),
          workspaceOwner: 'ada',
          templateId: crypto.randomUUID(),
          templateName: 't',
          templateVersion: 'v1',
        },
        ...more,
      },
    },
  };
}

test('starts, stops and deletes a workspace', async () => {
  // with a module, so that Terraform needs an init
  const archive = await tarOf({ 'main.tf': `${TEMPLATE}module "m" {\n  source = "./m"\n}\n`, 'm/main.tf': '' });
  const started = await h.server.verdict(h.server.post(build(archive, WorkspaceTransition.START)));
  assert.ok(started.completed, started.failed?.error ?? 'no verdict');
  const result = started.completed.type.value;
  assert.ok(started.completed.type.case === 'workspaceBuild' && result && 'state' in result);
  const [vm] = result.resources.filter(({ type }) => type === 'terraform_data');
  assert.equal(vm?.name, 'vm');
  assert.equal(vm?.icon, '/icon/vm.svg');
  assert.deepEqual(
    vm?.metadata.map(({ key, value }) => [key, value]),
    [['size', 'large']],
  );
  const [agent] = vm?.agents ?? [];
  assert.equal(agent?.name, 'main');
  assert.match(agent?.auth.value ?? '', /^[0-9a-f-]{36}$/);
  assert.deepEqual(agent?.env, { SIZE: 'large' });
  assert.equal(agent?.metadata[0]?.key, 'cpu');
  assert.deepEqual(
    agent?.apps.map(({ slug, sharingLevel, healthcheck }) => [slug, sharingLevel, healthcheck?.threshold]),
    [['code', 1, 6]],
  );
  assert.deepEqual(
    agent?.scripts.map(({ displayName, runOnStart }) => [displayName, runOnStart]),
    [['Hello', true]],
  );
  assert.ok(result.timings.some(({ stage, resource }) => stage === 'apply' && resource === 'terraform_data.vm[0]'));
  assert.ok(result.timings.some(({ stage }) => stage === 'init'));
  assert.deepEqual(new Set(h.server.epochs), new Set(['7']));
  const stages = [...new Set(h.server.logs.map(({ stage }) => stage))];
  assert.deepEqual(stages, ['Setting up', 'Planning infrastructure', 'Starting workspace', 'Cleaning Up']);

  const stopped = await h.server.verdict(
    h.server.post(build(archive, WorkspaceTransition.STOP, { state: result.state })),
  );
  assert.ok(stopped.completed?.type.case === 'workspaceBuild', stopped.failed?.error ?? 'no verdict');
  assert.equal(stopped.completed.type.value.resources.filter(({ type }) => type === 'terraform_data').length, 0);
  assert.doesNotMatch(h.server.text, /is left out/, 'a stop removes what the agent runs on');

  const state = stopped.completed.type.value.state;
  const deleted = await h.server.verdict(h.server.post(build(archive, WorkspaceTransition.DESTROY, { state })));
  assert.ok(deleted.completed?.type.case === 'workspaceBuild', deleted.failed?.error ?? 'no verdict');
  const empty = deleted.completed.type.value.state;
  assert.deepEqual((JSON.parse(Buffer.from(empty).toString()) as { resources: unknown[] }).resources, []);

  const again = await h.server.verdict(h.server.post(build(archive, WorkspaceTransition.DESTROY, { state: empty })));
  assert.ok(again.completed?.type.case === 'workspaceBuild');
  assert.deepEqual(Buffer.from(again.completed.type.value.state), Buffer.from(empty));
  assert.equal(h.server.text.match(/Initializing the backend/g)?.length, 1, 'later builds need no init');
  await eventually('an empty work directory', async () => (await readdir(`${h.dir}/work`)).length === 0);
});

test('commits a cost between plan and apply, and fails without budget', async () => {
  const archive = await tarOf({
    'main.tf': `${CODER}
resource "terraform_data" "vm" {}
resource "coder_metadata" "vm" {
  resource_id = terraform_data.vm.id
  daily_cost  = 4
}`,
  });
  const plain = build(archive, WorkspaceTransition.START);
  plain.type.value.variableValues = [];
  const ok = await h.server.verdict(h.server.post(plain));
  assert.ok(ok.completed?.type.case === 'workspaceBuild', ok.failed?.error ?? 'no verdict');
  assert.equal(ok.completed.type.value.resources[0]?.dailyCost, 4);
  assert.deepEqual(h.server.quotas, [4]);
  h.server.quotaOk = false;
  const refused = await h.server.verdict(h.server.post(plain));
  h.server.quotaOk = true;
  assert.match(
    refused.failed?.error ?? '',
    /insufficient quota: This build costs 4 credits a day\. Other workspaces use 3 of 10 credits\. Stop or delete/,
  );
  assert.ok(refused.failed?.type.case === 'workspaceBuild');
  assert.equal(refused.failed.type.value.state.length, 0);
});

test('keeps the state of the created resources if a provisioner fails', async () => {
  const archive = await tarOf({
    'main.tf': `
resource "terraform_data" "good" {}
resource "terraform_data" "bad" {
  depends_on = [terraform_data.good]
  provisioner "local-exec" { command = "echo it goes wrong; exit 3" }
}`,
  });
  const job = build(archive, WorkspaceTransition.START);
  job.type.value.variableValues = [];
  const { failed } = await h.server.verdict(h.server.post(job));
  assert.match(failed?.error ?? '', /^terraform apply: exit status 1: main\.tf:\d+: local-exec provisioner error/);
  assert.ok(failed?.type.case === 'workspaceBuild');
  assert.match(Buffer.from(failed.type.value.state).toString(), /"good"/);
  assert.ok(failed.type.value.timings.length > 0);
  assert.match(h.server.text, /it goes wrong/);
});

test('reads the state whichever Terraform workspace the archive selects, and fails without a state', async (t) => {
  const ends = (other: Harness, templateSourceArchive: Uint8Array) =>
    other.server.verdict(
      other.server.post({
        templateSourceArchive,
        type: { case: 'workspaceBuild', value: { metadata: { workspaceTransition: WorkspaceTransition.START } } },
      }),
    );
  const files = { 'main.tf': 'resource "terraform_data" "made" {}\n', '.terraform/environment': 'elsewhere' };
  const { completed } = await ends(h, await tarOf(files));
  const built = completed?.type.value as CompletedJob_WorkspaceBuild;
  assert.deepEqual(
    built.resources.map(({ name }) => name),
    ['made'],
  );
  // a machine whose settings make Terraform write to another file
  const other = await harness();
  t.after(() => other.close());
  other.start({ env: { ...other.options.env, TF_CLI_ARGS_apply: '-state-out=elsewhere.tfstate' } });
  const { failed } = await ends(other, await tarOf({ 'main.tf': files['main.tf'] }));
  assert.match(failed?.error ?? '', /its state file is missing/);
});

test('an undeclared variable, a broken template and a damaged archive fail with their reason', async () => {
  const undeclared = build(await tarOf({ 'main.tf': 'resource "terraform_data" "a" {}' }), WorkspaceTransition.START);
  undeclared.type.value.variableValues = [{ name: 'nope', value: '1', sensitive: false }];
  const first = await h.server.verdict(h.server.post(undeclared));
  assert.match(first.failed?.error ?? '', /exit status 1: .*undeclared variable/);
  const broken = build(await tarOf({ 'main.tf': 'resource "terraform_data" {' }), WorkspaceTransition.START);
  const second = await h.server.verdict(h.server.post(broken));
  assert.match(second.failed?.error ?? '', /^initialize terraform: exit status 1/);
  assert.deepEqual(
    (await readdir(`${h.dir}/cache/versions`)).filter((name) => name.startsWith('.')),
    [],
  );
  const damaged = build(Buffer.from('not a tar'.repeat(200)), WorkspaceTransition.START);
  const third = await h.server.verdict(h.server.post(damaged));
  assert.match(third.failed?.error ?? '', /Cannot unpack the template's archive/);
});

test('the claim of a prebuilt workspace names the replaced resources', async () => {
  const archive = await tarOf({
    'main.tf': `${CODER}
data "coder_workspace_owner" "me" {}
resource "terraform_data" "vm" { triggers_replace = [data.coder_workspace_owner.me.name] }`,
  });
  const first = build(archive, WorkspaceTransition.START);
  first.type.value.variableValues = [];
  const { completed } = await h.server.verdict(h.server.post(first));
  assert.ok(completed?.type.case === 'workspaceBuild');
  const claim = build(archive, WorkspaceTransition.START, { state: completed.type.value.state });
  claim.type.value.variableValues = [];
  claim.type.value.metadata = {
    ...claim.type.value.metadata,
    workspaceOwner: 'grace',
    prebuiltWorkspaceBuildStage: PrebuiltWorkspaceBuildStage.CLAIM,
  } as typeof claim.type.value.metadata;
  const done = await h.server.verdict(h.server.post(claim));
  assert.ok(done.completed?.type.case === 'workspaceBuild', done.failed?.error ?? 'no verdict');
  assert.deepEqual(
    done.completed.type.value.resourceReplacements.map(({ resource, paths }) => [resource, paths]),
    [['terraform_data.vm', ['triggers_replace']]],
  );
});
