import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { terraformDir } from './testing/terraform.ts';

const TEMPLATE = `
data "coder_workspace" "me" {}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  env  = { A = "b" }
  metadata {
    key      = "load"
    script   = "uptime"
    interval = 10
  }
  display_apps {
    vscode = false
  }
  resources_monitoring {
    memory {
      enabled   = true
      threshold = 80
    }
    volume {
      path      = "/home"
      enabled   = true
      threshold = 90
    }
  }
}
resource "coder_agent" "cloud" {
  os   = "windows"
  arch = "arm64"
  auth = "aws-instance-identity"
}
resource "coder_agent_instance" "cloud" {
  agent_id    = coder_agent.cloud.id
  instance_id = "i-1"
}
resource "coder_app" "code" {
  agent_id = coder_agent.main.id
  slug     = "code"
  url      = "http://localhost:13337"
  healthcheck {
    url       = "http://localhost:13337/healthz"
    interval  = 5
    threshold = 6
  }
}
resource "coder_script" "setup" {
  agent_id     = coder_agent.main.id
  display_name = "Setup"
  script       = "true"
  cron         = "0 */5 8-18 * * mon-fri"
}
resource "coder_env" "editor" {
  agent_id = coder_agent.main.id
  name     = "EDITOR"
  value    = "vim"
}
resource "coder_devcontainer" "dev" {
  agent_id         = coder_agent.main.id
  workspace_folder = "/src"
}
resource "coder_external_agent" "elsewhere" {
  agent_id = coder_agent.main.id
}
resource "coder_ai_task" "task" {
  app_id = coder_app.code.id
}
resource "terraform_data" "vm" {
  count = data.coder_workspace.me.start_count
  input = coder_agent.main.token
}
resource "coder_metadata" "vm" {
  count       = data.coder_workspace.me.start_count
  resource_id = terraform_data.vm[0].id
  daily_cost  = 3
  item {
    key   = "none"
    value = null
  }
  item {
    key   = "agent"
    value = coder_agent.main.id
  }
}
`;

