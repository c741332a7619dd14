import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@ropewalk/kit';
import { startProvider } from '@ropewalk/terraform-provider';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import {
  buildEnds,
  createWorkspace,
  ensureExecutable,
  firstUser,
  makeTemplate,
  type ServerProcess,
  type ServerProcessOptions,
  startCoderServer,
} from '../e2e/harness.ts';
import { mediansOf, type Pair, paired, pairOf, processesBelow, type Row, timed } from './measure.ts';

const REACH_CPU = 1.5;
/** Of twelve builds each, to count processor time, which Linux gives in steps of 10 ms. */
const COUNTED_ROUNDS = 5;
/** New servers, each with as many single starts, for the first builds of new processes. */
const STARTS = 5;
const FIRST_ONES = 8;
/** Of twelve builds each, before anything is measured: the first builds of new processes compile code and plan statements. */
const WARM_ROUNDS = 6;

const TEMPLATE = {
  'main.tf': `terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
data "coder_workspace" "me" {}
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
resource "terraform_data" "machine" {
  input = coder_agent.main.id
}
`,
};

/** Runs bare terraform. */
export async function terraform(cwd: string, args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn('terraform', args, { cwd, env, stdio: 'ignore' });
  const code = await new Promise((resolve) => child.once('close', resolve));
  if (code !== 0) throw new Error(`terraform ${args[0]} ended with ${code}`);
}

/** Starts builds and returns the milliseconds to the end of their logs, which comes after their jobs are completed. */
export async function startBuilds(server: ServerProcess, templateId: string, names: string[]): Promise<number> {
  const started = performance.now();
  const ids = await Promise.all(
    names.map(async (name) => {
      const { latest_build: build } = await createWorkspace(server, templateId, name);
      const { connection } = await dialWebSocket(`${server.url}/api/v2/workspacebuilds/${build.id}/logs?follow`, {
        headers: { 'Coder-Session-Token': server.token },
      });
      connection.on('text', () => {});
      await connection.closed;
      return build.id;
    }),
  );
  const ms = performance.now() - started;
  for (const id of ids) {
    const { status, job } = await buildEnds(server, id);
    if (status !== 'running') throw new Error(job.error);
  }
  return ms;
}

const PARTS: [name: string, command: RegExp][] = [
  ['PostgreSQL', /postgres/],
  ['server', / server$/],
  ['daemons', / provisioner builtin$/],
  ['launcher', /isolation\/entry\.ts$/],
  ['runner', /runner\/entry\.ts$/],
];

/** The processor time of Terraform, and of everything else that takes part in builds, in ms. */
function processorTime(): { terraform: number; parts: Map<string, number> } {
  const all = processesBelow(process.pid);
  const parts = PARTS.map(([name, command]) => {
    const found = all.filter((one) => command.test(one.command));
    const own = found.reduce((sum, one) => sum + one.own, 0);
    return { name, own, children: found.reduce((sum, one) => sum + one.children, 0) };
  });
  const childrenOf = (part: string) => parts.find(({ name }) => name === part)!.children;
  return {
    terraform: childrenOf('launcher'),
    // PostgreSQL's children are sessions that have ended
    parts: new Map(parts.map(({ name, own }) => [name, own + (name === 'PostgreSQL' ? childrenOf(name) : 0)])),
  };
}

/** The floor of builds: bare `terraform apply` of the same template with the same provider, each in a prepared directory. */
class BareApply {
  readonly #scratch: string;
  readonly #prepared: string;
  readonly #provider: Awaited<ReturnType<typeof startProvider>>;
  readonly #env: NodeJS.ProcessEnv;
  #directories = 0;

