import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { terraformDir, upstreamProvider } from './testing/terraform.ts';

// The cases that upstream's provider (2.20) accepts and rejects. If upstream's provider is installed, it also runs the
// tables.

const hash = (name: string) => createHash('sha256').update(name).digest('hex');
const text = (value: string) => JSON.stringify(value).replaceAll('${', '$${');
const block = (kind: string, type: string, label: string, body: string) =>
  `${kind} "${type}" "${label}" {\n${body}\n}\n`;
const parameter = (body: string) => ['data', 'coder_parameter', `name = "NAME"\n${body}`] as const;
const option = (value: string) => `option {\nname = ${text(`n${value}`)}\nvalue = ${text(value)}\n}\n`;
const regex = (pattern: string) => parameter(`validation {\nregex = ${text(pattern)}\nerror = "e"\n}`);
const preset = (body: string) => ['data', 'coder_workspace_preset', `name = "NAME"\n${body}`] as const;
const schedules = (zone: string, ...crons: string[]) =>
  preset(
    `prebuilds {\ninstances = 1\nscheduling {\ntimezone = ${text(zone)}\n${crons
      .map((cron) => `schedule {\ncron = ${text(cron)}\ninstances = 1\n}\n`)
      .join('')}}\n}`,
  );
const agent = (body: string) => ['resource', 'coder_agent', `os = "linux"\narch = "amd64"\n${body}`] as const;
const measure = (more: string) => agent(`metadata {\nkey = "k"\nscript = "s"\n${more}\n}`);
const app = (body: string) => ['resource', 'coder_app', `agent_id = "a"\nslug = "s"\n${body}`] as const;
const health = (url: string, interval: number) =>
  `healthcheck {\nurl = "${url}"\ninterval = ${interval}\nthreshold = 0\n}`;
const script = (body: string) =>
  ['resource', 'coder_script', `agent_id = "a"\ndisplay_name = "d"\nscript = "s"\n${body}`] as const;
const metadata = (item: string) =>
  ['resource', 'coder_metadata', `resource_id = "r"\nitem {\nkey = "k"\n${item}\n}`] as const;
const order = (body: string) => ['data', 'coder_script_order', `rule {\n${body}\n}`] as const;
const external = (url: string) => app(`external = true\nurl = ${text(url)}`);
const task = (body: string) => ['resource', 'coder_ai_task', body] as const;
const UUID = '5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a';

/** A block, and for parameters the entered value. */
type Case = readonly [block: readonly [string, string, string], entered?: string];

const NUMBERS = ['0.5', '1e3', '1E+3', '-1', '+1', '1.', '.5', '+.5e-1', '1_000', 'inf', '-Inf', 'NaN', '0x1p4', '007'];
const BOOLS = ['True', 'TRUE', '1', 't', 'T', '0', 'f', 'False'];

