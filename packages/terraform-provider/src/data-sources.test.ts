import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { terraformDir } from './testing/terraform.ts';

const hash = (name: string) => createHash('sha256').update(name).digest('hex');
const parameter = (label: string, body: string) =>
  `data "coder_parameter" "${label}" {\n  name = "${label}"\n${body}\n}\n`;
const option = (value: string) => `option {\n  name  = ${value}\n  value = ${value}\n}\n`;

test("data sources return the job's values", async (t) => {
  const tf = await terraformDir(`
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}
data "coder_provisioner" "me" {}
data "coder_task" "me" {}
data "coder_external_auth" "git" {
  id = "git-hub"
}
data "coder_external_auth" "old" {
  id       = "old"
  optional = true
}
data "coder_workspace_tags" "t" {
  tags = { zone = data.coder_parameter.plain.value }
}
data "coder_workspace_preset" "p" {
  name       = "Small"
  parameters = { plain = "x" }
  prebuilds {
    instances = 2
    expiration_policy {
      ttl = 7200
    }
    scheduling {
      timezone = "Europe/Berlin"
      schedule {
        cron      = "* 8-18 * * 1-5"
        instances = 4
      }
    }
  }
}
data "coder_secret" "s" {
  env          = "NPM_TOKEN"
  help_message = "Add it."
}
${parameter('plain', 'default = "dflt"')}
${parameter('missing', 'type = "number"')}
${parameter('chosen', `type = "number"\n mutable = true\n default = "2"\n validation {\n min = 1\n monotonic = "increasing"\n }`)}
${parameter('list', `type = "list(string)"\n form_type = "multi-select"\n default = jsonencode(["a"])\n ${option('"a"')}${option('"b"')}`)}
${parameter('bool', `type = "bool"\n default = true`)}
${parameter('pick', option('"one"') + option('"two"'))}
`);
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  const run = await tf.apply({
    CODER_WORKSPACE_ID: 'w-1',
    CODER_WORKSPACE_NAME: 'dev',
    CODER_WORKSPACE_OWNER: 'ann',
    CODER_WORKSPACE_OWNER_GROUPS: '["a","b"]',
    CODER_WORKSPACE_OWNER_RBAC_ROLES: '[{"name":"owner"},{"name":"admin","org_id":"o"}]',
    CODER_WORKSPACE_OWNER_SESSION_TOKEN: 'sess',
    CODER_WORKSPACE_TRANSITION: 'stop',
    'CODER_EXTERNAL_AUTH_ACCESS_TOKEN_git-hub': 'tok',
    CODER_SECRET_ENV_NPM_TOKEN: 'hush',
    [`CODER_PARAMETER_${hash('chosen')}`]: '7',
    [`CODER_PARAMETER_PREVIOUS_${hash('chosen')}`]: '5',
    [`CODER_PARAMETER_${hash('list')}`]: '["b","a"]',
    [`CODER_PARAMETER_${hash('pick')}`]: 'two',
  });
  assert.ok(run.ok, run.output);
  const all = Object.fromEntries((await tf.state()).map((r) => [`${r.type}.${r.name}`, r.values]));
  const workspace = all['coder_workspace.me']!;
  assert.equal(workspace['id'], 'w-1');
  assert.equal(workspace['start_count'], 0);
  assert.equal(workspace['transition'], 'stop');
  assert.equal(workspace['access_port'], 8443);
  const owner = all['coder_workspace_owner.me']!;
  assert.equal(owner['name'], 'ann');
  assert.equal(owner['email'], 'default@example.com');
  assert.deepEqual(owner['groups'], ['a', 'b']);
  assert.deepEqual(owner['rbac_roles'], [
    { name: 'owner', org_id: '' },
    { name: 'admin', org_id: 'o' },
  ]);
  assert.equal(all['coder_external_auth.git']!['access_token'], 'tok');
  assert.equal(all['coder_external_auth.old']!['access_token'], '');
  assert.equal(all['coder_secret.s']!['value'], 'hush');
  assert.equal(all['coder_task.me']!['enabled'], false);
  assert.deepEqual(all['coder_workspace_tags.t']!['tags'], { zone: 'dflt' });
  assert.match(String(all['coder_provisioner.me']!['arch']), /^(amd64|arm64|armv7)$/);
  const preset = all['coder_workspace_preset.p']!;
  assert.deepEqual(preset['prebuilds'], [
    {
      instances: 2,
      expiration_policy: [{ ttl: 7200 }],
      scheduling: [{ timezone: 'Europe/Berlin', schedule: [{ cron: '* 8-18 * * 1-5', instances: 4 }] }],
    },
  ]);
  const chosen = all['coder_parameter.chosen']!;
  assert.equal(chosen['value'], '7');
  assert.equal(chosen['optional'], true);
  assert.deepEqual(chosen['validation'], [
    { min: 1, max: 0, min_disabled: false, max_disabled: true, monotonic: 'increasing', regex: '', error: '' },
  ]);
  assert.equal(all['coder_parameter.plain']!['form_type'], 'input');
  assert.equal(all['coder_parameter.missing']!['value'], '');
  assert.equal(all['coder_parameter.missing']!['optional'], false);
  assert.equal(all['coder_parameter.bool']!['form_type'], 'checkbox');
  assert.equal(all['coder_parameter.pick']!['form_type'], 'radio');
  assert.equal(all['coder_parameter.list']!['value'], '["b","a"]');
});