const build = (id: string, more: Record<string, string> = {}) => ({
  CODER_WORKSPACE_BUILD_ID: id,
  CODER_WORKSPACE_TEMPLATE_ID: 't',
  CODER_WORKSPACE_TEMPLATE_NAME: 'docker',
  CODER_WORKSPACE_TEMPLATE_VERSION: 'v1',
  ...more,
});
const TASK = '5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a';
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('a workspace through its builds', () => {
  let tf: Awaited<ReturnType<typeof terraformDir>>;
  before(async () => {
    tf = await terraformDir(TEMPLATE);
    const init = await tf.terraform(['init', '-input=false']);
    assert.ok(init.ok, init.output);
  });
  after(() => tf.remove());

  test('first start', async () => {
    const run = await tf.apply(build('b1', { CODER_TASK_ID: TASK, CODER_TASK_PROMPT: 'do it' }));
    assert.ok(run.ok, run.output);
    const agent = await tf.values('coder_agent', 'main');
    assert.match(String(agent['id']), UUID);
    assert.match(String(agent['token']), UUID);
    assert.notEqual(agent['id'], agent['token']);
    assert.equal(agent['connection_timeout'], 120);
    assert.equal(agent['auth'], 'token');
    assert.equal(agent['api_key_scope'], 'all');
    assert.equal(agent['motd_file'], null);
    assert.deepEqual(agent['display_apps'], [
      { port_forwarding_helper: true, ssh_helper: true, vscode: false, vscode_insiders: false, web_terminal: true },
    ]);
    assert.match(String(agent['init_script']), /BINARY_URL="https:\/\/coder.example:8443\/bin\/coder-linux-amd64"/);
    assert.match(String(agent['init_script']), /CODER_AGENT_AUTH="token"/);
    assert.match(String(agent['init_script']), /CODER_AGENT_URL="https:\/\/coder.example:8443\/"/);

    const cloud = await tf.values('coder_agent', 'cloud');
    assert.match(String(cloud['token']), UUID);
    assert.match(String(cloud['init_script']), /CODER_AGENT_AUTH = "aws-instance-identity"/);
    assert.match(String(cloud['init_script']), /https:\/\/coder.example:8443\/bin\/coder-windows-arm64.exe/);
    assert.equal((await tf.values('coder_agent_instance', 'cloud'))['agent_id'], cloud['id']);

    const app = await tf.values('coder_app', 'code');
    assert.equal(app['agent_id'], agent['id']);
    assert.equal(app['share'], 'owner');
    assert.equal(app['open_in'], 'slim-window');
    assert.equal((await tf.values('coder_env', 'editor'))['merge_strategy'], 'replace');
    assert.match(String((await tf.values('coder_devcontainer', 'dev'))['subagent_id']), UUID);
    const task = await tf.values('coder_ai_task', 'task');
    assert.deepEqual(
      { ...task, sidebar_app: undefined },
      { id: TASK, app_id: app['id'], prompt: 'do it', enabled: true, sidebar_app: undefined },
    );
    assert.deepEqual((await tf.values('coder_metadata', 'vm'))['item'], [
      { key: 'none', value: '', sensitive: false, is_null: true },
      { key: 'agent', value: agent['id'], sensitive: false, is_null: false },
    ]);
  });

  test('the next build renews the token only', async () => {
    const before = await tf.values('coder_agent', 'main');
    const vm = await tf.values('terraform_data', 'vm');
    assert.equal(vm['input'], before['token']);
    const run = await tf.apply(build('b2'));
    assert.ok(run.ok, run.output);
    const agent = await tf.values('coder_agent', 'main');
    assert.notEqual(agent['token'], before['token']);
    assert.deepEqual({ ...agent, token: '' }, { ...before, token: '' });
    assert.equal((await tf.values('terraform_data', 'vm'))['input'], agent['token']);
  });

  test('stop, then start', async () => {
    const before = await tf.values('coder_agent', 'main');
    const stop = await tf.apply(build('b3', { CODER_WORKSPACE_TRANSITION: 'stop' }));
    assert.ok(stop.ok, stop.output);
    const stopped = await tf.values('coder_agent', 'main');
    assert.equal(stopped['id'], before['id']);
    await assert.rejects(tf.values('terraform_data', 'vm'));
    assert.ok((await tf.apply(build('b4'))).ok);
    const started = await tf.values('coder_agent', 'main');
    assert.equal(started['id'], before['id']);
    assert.equal(new Set([before, stopped, started].map(({ token }) => token)).size, 3);
  });

  test('a claim keeps the running agent with its existing token, and the machine', async () => {
    const before = await tf.values('coder_agent', 'main');
    const vm = await tf.values('terraform_data', 'vm');
    const hash = createHash('sha256').update(String(before['id'])).digest('hex');
    const run = await tf.apply(
      build('b5', {
        CODER_WORKSPACE_IS_PREBUILD_CLAIM: 'true',
        [`CODER_RUNNING_WORKSPACE_AGENT_TOKEN_${hash}`]: String(before['token']),
      }),
    );
    assert.ok(run.ok, run.output);
    assert.deepEqual(await tf.values('coder_agent', 'main'), before);
    assert.deepEqual(await tf.values('terraform_data', 'vm'), vm);
  });

  test('delete leaves nothing', async () => {
    const run = await tf.terraform(
      ['apply', '-destroy', '-json', '-auto-approve'],
      build('b6', { CODER_WORKSPACE_TRANSITION: 'destroy' }),
    );
    assert.ok(run.ok, run.output);
    assert.deepEqual(await tf.state(), []);
  });
});

const AUTH = ['token', 'aws-instance-identity', 'google-instance-identity', 'azure-instance-identity'];
const DEPENDENTS = `
data "coder_workspace" "me" {}
resource "coder_agent" "main" {
  for_each = toset(${JSON.stringify(AUTH)})
  os       = "linux"
  arch     = "amd64"
  auth     = each.key
}
resource "coder_app" "web" {
  for_each = coder_agent.main
  agent_id = each.value.id
  slug     = "web"
}
resource "terraform_data" "boots_by_script" {
  for_each         = coder_agent.main
  triggers_replace = { user_data = each.value.init_script }
}
resource "terraform_data" "named_by_id" {
  for_each         = coder_agent.main
  triggers_replace = each.value.id
}
resource "terraform_data" "knows_token" {
  for_each         = coder_agent.main
  triggers_replace = each.value.token
}
resource "terraform_data" "runs" {
  for_each = data.coder_workspace.me.start_count > 0 ? coder_agent.main : {}
  input    = each.value.token
}
`;