const ACCEPTED: Case[] = [
  ...NUMBERS.map((n): Case => [parameter(`type = "number"\ndefault = ${text(n)}`)]),
  ...NUMBERS.map((n): Case => [parameter(`type = "number"\n${option(n)}`)]),
  ...NUMBERS.map((n): Case => [parameter('type = "number"'), n]),
  ...BOOLS.map((b): Case => [parameter(`type = "bool"\ndefault = ${text(b)}`)]),
  ...BOOLS.map((b): Case => [parameter(`type = "bool"\n${option(b)}`)]),
  ...BOOLS.map((b): Case => [parameter('type = "bool"'), b]),
  [parameter('type = "list(string)"'), 'null'],
  [parameter('type = "list(string)"'), '["a",null]'],
  [parameter('type = "number"\nvalidation {\nmin = -5\n}'), '-1'],
  [parameter('type = "number"\ndefault = 5\nvalidation {\nmonotonic = ""\n}')],
  [regex('^\\p{L}\\pL$'), 'éa'],
  [regex('^\\Qa.b\\E\\x{61}[[:^digit:]]$'), 'a.bax'],
  [regex('^.$'), '😀'],
  [regex('^(a+)+$'), 'a'.repeat(1000)],
  [regex('^a*$')],
  // An invalid default does not matter if a value was entered.
  [parameter(`default = "z"\n${option('a')}`), 'a'],
  [parameter(`${option('a')}`)],
  [parameter(option('').replace('"n"', '""') + option('b').replace('"nb"', '" "'))],
  [['data', 'coder_parameter', 'name = " "']],
  ...[
    'a b.svg',
    '/icon/a b.svg',
    'http://a/b c',
    '//host/x',
    'https://h:99999/',
    'http://[fe80::1%25en0]/',
    '?%',
    '*',
  ].map((icon): Case => [parameter(`icon = ${text(icon)}`)]),
  ...['', '{', '[]'].map((styling): Case => [parameter(`styling = ${text(styling)}`)]),
  ...[
    '',
    'Local',
    'UTC',
    'EST',
    'Zulu',
    'US/Pacific',
    'Asia/Calcutta',
    'Asia/Kolkata',
    'Europe/Kyiv',
    'Etc/GMT-14',
  ].map((zone): Case => [schedules(zone, '* 8 * * 1-5')]),
  [schedules('UTC', '* 8-17 * * 1-5', '* 18 * * 5')],
  [preset(`description = "${'d'.repeat(128)}"\nicon = "/${'i'.repeat(255)}"`)],
  ...['ftp://x', '/path', '', '%zz'].map((url): Case => [agent(`troubleshooting_url = "${url}"`)]),
  [measure('interval = -1\ntimeout = -1')],
  [app(`display_name = "${'d'.repeat(64)}"`)],
  [app(health('/healthz', 5))],
  [app(health('', 0))],
  [app('external = true\nurl = "https://x"\nshare = null')],
  ...[
    'https://example.com/path?q=test',
    'vscode://coder.coder-remote/open?token=$SESSION_TOKEN',
    'com.example.app://callback',
    'jetbrains-gateway://connect#provider=ssh&projectPath=/home/u',
    'http://u:p@h:8/',
    'x://[::1]:8',
  ].map((url): Case => [external(url)]),
  [app('external = true\nurl = coder_env.later.id')],
  [order('run = ["coder_script.a", "not an address"]\nafter = ["module.b"]')],
  [order('run = ["coder_script.a[\\"x\\"]"]\nafter = ["module.b"]\nrequires = "completion"\nphase = "stop"')],
  ...['CRON_TZ=UTC 0 * * * * *', 'TZ=Europe/Berlin 0 0 8 * * *', '@every 90s', '0 0 8 * * mon-fri'].map(
    (cron): Case => [script(`cron = ${text(cron)}`)],
  ),
  [script('run_on_start = true\ntimeout = 1\nicon = "%"')],
  [task(`app_id = "${UUID}"`)],
];

