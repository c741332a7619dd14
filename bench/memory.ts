// What a server and its built-in daemons, from the built executable, hold of memory when they have worked and rest again.
import { ALLOCATOR } from '@ropewalk/kit/allocator';
import {
  buildEnds,
  createWorkspace,
  ensureExecutable,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from '../e2e/harness.ts';
import { processesBelow, pssMegabytes, type Row } from './measure.ts';

const WORKSPACES = 30;
const BUILDS = 3_000;
const REQUESTS = 100_000;
const CONNECTIONS = 16;
/** An idle process gives memory back within two looks of ten seconds. */
const REST_MS = 30_000;
const REACH_SERVER = 150;
const REACH_ALL = 260;

async function build(server: ServerProcess, workspaceId: string, transition: string): Promise<void> {
  const path = `/workspaces/${workspaceId}/builds`;
  const { status, body } = await server.api<{ id: string }>('POST', path, { transition });
  if (status !== 201) throw new Error(`${path} answered ${status}: ${JSON.stringify(body)}`);
  const { job } = await buildEnds(server, body.id);
  if (job.status !== 'succeeded') throw new Error(job.error);
}

export async function benchMemory(): Promise<Row[]> {
  // as the image and the systemd units start it
  const env = { CODER_VERBOSE: 'false', CODER_PROVISIONER_DAEMONS: '3', ...ALLOCATOR };
  const server = await startCoderServer({ env, program: [await ensureExecutable()] });
  try {
    await firstUser(server);
    const templateId = await makeTemplate(server, 'bench', { 'main.tf': 'resource "terraform_data" "x" {}' });
    const ids = await Promise.all(
      Array.from({ length: WORKSPACES }, async (_, i) => {
        const workspace = await createWorkspace(server, templateId, `w-${i}`);
        await buildEnds(server, workspace.latest_build.id);
        return workspace.id;
      }),
    );
    for (let turn = 0; turn < BUILDS / WORKSPACES; turn++) {
      await Promise.all(ids.map((id) => build(server, id, turn % 2 ? 'start' : 'stop')));
    }
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        for (let i = 0; i < REQUESTS / CONNECTIONS; i++)
          await server.api('GET', i % 10 ? '/users/me' : '/workspaces?limit=25');
      }),
    );
    await new Promise((done) => setTimeout(done, REST_MS));
    const own = pssMegabytes(server.child.pid!);
    const all = processesBelow(server.child.pid!)
      .filter(({ command }) => !command.includes('postgres'))
      .reduce((sum, { pid }) => sum + pssMegabytes(pid), 0);
    const row = (what: string, megabytes: number, reach: number): Row => ({
      what,
      ours: `${megabytes.toFixed(0)} MB`,
      floor: '',
      figure: `${megabytes.toFixed(0)} MB`,
      reach: `≤ ${reach} MB`,
      met: megabytes <= reach,
    });
    return [
      row(`server at rest after ${BUILDS} builds and ${REQUESTS} requests, PSS`, own, REACH_SERVER),
      row('with its daemons, runner and launcher', all, REACH_ALL),
    ];
  } finally {
    await server.stop();
  }
}
