// The list of workspaces in a large deployment: one request at a time, with 100 and with 10,000 workspaces, and the
// command that prints all of them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { WorkspacesResponse } from '@ropewalk/contract';
import { createTestTemplate, eventually, fillWorkspaces, startTestServer, type TestServer } from '@ropewalk/testkit';
import { ensureExecutable } from '../e2e/harness.ts';
import { percentile, type Row } from './measure.ts';

const FEW = 100;
const MANY = 10_000;
const WARM_UP = 20;
const SAMPLES = 200;
/** Workspaces that the command prints, and how often it runs. */
const PRINTED = 3_100;
const COMMANDS = 10;
const REACH_COMMAND_MS = 500;
const REACH_MS = 15;
const REACH_GROWTH = 1.5;

async function startWith(workspaces: number): Promise<TestServer> {
  const server = await startTestServer();
  const template = await createTestTemplate(server, 'base', {});
  const { sql } = server.services;
  await fillWorkspaces(sql, template.id, workspaces);
  // the server looks once at the schedule of each new workspace
  await eventually('all schedules were looked at', async () => {
    const [row] = await sql<{ due: number }[]>`SELECT count(*)::int AS due FROM workspaces WHERE due_at <= now()`;
    return row!.due === 0;
  });
  // as the database does by itself
  await sql`VACUUM ANALYZE`;
  return server;
}

async function request(server: TestServer, path: string): Promise<number> {
  const started = performance.now();
  const response = await fetch(`${server.url}/api/v2${path}`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  const bytes = await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${Buffer.from(bytes)}`);
  return performance.now() - started;
}

/** The time of a command of the built executable from its start to its end, in ms. */
async function command(executable: string, server: TestServer, args: string[]): Promise<number> {
  const started = performance.now();
  const child = spawn(executable, args, {
    env: { ...process.env, CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`coder ${args.join(' ')} ended with status ${code}`);
  return performance.now() - started;
}

async function benchCommand(): Promise<Row> {
  const executable = await ensureExecutable();
  const server = await startWith(PRINTED);
  try {
    const took: [number[], number[]] = [[], []];
    for (let i = 0; i < COMMANDS; i++) {
      took[0].push(await command(executable, server, ['list', '--all']));
      took[1].push(await command(executable, server, ['version']));
    }
    const [list, version] = [percentile(took[0], 0.5), percentile(took[1], 0.5)];
    return {
      what: `coder list with ${PRINTED} workspaces, compared with coder version, which asks no server`,
      ours: `${list.toFixed(0)} ms`,
      floor: `${version.toFixed(0)} ms`,
      figure: `${list.toFixed(0)} ms`,
      reach: `≤ ${REACH_COMMAND_MS} ms`,
      met: list <= REACH_COMMAND_MS,
    };
  } finally {
    await server.stop();
  }
}

const QUERIES = ['', '&q=owner:person-2', '&q=status:running', '&q=template:template-3', '&offset=9000'];

export async function benchLists(): Promise<Row[]> {
  const [few, many] = [await startWith(FEW), await startWith(MANY)];
  try {
    const { body } = await many.api<WorkspacesResponse>('GET', '/workspaces?limit=25');
    if (body.count !== MANY) throw new Error(`${body.count} workspaces`);
    const rows: Row[] = [];
    for (const query of QUERIES) {
      const path = `/workspaces?limit=25${query}`;
      const took: [number[], number[]] = [[], []];
      for (let i = 0; i < WARM_UP + SAMPLES; i++) {
        // in turn, so that a busy machine is busy for both
        const pair = [await request(few, path.replace('9000', '75')), await request(many, path)];
        if (i >= WARM_UP) for (const at of [0, 1] as const) took[at].push(pair[at]!);
      }
      const [p95, growth] = [percentile(took[1], 0.95), percentile(took[1], 0.5) / percentile(took[0], 0.5)];
      rows.push(
        {
          what: `GET ${path} of ${MANY} workspaces, p95`,
          ours: `${p95.toFixed(1)} ms`,
          floor: '',
          figure: `${p95.toFixed(1)} ms`,
          reach: `≤ ${REACH_MS} ms`,
          met: p95 <= REACH_MS,
        },
        {
          what: `the same compared with ${FEW} workspaces, median`,
          ours: `${percentile(took[1], 0.5).toFixed(1)} ms`,
          floor: `${percentile(took[0], 0.5).toFixed(1)} ms`,
          figure: `${growth.toFixed(2)}×`,
          reach: `≤ ${REACH_GROWTH}×`,
          met: growth <= REACH_GROWTH,
        },
      );
    }
    return [...rows, await benchCommand()];
  } finally {
    await Promise.all([few.stop(), many.stop()]);
  }
}
