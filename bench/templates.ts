import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@ropewalk/kit';
import { startProvider } from '@ropewalk/terraform-provider';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import {
  firstUser,
  importEnds,
  makeTemplate,
  postVersion,
  type ServerProcess,
  startCoderServer,
} from '../e2e/harness.ts';
import { startBuilds, terraform } from './builds.ts';
import { type Pair, paired, type Row, timed } from './measure.ts';

const PARAMETERS = 30;
const AGENTS = 5;
const RESOURCES = 40;

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

/** A large template of built-in types: agents on some of its resources, and parameters in all of them. */
export const TEMPLATE = `terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
data "coder_workspace" "me" {}
${numbers(PARAMETERS)
  .map(
    (i) => `data "coder_parameter" "p${i}" {
  name    = "p${i}"
  type    = "number"
  default = ${i}
  mutable = true
  validation {
    min = 0
    max = 100
  }
}
`,
  )
  .join('')}${numbers(AGENTS)
  .map(
    (i) => `resource "coder_agent" "a${i}" {
  os   = "linux"
  arch = "amd64"
}
`,
  )
  .join('')}${numbers(RESOURCES)
  .map(
    (i) => `resource "terraform_data" "r${i}" {
  input = "\${${i < AGENTS ? `coder_agent.a${i}.id` : 'data.coder_workspace.me.name'}} \${data.coder_parameter.p${i % PARAMETERS}.value}"
}
`,
  )
  .join('')}`;

/** Imports a new archive and returns the milliseconds to the end of its log. */
async function importOnce(server: ServerProcess, files: Record<string, string>): Promise<number> {
  const started = performance.now();
  const { id } = await postVersion(server, files);
  const { connection } = await dialWebSocket(`${server.url}/api/v2/templateversions/${id}/logs?follow`, {
    headers: { 'Coder-Session-Token': server.token },
  });
  connection.on('text', () => {});
  await connection.closed;
  const ms = performance.now() - started;
  const { job } = await importEnds(server, id);
  if (job.status !== 'succeeded') throw new Error(job.error);
  return ms;
}

/** The import and the build of a large template, compared with the commands of Terraform that do the same. */
export async function benchTemplates(): Promise<Row[]> {
  const server = await startCoderServer({ env: { CODER_VERBOSE: 'false' } });
  const scratch = mkdtempSync(join(tmpdir(), 'platform-bench-'));
  const provider = await startProvider({
    socketPath: join(scratch, 'provider.sock'),
    env: { CODER_WORKSPACE_TRANSITION: 'start', CODER_AGENT_URL: server.url, CODER_WORKSPACE_NAME: 'bench' },
    log: silentLogger,
  });
  try {
    await firstUser(server);
    const env = {
      PATH: process.env['PATH'],
      HOME: scratch,
      TF_REATTACH_PROVIDERS: provider.reattach,
      CHECKPOINT_DISABLE: '1',
      TF_CLI_CONFIG_FILE: process.env['TF_CLI_CONFIG_FILE'],
    };
    let n = 0;
    // each archive is new, or the daemon has prepared it
    const files = () => ({ 'main.tf': `${TEMPLATE}# ${n++}\n` });
    const fresh = () => {
      const dir = join(scratch, `run-${n++}`);
      mkdirSync(dir);
      writeFileSync(join(dir, 'main.tf'), TEMPLATE);
      return dir;
    };
    const imports = await paired(
      7,
      () => importOnce(server, files()),
      () => {
        const dir = fresh();
        return timed(async () => {
          await terraform(dir, ['init', '-input=false', '-no-color'], env);
          await terraform(dir, ['plan', '-json', '-input=false', '-no-color', '-out=plan'], env);
        });
      },
    );
    const templateId = await makeTemplate(server, 'bench', files());
    const prepared = fresh();
    await terraform(prepared, ['init', '-input=false'], env);
    const builds = await paired(
      9,
      () => startBuilds(server, templateId, [`build-${n++}`]),
      () => {
        const dir = join(scratch, `run-${n++}`);
        cpSync(prepared, dir, { recursive: true });
        return timed(() => terraform(dir, ['apply', '-json', '-auto-approve', '-input=false', '-no-color'], env));
      },
    );
    const row = (what: string, { ours, floor, ratio }: Pair, reach: number): Row => ({
      what,
      ours: `${ours.toFixed(0)} ms`,
      floor: `${floor.toFixed(0)} ms`,
      figure: `${ratio.toFixed(2)}×`,
      reach: `≤ ${reach}×`,
      met: ratio <= reach,
    });
    const size = `${PARAMETERS} parameters, ${AGENTS} agents, ${RESOURCES} resources`;
    return [
      row(`import of a template with ${size}, compared with init and plan`, imports, 1.5),
      row('build of the same, compared with apply', builds, 1.3),
    ];
  } finally {
    await provider.close();
    await server.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}