// Label: [body, Terraform's message, the line it points at].
const DEFINITIONS: Record<string, [string, RegExp, RegExp]> = {
  badtype: ['type = "float"', /must be one of "string"/, /type = "float"/],
  immutable: ['ephemeral = true\n default = "x"', /must be mutable/, /data "coder_parameter"/],
  nodefault: ['ephemeral = true\n mutable = true', /needs a default/, /data "coder_parameter"/],
  formtype: ['form_type = "slider"', /shown as input or textarea, not as slider/, /form_type = "slider"/],
  regexnum: ['type = "number"\n validation {\n regex = "a"\n error = "e"\n }', /regex is for a string/, /regex = "a"/],
  regexbad: [
    'validation {\n regex = "(a"\n error = "e"\n }',
    /regex: error parsing regexp: missing closing/,
    /regex = "\(a"/,
  ],
  regexerr: ['validation {\n regex = "a"\n }', /needs an error/, /validation/],
  minmax: ['type = "number"\n validation {\n min = 5\n max = 4\n }', /min 5 is greater than max 4/, /min = 5/],
  minstring: ['validation {\n min = 5\n }', /min is for a number, but the type is string/, /min = 5/],
  mono: ['type = "number"\n validation {\n monotonic = "up"\n }', /must be "increasing" or "decreasing"/, /monotonic/],
  dupe: [option('"a"') + option('"a"'), /"a" is used twice/, /name {2}= "a"|value = "a"/],
  optnum: [`type = "number"\n ${option('"x"')}`, /"x" is not a number/, /value = "x"/],
};

const OTHERS = `
data "coder_workspace_preset" "ttl" {
  name = "x"
  prebuilds {
    instances = 1
    expiration_policy {
      ttl = 60
    }
  }
}
data "coder_workspace_preset" "cron" {
  name = "y"
  prebuilds {
    instances = 1
    scheduling {
      timezone = "Nowhere/None"
      schedule {
        cron      = "5 8 * * *"
        instances = 1
      }
    }
  }
}
data "coder_secret" "both" {
  env          = "A"
  file         = "/a"
  help_message = "h"
}
resource "coder_agent" "bad" {
  os                 = "beos"
  arch               = "amd64"
  connection_timeout = -1
  metadata {
    key      = "k"
    script   = "s"
    interval = 1
  }
  metadata {
    key      = "k"
    script   = "s"
    interval = 1.5
  }
}
resource "coder_script" "never" {
  agent_id     = "a"
  display_name = "n"
  script       = "s"
}
resource "coder_script" "cron" {
  agent_id     = "a"
  display_name = "n"
  script       = "s"
  cron         = "0 */5 25 * * *"
}
resource "coder_app" "bad" {
  agent_id  = "a"
  slug      = "Not-A-Slug"
  command   = "vi"
  url       = "http://localhost"
  share     = "all"
}
resource "coder_env" "bad" {
  agent_id = "a"
  name     = "1A"
}
resource "coder_metadata" "dup" {
  resource_id = "r"
  item {
    key = "a"
  }
  item {
    key = "a"
  }
}
resource "coder_ai_task" "none" {}
`;
const EXPECTED = [
  /ttl: must be at least 3600, not 60/,
  /must have \* for the minute/,
  /"Nowhere\/None" is not a time zone/,
  /exactly one of env and file/,
  /os: must be one of "linux", "darwin", "windows", not "beos"/,
  /connection_timeout: must be at least 0, not -1/,
  /interval: must be a whole number, not 1.5/,
  /Metadata key "k" is used twice/,
  /at least one of run_on_start, run_on_stop and cron/,
  /hour must be from 0 to 23, not "25"/,
  /slug: "Not-A-Slug" must be lower-case/,
  /Set either command or url, not both/,
  /share: must be one of "owner"/,
  /"1A" is not a valid name of an environment variable/,
  /Key "a" is used twice/,
  /Set app_id to the app of the task/,
];