  private constructor(scratch: string, provider: Awaited<ReturnType<typeof startProvider>>) {
    this.#scratch = scratch;
    this.#prepared = join(scratch, 'prepared');
    this.#provider = provider;
    this.#env = {
      PATH: process.env['PATH'],
      HOME: this.#scratch,
      TF_REATTACH_PROVIDERS: provider.reattach,
      CHECKPOINT_DISABLE: '1',
      TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
    };
  }

  static async prepare(server: ServerProcess): Promise<BareApply> {
    const scratch = mkdtempSync(join(tmpdir(), 'platform-bench-'));
    const provider = await startProvider({
      socketPath: join(scratch, 'provider.sock'),
      env: { CODER_WORKSPACE_TRANSITION: 'start', CODER_AGENT_URL: server.url, CODER_WORKSPACE_NAME: 'bench' },
      log: silentLogger,
    });
    const bare = new BareApply(scratch, provider);
    mkdirSync(bare.#prepared);
    writeFileSync(join(bare.#prepared, 'main.tf'), TEMPLATE['main.tf']);
    await terraform(bare.#prepared, ['init', '-input=false'], bare.#env);
    return bare;
  }

  /** A copy of the prepared directory. */
  #directory(): string {
    const dir = join(this.#scratch, `run-${this.#directories++}`);
    cpSync(this.#prepared, dir, { recursive: true });
    return dir;
  }

  #apply(dir: string): Promise<void> {
    return terraform(dir, ['apply', '-json', '-auto-approve', '-input=false', '-no-color'], this.#env);
  }

  /** The time of one apply, in ms. */
  one(): Promise<number> {
    const dir = this.#directory();
    return timed(() => this.#apply(dir));
  }

  /** The time of twelve, three at a time, in ms. */
  twelve(): Promise<number> {
    const dirs = Array.from({ length: 12 }, () => this.#directory());
    return timed(() =>
      Promise.all(
        [0, 1, 2].map(async () => {
          for (let dir = dirs.pop(); dir; dir = dirs.pop()) await this.#apply(dir);
        }),
      ),
    );
  }

  async close(): Promise<void> {
    await this.#provider.close();
    rmSync(this.#scratch, { recursive: true, force: true });
  }
}

/** Starts builds of new workspaces. */
class Builds {
  readonly #server: ServerProcess;
  readonly #templateId: string;
  #workspaces = 0;

  private constructor(server: ServerProcess, templateId: string) {
    this.#server = server;
    this.#templateId = templateId;
  }

  static async prepare(server: ServerProcess): Promise<Builds> {
    await firstUser(server);
    return new Builds(server, await makeTemplate(server, 'bench', TEMPLATE));
  }

  /** The time of as many builds that start at the same time, in ms. */
  run(count: number): Promise<number> {
    const names = Array.from({ length: count }, () => `bench-${this.#workspaces++}`);
    return startBuilds(this.#server, this.#templateId, names);
  }
}

function ratioRow(what: string, pair: Pair, reach: number): Row {
  return {
    what,
    ours: `${pair.ours.toFixed(0)} ms`,
    floor: `${pair.floor.toFixed(0)} ms`,
    figure: `${pair.ratio.toFixed(2)}×`,
    reach: `≤ ${reach}×`,
    met: pair.ratio <= reach,
  };
}

/** The processor time of builds in twelves, compared with the part of it that Terraform uses. */
async function processorRow(builds: Builds): Promise<Row> {
  const before = processorTime();
  for (let round = 0; round < COUNTED_ROUNDS; round++) await builds.run(12);
  const used = processorTime();
  const perBuild = (ms: number) => ms / (12 * COUNTED_ROUNDS);
  const terraformMs = perBuild(used.terraform - before.terraform);
  const parts = [...used.parts].map(([part, ms]) => [part, perBuild(ms - (before.parts.get(part) ?? 0))] as const);
  const ownMs = parts.reduce((sum, [, ms]) => sum + ms, 0);
  return {
    what: `processor time of a build (${parts.map(([part, ms]) => `${part} ${ms.toFixed(0)}`).join(', ')} ms)`,
    ours: `${(ownMs + terraformMs).toFixed(0)} ms`,
    floor: `${terraformMs.toFixed(0)} ms`,
    figure: `${((ownMs + terraformMs) / terraformMs).toFixed(2)}×`,
    reach: `≤ ${REACH_CPU}×`,
    met: (ownMs + terraformMs) / terraformMs <= REACH_CPU,
  };
}

/** Measures builds of a new server, and their floor. */
async function withServer<T>(
  options: ServerProcessOptions,
  measure: (builds: Builds, bare: BareApply) => Promise<T>,
): Promise<T> {
  const server = await startCoderServer({ ...options, env: { CODER_VERBOSE: 'false' } });
  let bare: BareApply | undefined;
  try {
    bare = await BareApply.prepare(server);
    return await measure(await Builds.prepare(server), bare);
  } finally {
    await bare?.close();
    await server.stop();
  }
}

/** Starts of workspaces in the first builds of new processes: the server's, its daemons' and their runner's. */
async function benchFirstBuilds(): Promise<Row[]> {
  const ones: Pair[] = [];
  const twelves: Pair[] = [];
  // from the sources, a new server also builds its dashboard
  const program = [await ensureExecutable()];
  for (let start = 0; start < STARTS; start++)
    await withServer({ program }, async (builds, bare) => {
      await bare.one();
      for (let i = 0; i < FIRST_ONES; i++)
        ones.push(
          await pairOf(
            () => builds.run(1),
            () => bare.one(),
          ),
        );
      twelves.push(
        await pairOf(
          () => builds.run(12),
          () => bare.twelve(),
        ),
      );
    });
  return [
    ratioRow(`one workspace start, the first ${FIRST_ONES} of new processes`, mediansOf(ones), 1.35),
    ratioRow('12 starts at the same time, the first of new processes', mediansOf(twelves), 1.4),
  ];
}

/** One workspace start, and twelve at the same time, compared with bare applies: in new processes, and later. */
export async function benchBuilds(): Promise<Row[]> {
  const first = await benchFirstBuilds();
  const later = await withServer({}, async (builds, bare) => {
    for (let round = 0; round < WARM_ROUNDS; round++) await builds.run(12);
    const one = await paired(
      25,
      () => builds.run(1),
      () => bare.one(),
    );
    const twelve = await paired(
      9,
      () => builds.run(12),
      () => bare.twelve(),
    );
    return [
      ratioRow('one workspace start', one, 1.35),
      ratioRow('12 starts at the same time, 3 daemons', twelve, 1.4),
      await processorRow(builds),
    ];
  });
  return [...first, ...later];
}