// The plans of upstream's provider for one agent and its five dependents.
const PLANS: [transition: string, add: number, change: number, remove: number][] = [
  ['start', 6, 0, 0],
  ['start', 1, 1, 1],
  ['stop', 1, 0, 2],
  ['start', 2, 0, 1],
  ['destroy', 0, 0, 6],
];

test('each build replaces only what depends on the token, for each kind of authentication', async (t) => {
  const tf = await terraformDir(DEPENDENTS);
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  for (const [i, [transition, ...expected]] of PLANS.entries()) {
    const args = transition === 'destroy' ? ['-destroy'] : [];
    const env = build(`b${i}`, { CODER_WORKSPACE_TRANSITION: transition });
    const run = await tf.terraform(['apply', '-json', '-auto-approve', ...args], env);
    assert.ok(run.ok, run.output);
    assert.deepEqual(
      run.planned,
      expected.map((count) => count * AUTH.length),
      `${transition}, build ${i}`,
    );
  }
});

test('a template without required_providers finds the provider too, and the provider reads state of an older schema', async (t) => {
  const tf = await terraformDir('resource "coder_agent" "a" {\n  os = "linux"\n  arch = "arm64"\n}\n', {
    declare: false,
  });
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  const run = await tf.apply();
  assert.ok(run.ok, run.output);
  assert.match(String((await tf.values('coder_agent', 'a'))['id']), UUID);
  const path = `${tf.dir}/terraform.tfstate`;
  const state = JSON.parse(await readFile(path, 'utf8')) as {
    serial: number;
    resources: { instances: { schema_version: number; attributes: Record<string, unknown> }[] }[];
  };
  const instance = state.resources[0]!.instances[0]!;
  instance.schema_version = 0;
  instance.attributes['login_before_ready'] = true; // An attribute that the schema no longer has.
  delete instance.attributes['order'];
  await writeFile(path, JSON.stringify({ ...state, serial: state.serial + 1 }));
  const again = await tf.apply();
  assert.ok(again.ok, again.output);
});

test("a state in an older version's form replaces nothing", async (t) => {
  const tf = await terraformDir(`
resource "coder_agent" "a" {
  os   = "linux"
  arch = "amd64"
  env  = { A = "b", UNSET = null }
  metadata {
    key      = "k"
    script   = "s"
    interval = 1
  }
}
`);
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  assert.ok((await tf.apply()).ok);
  const path = `${tf.dir}/terraform.tfstate`;
  const state = JSON.parse(await readFile(path, 'utf8')) as {
    serial: number;
    resources: { instances: { attributes: Record<string, unknown> }[] }[];
  };
  const agent = state.resources[0]!.instances[0]!.attributes;
  assert.deepEqual([agent['env'], (agent['display_apps'] as unknown[]).length], [{ A: 'b' }, 1]);
  agent['env'] = { A: 'b', UNSET: null };
  agent['display_apps'] = [];
  agent['metadata'] = [{ key: 'k', script: 's', interval: 1, display_name: null, order: null, timeout: null }];
  agent['token'] = '';
  await writeFile(path, JSON.stringify({ ...state, serial: state.serial + 1 }));
  const again = await tf.apply();
  assert.deepEqual(again.planned, [0, 0, 0], again.output);
  assert.match(String((await tf.values('coder_agent', 'a'))['token']), UUID);
});

test('the import of a resource fails with the reason', async (t) => {
  const source = 'resource "coder_agent" "a" {\n  os = "linux"\n  arch = "arm64"\n}\n';
  const tf = await terraformDir(`${source}import {\n  to = coder_agent.a\n  id = "${crypto.randomUUID()}"\n}\n`);
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  const run = await tf.terraform(['plan', '-json'], build('b1'));
  assert.equal(run.ok, false);
  assert.deepEqual(
    run.diagnostics.map(({ summary, detail }) => [summary, detail]),
    [['Import is not supported', 'A coder_agent only exists within the builds of its workspace.']],
  );
});