/** Rejected when Terraform checks the configuration. */
const INVALID: Case[] = [
  ...[
    '/x%.svg',
    '%zz',
    ':foo',
    'ht_tp://x',
    'http://a b/c',
    'http://a:port/',
    'http://[::1',
    'https://x/#%',
    '\u007f',
  ].map((icon): Case => [parameter(`icon = ${text(icon)}`)]),
  ...['(?=a)a', '(?!a)b', '(?<=a)b', '(a)\\1', '\\8', '\\u0061', '[^]', 'a{1001}'].map((re): Case => [regex(re), 'a']),
  [parameter('type = "number"\nvalidation {\nregex = "a"\nerror = "e"\nmin = 1\n}')],
  [parameter('option {\nname = null\nvalue = "a"\n}')],
  [preset(`description = "${'d'.repeat(129)}"`)],
  [preset(`description = "${'é'.repeat(65)}"`)],
  [preset(`icon = "/${'i'.repeat(256)}"`)],
  ...['+01:00', 'europe/berlin', 'EUROPE/BERLIN', 'utc', 'Nowhere/None', '../etc', 'UTC '].map(
    (zone): Case => [schedules(zone, '* 8 * * 1-5')],
  ),
  [agent('metadata {\nkey = ""\nscript = "s"\ninterval = 1\n}\nmetadata {\nkey = ""\nscript = "s"\ninterval = 1\n}')],
  [app(`display_name = "${'d'.repeat(65)}"`)],
  [app(`group = "${'é'.repeat(33)}"`)],
  [app('external = true\nurl = "https://x"\nshare = "owner"')],
  [metadata('is_null = true')],
  [metadata('value = "v"\nis_null = false')],
  [agent('token = "x"')],
  [agent('init_script = coder_env.later.id')],
  [order('run = []\nafter = ["a"]')],
  [order('run = ["a"]\nafter = [""]')],
  [order('run = ["a"]\nafter = ["b"]\nphase = "boot"')],
  [order('run = ["a"]\nafter = ["b"]\nrequires = "luck"')],
  [app('external = false\nsubdomain = true')],
  [app('external = true\ncommand = ""')],
  [app(`command = "x"\n${health('http://x', 1)}`)],
  [app('command = "x"\nsubdomain = false')],
  [app('command = ""\nurl = "y"')],
  ...['', '@every 90x', '@every 1d', '@daily ', 'TZ=Nowhere 0 * * * * *', '0 0 0 * * 7'].map(
    (cron): Case => [script(`run_on_start = true\ncron = ${text(cron)}`)],
  ),
  [script('run_on_start = true\ntimeout = 0')],
  [task('app_id = "x"')],
  [task(`app_id = "${UUID.replaceAll('-', '')}"`)],
  [task('sidebar_app {\nid = "x"\n}')],
  [task(`app_id = ""\nsidebar_app {\nid = "${UUID}"\n}`)],
];

/** Rejected once values are known. data-sources.test.ts has more of these. */
const UNFIT: Case[] = [
  ...['0x10', '1e400', '1e', '1__0', '_1', ' 1', '１', '+nan', ''].map((n): Case => [parameter('type = "number"'), n]),
  ...['0.5', '1e3', '9223372036854775808'].map(
    (n): Case => [parameter('type = "number"\nvalidation {\nmin = 0\n}'), n],
  ),
  ...['yes', 'tRue', ''].map((b): Case => [parameter('type = "bool"'), b]),
  [regex('^\\s$'), '\u00a0'],
  [regex('^\\s$'), '\u000b'],
  [parameter(`default = "a"\n${option('a')}`), ''],
  ...['my-repo', '/some/path', './file.txt', '//example.com', '', 'localhost:8080', 'example.com:80/x'].map(
    (url): Case => [external(url)],
  ),
  ...['mailto:user@example.com', 'https://', 'https:///x', 'https://:8080', 'x://u@', 'x://[]'].map(
    (url): Case => [external(url)],
  ),
  [app('external = true')],
  [schedules('UTC', '* 8-18 * * 1-5', '* 18 * * 5')],
  [schedules('UTC', '* */2 * * *', '* 1 * * *')],
];

/** A value that is known only after the apply. */
const LATER = block('resource', 'coder_env', 'later', 'agent_id = "a"\nname = "N"');

async function plan(cases: readonly Case[], executableDir?: string) {
  const env: Record<string, string> = {};
  const source = cases.map(([[kind, type, body], entered], i) => {
    if (entered !== undefined) env[`CODER_PARAMETER_${hash(`c${i}`)}`] = entered;
    return block(kind, type, `c${i}`, body.replace('NAME', `c${i}`));
  });
  const tf = await terraformDir(LATER + source.join(''), { executableDir });
  try {
    const run = await tf.plan(env);
    const errors = run.diagnostics.filter(({ severity }) => severity === 'error');
    return { run, errorsOf: (i: number) => errors.filter(({ address }) => address?.endsWith(`.c${i}`)) };
  } finally {
    await tf.remove();
  }
}

