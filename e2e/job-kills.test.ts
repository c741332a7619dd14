import assert from 'node:assert/strict';
import { chmodSync, globSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { directoryHash } from '@ropewalk/server/postgres/place';
import { processIds } from '@ropewalk/testkit/processes';
import {
  buildEnds,
  createWorkspace,
  descendants,
  eventually,
  firstUser,
  importEnds,
  type Job,
  makeTemplate,
  postVersion,
  type ServerProcess,
  startCoderServer,
  type Workspace,
} from './harness.ts';
import { heldStatement } from './held-statement.ts';
import { type ProviderMirror, startProviderMirror } from './provider-mirror.ts';

// Kills exactly one process that works for a job, in one phase of the job. The daemon survives: it ends the job with the
// reason, keeps the state, leaves nothing, and goes on with the next job.

const isRoot = process.getuid?.() === 0;
let server: ServerProcess;
let sql: Sql;
let mirror: ProviderMirror;
let scratch: string;
let template: string;
/** One whose provider has a process. */
let withPlugin: string;

/** Waits in each program of a job that a file `PROGRAM-CASE.hold` names, and leaves a file with its pid. */
const hold = (program: string, name: string) => `
if [ -e "${scratch}/${program}-${name}.hold" ]; then
  touch "${scratch}/${program}-${name}.$$"
  while [ -e "${scratch}/${program}-${name}.hold" ]; do sleep 0.05; done
fi`;

const builds = (provider: string) => `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
    other = { source = "${provider}" }
  }
}
data "coder_workspace" "me" {}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
resource "terraform_data" "first" {
  input = "first"
}
resource "coder_metadata" "first" {
  resource_id = terraform_data.first.id
  daily_cost  = 1
}
resource "terraform_data" "machine" {
  count      = data.coder_workspace.me.start_count
  depends_on = [terraform_data.first]
  input      = coder_agent.main.id
  provisioner "local-exec" {
    command = ${JSON.stringify(hold('machine', '$CODER_WORKSPACE_NAME'))}
  }
}
resource "coder_env" "last" {
  provider   = other
  depends_on = [terraform_data.machine]
  agent_id   = coder_agent.main.id
  name       = "LAST"
  value      = "last"
}
`;

before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'platform-kills-'));
  chmodSync(scratch, 0o1777); // builds of a root server have their own uid
  mirror = await startProviderMirror({ filler: 0, start: hold('plugin', '$CODER_WORKSPACE_NAME') });
  const config = join(scratch, 'terraformrc');
  writeFileSync(config, mirror.config);
  const terraform = join(scratch, 'terraform');
  const name = `\${CODER_WORKSPACE_NAME:-$(sed -n 's/^# case: //p' main.tf 2>/dev/null)}`;
  const script = `#!/bin/sh\nname="${name}"\n${hold('$1', '$name')}\nPATH='${process.env['PATH']}' exec terraform "$@"\n`;
  writeFileSync(terraform, script, { mode: 0o755 });
  server = await startCoderServer({
    env: {
      ...mirror.env,
      TF_CLI_CONFIG_FILE: config,
      CODER_TERRAFORM_BINARY: terraform,
      CODER_PROVISIONER_DAEMONS: '2',
    },
  });
  await firstUser(server);
  sql = connect(server.databaseUrl!, { max: 2 });
  template = await makeTemplate(server, 'kills', { 'main.tf': builds('coder/coder') });
  withPlugin = await makeTemplate(server, 'plugin', { 'main.tf': builds(mirror.source) });
});
after(async () => {
  await sql?.end();
  await server?.stop();
  await mirror?.close();
  rmSync(scratch, { recursive: true, force: true });
});

/** A program that waits. */
interface Held {
  /** The pid of the program, when it waits. */
  pid(): Promise<number>;
  go(): void;
}

function held(program: string, name: string): Held {
  const file = join(scratch, `${program}-${name}.hold`);
  writeFileSync(file, '');
  return {
    pid: () =>
      eventually(`${program} waits`, () => {
        const mark = globSync(`${program}-${name}.*`, { cwd: scratch }).find((each) => /\.\d+$/.test(each));
        return mark === undefined ? undefined : Number(mark.split('.').at(-1));
      }),
    go: () => rmSync(file, { force: true }),
  };
}

/** The statements that end these phases: the table, and which changes of its rows. */
const STATEMENTS: Partial<Record<Phase, [string, string]>> = {
  'state upload': ['workspace_builds', 'NEW.provisioner_state IS DISTINCT FROM OLD.provisioner_state'],
  completion: ['provisioner_jobs', 'OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL'],
};

const textOf = (pid: number, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1').replaceAll('\0', ' ');
  } catch {
    return '';
  }
};
/** The processes of a workspace's build: all have its variables. */
const processesOf = (name: string) =>
  processIds().filter((pid) => {
    const variables = textOf(pid, 'environ');
    return variables.includes(scratch) && variables.includes(`CODER_WORKSPACE_NAME=${name} `);
  });
const commandOf = (name: string, pattern: RegExp) =>
  eventually(`${pattern} runs`, () => processesOf(name).find((pid) => pattern.test(textOf(pid, 'cmdline'))));

type Kind = 'terraform' | 'provider' | 'runner' | 'launcher';
const COMMANDS = { runner: /runner\/entry| runner/, launcher: /launcher|isolation\/entry/ };

function serverProcess(kind: 'runner' | 'launcher'): Promise<number> {
  return eventually(`the ${kind} runs`, () => {
    const found = descendants(server.child.pid!).filter(({ text }) => COMMANDS[kind].test(text));
    // setpriv and node have the same command line for a moment
    return found.at(-1)?.pid;
  });
}