test('rejects an invalid template where the problem is', async (t) => {
  const labels = Object.entries(DEFINITIONS).map(([label, [body]]) => parameter(label, body));
  const tf = await terraformDir(labels.join('\n') + OTHERS);
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  const run = await tf.plan();
  assert.ok(!run.ok);
  for (const [label, [, said, where]] of Object.entries(DEFINITIONS)) {
    const found = run.diagnostics.filter((d) => d.address === `data.coder_parameter.${label}`);
    const match = found.find((d) => said.test(d.detail));
    assert.ok(match, `${label}: ${JSON.stringify(found)}`);
    assert.match(match.code, where, label);
  }
  for (const said of EXPECTED)
    assert.ok(
      run.diagnostics.some((d) => said.test(d.detail)),
      String(said),
    );
});

// Label: [body, chosen, previous, Terraform's message].
const VALUES: Record<string, [string, string | undefined, string | undefined, RegExp]> = {
  nan: ['type = "number"', 'x', undefined, /"x" is not a number/],
  low: [
    'type = "number"\n validation {\n min = 3\n max = 9\n error = "{value} not in {min}..{max}"\n }',
    '1',
    undefined,
    /^1 not in 3\.\.9\n1 is less than the minimum of 3/,
  ],
  high: ['type = "number"\n validation {\n max = 9\n }', '10', undefined, /10 is more than the maximum of 9/],
  up: ['type = "number"\n validation {\n monotonic = "increasing"\n }', '4', '5', /4 is less than before \(5\)/],
  down: ['type = "number"\n validation {\n monotonic = "decreasing"\n }', '6', '5', /6 is more than before \(5\)/],
  re: [
    'validation {\n regex = "^[[:alpha:]]+$"\n error = "Letters."\n }',
    'a1',
    undefined,
    /^Letters\.\n"a1" does not/,
  ],
  slow: [
    'validation {\n regex = "^(a+)+$"\n error = "e"\n }',
    `${'a'.repeat(50)}!`,
    undefined,
    /^e\n"a+!" does not match/,
  ],
  flag: ['type = "bool"', 'yes', undefined, /neither true nor false/],
  words: ['type = "list(string)"', '[1]', undefined, /not a JSON list of strings/],
  pick: [option('"a"') + option('"b"'), 'c', undefined, /must be one of "a", "b", not "c"/],
  many: [
    `type = "list(string)"\n form_type = "multi-select"\n ${option('"a"')}`,
    '["a","q"]',
    undefined,
    /must be one of "a", not "q"/,
  ],
  numdflt: ['type = "number"\n default = "1,5"', undefined, undefined, /"1,5" is not a number/],
  decimal: ['type = "number"\n validation {\n min = 1\n }', '1.5', undefined, /"1\.5" is not a whole number/],
  lowdflt: [
    'type = "number"\n default = 3\n validation {\n monotonic = "increasing"\n }',
    undefined,
    '4',
    /3 is less than/,
  ],
  nodflt: [`default = "z"\n ${option('"a"')}`, undefined, undefined, /must be one of "a", not "z"/],
  nonum: [
    'type = "number"\n validation {\n min = 1\n }',
    undefined,
    undefined,
    /whole number\. Nobody entered a value/,
  ],
  noword: ['validation {\n regex = "^a+$"\n error = "As."\n }', undefined, undefined, /^As\.\n"" does not match/],
  nopick: [`${option('"a"')} validation {\n error = "e"\n }`, undefined, undefined, /must be one of "a", not ""/],
  blank: [
    'default = "a"\n validation {\n regex = "^a+$"\n error = "As."\n }',
    '',
    undefined,
    /^As\.\n"" does not match/,
  ],
  strict: ['type = "bool"\n validation {\n error = "e"\n }', 'True', undefined, /"True" is neither true nor false/],
};

test("rejects an invalid value with the template author's message", async (t) => {
  const tf = await terraformDir(
    Object.entries(VALUES)
      .map(([label, [body]]) => parameter(label, body))
      .join('\n'),
  );
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  const env: Record<string, string> = {};
  for (const [label, [, value, previous]] of Object.entries(VALUES)) {
    if (value !== undefined) env[`CODER_PARAMETER_${hash(label)}`] = value;
    if (previous !== undefined) env[`CODER_PARAMETER_PREVIOUS_${hash(label)}`] = previous;
  }
  const run = await tf.plan(env);
  assert.ok(!run.ok);
  for (const [label, [, , , said]] of Object.entries(VALUES)) {
    const found = run.diagnostics.filter((d) => d.address === `data.coder_parameter.${label}`);
    assert.ok(
      found.some((d) => said.test(d.detail)),
      `${label}: ${JSON.stringify(found)}`,
    );
  }
});