for (const [who, executableDir] of [
  ['', undefined],
  ...(upstreamProvider ? [[' (upstream itself)', upstreamProvider]] : []),
] as const) {
  test(`accepts what upstream's provider accepts${who}`, async () => {
    const { run, errorsOf } = await plan(ACCEPTED, executableDir);
    for (const [i, [[, , body]]] of ACCEPTED.entries()) assert.deepEqual(errorsOf(i), [], body);
    assert.ok(run.ok, run.output);
  });

  for (const [when, cases] of [
    ['in a configuration', INVALID],
    ['among values', UNFIT],
  ] as const) {
    test(`rejects what upstream's provider rejects ${when}${who}`, async () => {
      // Terraform reads values only in a configuration without errors: plan the rest again.
      let left = cases;
      for (let before = left.length + 1; left.length > 0 && left.length < before; ) {
        before = left.length;
        const { errorsOf } = await plan(left, executableDir);
        left = left.filter((_, i) => errorsOf(i).length === 0);
      }
      assert.deepEqual(left, []);
    });
  }
}

const FORMS = `
data "coder_parameter" "free" {
  name = "free"
}
data "coder_parameter" "options" {
  name = "options"
  option {
    name  = "a"
    value = "a"
  }
}
data "coder_workspace_preset" "p" {
  name = "p"
}
resource "coder_agent" "a" {
  os   = "linux"
  arch = "amd64"
}
resource "coder_metadata" "m" {
  resource_id = coder_agent.a.id
  item {
    key = "none"
  }
  item {
    key   = "empty"
    value = ""
  }
}
output "forms" {
  value = {
    icon    = "<\${data.coder_parameter.options.option[0].icon}>"
    item    = "<\${coder_metadata.m.item[0].value}>"
    is_null = coder_metadata.m.item[*].is_null
    absent  = [data.coder_parameter.free.option == null, data.coder_parameter.free.icon == null, data.coder_workspace_preset.p.prebuilds == null, data.coder_parameter.free.validation == null]
    apps    = one(coder_agent.a.display_apps).vscode
    preset  = data.coder_workspace_preset.p.id
  }
}
`;

test("omitted values read as templates written for upstream's provider expect", async (t) => {
  const tf = await terraformDir(FORMS);
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  const run = await tf.apply();
  assert.ok(run.ok, run.output);
  const shown = await tf.terraform(['output', '-json', 'forms']);
  assert.deepEqual(JSON.parse(shown.output), {
    icon: '<>',
    item: '<>',
    is_null: [true, false],
    absent: [true, true, true, false],
    apps: true,
    preset: 'p',
  });
  const again = await tf.apply();
  assert.deepEqual(again.planned, [0, 0, 0], again.output);
});

test('warns of deprecated attributes and those without effect, and a claim ends a prebuild', async (t) => {
  const warned: [readonly [string, string, string], RegExp][] = [
    [task(`sidebar_app {\nid = "${UUID}"\n}`), /sidebar_app is deprecated: use app_id/],
    [script('cron = "*/5 * * * *"'), /"0 \*\/5 \* \* \* \*"/],
    [app('hidden = true\nicon = "/i"'), /icon has no effect/],
  ];
  const source = warned.map(([[kind, type, body], _], i) => block(kind, type, `c${i}`, body)).join('');
  const tf = await terraformDir(`${source}data "coder_workspace" "me" {}\n`);
  t.after(() => tf.remove());
  assert.ok((await tf.terraform(['init', '-input=false'])).ok);
  const run = await tf.apply({ CODER_WORKSPACE_IS_PREBUILD: 'true', CODER_WORKSPACE_IS_PREBUILD_CLAIM: 'true' });
  assert.ok(run.ok, run.output);
  for (const [i, [, says]] of warned.entries())
    assert.ok(
      run.diagnostics.some((d) => d.severity === 'warning' && d.address?.endsWith(`.c${i}`) && says.test(d.detail)),
      `${says}: ${JSON.stringify(run.diagnostics)}`,
    );
  const workspace = await tf.values('coder_workspace', 'me');
  assert.deepEqual(
    [workspace['is_prebuild'], workspace['prebuild_count'], workspace['is_prebuild_claim']],
    [false, 0, true],
  );
});