/** Root's folder of the installation, with the daemons' sockets and the rooms of builds. */
const base = () => join('/var/lib/coder/provisioners', directoryHash(server.configDir));

async function assertNothingLeft(name: string): Promise<void> {
  const daemons = readlinkSync(`/proc/${await server.daemonsPid()}/cwd`);
  const files = (pattern: string, cwd: string) => globSync(pattern, { cwd });
  const left = () => [
    ...processesOf(name).map((pid) => `${pid} ${textOf(pid, 'cmdline')}`),
    ...[daemons, join(server.configDir, 'cache')].flatMap((dir) => files('provisioner-*/work/Session*', dir)),
    ...(isRoot ? files('{sockets/prov-*,rooms/*}', base()) : []),
  ];
  await eventually('nothing is left', () => left().length === 0, 5_000).catch(() => assert.deepEqual(left(), []));
}

async function stateOf(buildId: string): Promise<string[]> {
  const { body } = await server.api<{ resources?: { name: string }[] }>('GET', `/workspacebuilds/${buildId}/state`);
  return (body.resources ?? []).map((resource) => resource.name).sort();
}

const KILLED = /signal: SIGKILL\. Something else killed Terraform/;
const NO_PROVIDER = /The process of a provider ended while Terraform needed it/;
const NO_RUNNER = /The process that runs terraform ended \(SIGKILL\)/;
const NO_LAUNCHER = /The process that starts builds has died, so the exit status of the program is unknown/;

type Phase = 'init' | 'plan' | 'apply' | 'state upload' | 'completion';
/** Why the job fails. Absent: it succeeds nevertheless. */
const ROWS: [Phase, Kind, RegExp?][] = [
  ['init', 'terraform', KILLED],
  ['init', 'runner'],
  ['init', 'launcher', NO_LAUNCHER],
  ['plan', 'terraform', KILLED],
  ['plan', 'provider', NO_PROVIDER],
  ['plan', 'runner', NO_RUNNER],
  ['plan', 'launcher', NO_LAUNCHER],
  ['apply', 'terraform', KILLED],
  ['apply', 'provider', NO_PROVIDER],
  ['apply', 'runner', NO_RUNNER],
  ['apply', 'launcher'],
  ['state upload', 'terraform', KILLED],
  ['state upload', 'runner', NO_RUNNER],
  ['state upload', 'launcher'],
  ['completion', 'runner'],
  ['completion', 'launcher'],
];

/** Kills the process in this phase of a job. Resolves with the job's end, and what the state knows. */
async function killIn(phase: Phase, kind: Kind, name: string): Promise<{ job: Job; known: string[] }> {
  if (phase === 'init') {
    const init = held('init', name);
    // Terraform needs an init for the module
    const main = `# case: ${name}\nresource "terraform_data" "first" {}\nmodule "m" {\n  source = "./m"\n}\n`;
    const { id } = await postVersion(server, { 'main.tf': main, 'm/main.tf': '' });
    const terraform = await init.pid();
    process.kill(kind === 'terraform' ? terraform : await serverProcess(kind as 'runner'), 'SIGKILL');
    init.go();
    return { job: (await importEnds(server, id)).job, known: [] };
  }
  const plan = phase === 'plan' ? held(kind === 'provider' ? 'plugin' : 'plan', name) : undefined;
  const machine = plan ? undefined : held('machine', name);
  const statement = STATEMENTS[phase] && (await heldStatement(sql, ...STATEMENTS[phase]));
  try {
    const { latest_build } = await createWorkspace(server, kind === 'provider' ? withPlugin : template, name);
    const waiting = await (plan ?? machine)!.pid();
    if (phase === 'completion') machine!.go();
    await statement?.waits();
    const found = async () => {
      if (kind === 'runner' || kind === 'launcher') return serverProcess(kind);
      if (plan) return waiting;
      return commandOf(name, kind === 'terraform' ? /^terraform apply/ : /main\.mjs/);
    };
    process.kill(await found(), 'SIGKILL');
    await statement?.go();
    plan?.go();
    // these need Terraform no longer, or it does not notice
    if (kind === 'provider' || kind === 'launcher') machine?.go();
    const { id, job } = await buildEnds(server, latest_build.id);
    return { job, known: await stateOf(id) };
  } finally {
    await statement?.go();
    plan?.go();
    machine?.go();
  }
}

for (const [phase, kind, error] of ROWS) {
  test(`kill -9 of the ${kind} in the phase ${phase}`, {
    skip: kind === 'launcher' && !isRoot && 'only root starts builds under other uids',
  }, async () => {
    const name = `${kind}-${phase}`.replace(' ', '-');
    const { job, known } = await killIn(phase, kind, name);
    assert.equal(job.status, error ? 'failed' : 'succeeded', job.error ?? '');
    if (error) assert.match(job.error!, error);
    if (phase !== 'init' && phase !== 'plan') assert.ok(known.includes('first'), known.join());
    if (phase !== 'init' && !error) assert.ok(known.includes('last'), known.join());
    await assertNothingLeft(name);
  });
}

test('the next build of each of these workspaces has its state', async () => {
  const { body } = await server.api<{ workspaces: Workspace[] }>('GET', '/workspaces?limit=100');
  const mine = body.workspaces.filter(({ name }) => !name.startsWith('provider'));
  assert.ok(mine.length > 0);
  await Promise.all(
    mine.map(async ({ id, name }) => {
      const next = await server.api<{ id: string }>('POST', `/workspaces/${id}/builds`, { transition: 'delete' });
      const { status, job } = await buildEnds(server, next.body.id);
      assert.equal(status, 'deleted', `${name}: ${job.error}`);
      await assertNothingLeft(name);
    }),
  );
});
