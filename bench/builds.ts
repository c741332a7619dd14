import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@ropewalk/kit';
import { startProvider } from '@ropewalk/terraform-provider';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import {
  buildEnds,
  createWorkspace,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from '../e2e/harness.ts';
import { paired, processesBelow, type Row, timed } from './measure.ts';

const REACH_CPU = 1.5;
/** Of twelve builds each, to count processor time, which Linux gives in steps of 10 ms. */
const COUNTED_ROUNDS = 5;
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

/** One workspace start, and twelve at the same time, compared with bare `terraform apply` of the same template with the same provider. */
export async function benchBuilds(): Promise<Row[]> {
  const server = await startCoderServer({ env: { CODER_VERBOSE: 'false' } });
  const scratch = mkdtempSync(join(tmpdir(), 'platform-bench-'));
  const socketPath = join(scratch, 'provider.sock');
  const provider = await startProvider({
    socketPath,
    env: { CODER_WORKSPACE_TRANSITION: 'start', CODER_AGENT_URL: server.url, CODER_WORKSPACE_NAME: 'bench' },
    log: silentLogger,
  });
  try {
    await firstUser(server);
    const templateId = await makeTemplate(server, 'bench', TEMPLATE);
    const prepared = join(scratch, 'prepared');
    const env = {
      PATH: process.env['PATH'],
      HOME: scratch,
      TF_REATTACH_PROVIDERS: provider.reattach,
      CHECKPOINT_DISABLE: '1',
      TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
    };
    cpSync(import.meta.dirname, prepared, { recursive: true, filter: (path) => path === import.meta.dirname });
    writeFileSync(join(prepared, 'main.tf'), TEMPLATE['main.tf']);
    await terraform(prepared, ['init', '-input=false'], env);
    let n = 0;
    const directory = () => {
      const dir = join(scratch, `run-${n++}`);
      cpSync(prepared, dir, { recursive: true });
      return dir;
    };
    const apply = (dir: string) =>
      terraform(dir, ['apply', '-json', '-auto-approve', '-input=false', '-no-color'], env);
    const twelveBuilds = (kind: string) =>
      startBuilds(
        server,
        templateId,
        Array.from({ length: 12 }, () => `${kind}-${n++}`),
      );
    for (let round = 0; round < WARM_ROUNDS; round++) await twelveBuilds('warm');
    const one = await paired(
      25,
      () => startBuilds(server, templateId, [`one-${n++}`]),
      () => {
        const dir = directory();
        return timed(() => apply(dir));
      },
    );
    const twelve = await paired(
      9,
      () => twelveBuilds('many'),
      () => {
        const dirs = Array.from({ length: 12 }, directory);
        return timed(() =>
          Promise.all(
            [0, 1, 2].map(async () => {
              for (let dir = dirs.pop(); dir; dir = dirs.pop()) await apply(dir);
            }),
          ),
        );
      },
    );
    const before = processorTime();
    for (let round = 0; round < COUNTED_ROUNDS; round++) await twelveBuilds('counted');
    const used = processorTime();
    const perBuild = (ms: number) => ms / (12 * COUNTED_ROUNDS);
    const terraformMs = perBuild(used.terraform - before.terraform);
    const parts = [...used.parts].map(([part, ms]) => [part, perBuild(ms - (before.parts.get(part) ?? 0))] as const);
    const ownMs = parts.reduce((sum, [, ms]) => sum + ms, 0);
    const processorRow: Row = {
      what: `processor time of a build (${parts.map(([part, ms]) => `${part} ${ms.toFixed(0)}`).join(', ')} ms)`,
      ours: `${(ownMs + terraformMs).toFixed(0)} ms`,
      floor: `${terraformMs.toFixed(0)} ms`,
      figure: `${((ownMs + terraformMs) / terraformMs).toFixed(2)}×`,
      reach: `≤ ${REACH_CPU}×`,
      met: (ownMs + terraformMs) / terraformMs <= REACH_CPU,
    };
    const row = (what: string, pair: typeof one, reach: number): Row => ({
      what,
      ours: `${pair.ours.toFixed(0)} ms`,
      floor: `${pair.floor.toFixed(0)} ms`,
      figure: `${pair.ratio.toFixed(2)}×`,
      reach: `≤ ${reach}×`,
      met: pair.ratio <= reach,
    });
    return [
      row('one workspace start', one, 1.35),
      row('12 starts at the same time, 3 daemons', twelve, 1.4),
      processorRow,
    ];
  } finally {
    await provider.close();
    await server.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}
