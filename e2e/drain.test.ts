import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { type Gate, gates } from './daemon-process.ts';
import {
  type Build,
  buildEnds,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
  type Workspace,
} from './harness.ts';

// Tests a server that is the first process of its PID namespace, as in a container: every process dies with it.

const NAMESPACE = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];
const probe = spawnSync(NAMESPACE[0]!, [...NAMESPACE.slice(1), 'true'], { encoding: 'utf8' });
const skip = probe.status !== 0 && `needs a PID namespace: ${probe.error?.message ?? probe.stderr.trim()}`;

const all = gates();
after(() => all.remove());

interface Contained {
  server: ServerProcess;
  /** Signals the server, not the process that created its namespace. */
  signal(name: NodeJS.Signals): void;
  /** Waits for its end and returns its exit code. */
  ended(): Promise<number | null>;
}

async function contained(drainTimeout: string): Promise<Contained> {
  const server = await startCoderServer({
    program: [...NAMESPACE, ...PROGRAM],
    env: { CODER_PROVISIONER_DRAIN_TIMEOUT: drainTimeout },
  });
  await firstUser(server);
  return {
    server,
    signal(name) {
      const { pid } = server.child;
      process.kill(Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')), name);
    },
    ended: () =>
      eventually('the server has ended', () =>
        server.child.exitCode === null ? undefined : [server.child.exitCode],
      ).then(([code]) => code!),
  };
}

async function building(one: Contained, name: string): Promise<{ gate: Gate; workspace: Workspace; template: string }> {
  const gate = all.gate(name);
  const template = await makeTemplate(one.server, name, commandTemplate(gate.command));
  const workspace = await createWorkspace(one.server, template, name);
  await eventually('the apply has begun', () => gate.begun() > 0);
  return { gate, workspace, template };
}

async function look(server: ServerProcess, { latest_build: { id } }: Workspace) {
  const build = (await server.api<Build>('GET', `/workspacebuilds/${id}`)).body;
  const state = await server.api<{ resources?: { name: string }[] }>('GET', `/workspacebuilds/${id}/state`);
  return { build, state: (state.body.resources ?? []).map((resource) => resource.name) };
}

/** Ends it in any case. */
async function stop({ server }: Contained): Promise<void> {
  server.child.kill('SIGKILL');
  await server.stop();
}

let patient: Contained;
before(async () => {
  if (!skip) patient = await contained('10m');
});
after(async () => {
  if (skip) return;
  await stop(patient);
});

test('after SIGTERM, the running build completes, no other starts, and the server exits with 0', { skip }, async () => {
  const { server } = patient;
  const { gate, workspace, template } = await building(patient, 'drained');
  patient.signal('SIGTERM');
  await eventually('it logs that it waits', () => /waiting for running builds.*limit=10m0s/.test(server.log()));
  // it still serves requests
  const later = await createWorkspace(server, template, 'later');
  gate.open();
  assert.equal(await patient.ended(), 0, server.log());
  assert.equal(gate.begun(), 1, 'the later build did not start');
  await server.restart();
  assert.equal((await look(server, workspace)).build.status, 'running');
  const next = await buildEnds(server, later.latest_build.id);
  assert.equal(next.status, 'running', 'the next start runs the waiting build');
});

test('SIGHUP also drains, and a later SIGTERM cancels the build', { skip }, async () => {
  const { server } = patient;
  const { workspace } = await building(patient, 'hung-up');
  const from = server.log().length;
  patient.signal('SIGHUP');
  await eventually('it waits', () => server.log().slice(from).includes('waiting for running builds'));
  patient.signal('SIGTERM');
  assert.equal(await patient.ended(), 0, server.log());
  await server.restart();
  const { build, state } = await look(server, workspace);
  assert.match(build.job.error!, /The provisioner daemon is shutting down\. It canceled this job\./);
  assert.ok(state.includes('first'), state.join());
});

test('a second SIGTERM cancels the build immediately, and the server stores its state', { skip }, async () => {
  const { server } = patient;
  const { workspace } = await building(patient, 'twice');
  const from = server.log().length;
  patient.signal('SIGTERM');
  await eventually('it waits', () => server.log().slice(from).includes('waiting for running builds'));
  patient.signal('SIGTERM');
  assert.equal(await patient.ended(), 0, server.log());
  await server.restart();
  const { build, state } = await look(server, workspace);
  assert.equal(build.status, 'failed');
  assert.match(build.job.error!, /The provisioner daemon is shutting down\. It canceled this job\./);
  assert.ok(state.includes('first'), state.join());
});

test('at the time limit, the server cancels the build and stores its state', { skip }, async () => {
  const hasty = await contained('1s');
  const { server } = hasty;
  try {
    const { workspace } = await building(hasty, 'limited');
    hasty.signal('SIGTERM');
    assert.equal(await hasty.ended(), 0, server.log());
    await server.restart();
    const { build, state } = await look(server, workspace);
    assert.equal(build.status, 'failed');
    assert.match(build.job.error!, /The provisioner daemon is shutting down\. It canceled this job\./);
    assert.ok(state.includes('first'), state.join());
    hasty.signal('SIGTERM');
    assert.equal(await hasty.ended(), 0, 'also without builds');
  } finally {
    await stop(hasty);
  }
});
