import assert from 'node:assert/strict';
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PLANNED_STOP } from '@ropewalk/provisioner/testing/planned-stop';
import { type DaemonProcess, gates, makeKey, startDaemon } from './daemon-process.ts';
import {
  type Build,
  buildEnds,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  importEnds,
  type Job,
  makeTemplate,
  postVersion,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

let server: ServerProcess;
const { gate, remove } = gates();
before(async () => {
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0', CODER_PROVISIONER_LEASE: '15s' } });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  remove();
});

/** A terraform that waits before each held command: `plan-start`, `plan-stop`, `apply`. */
function heldTerraform(name: string): { path: string; hold(what: string): void; pids(): number[] } {
  const dir = join(server.configDir, `held-${name}`);
  mkdirSync(dir);
  const path = join(dir, 'terraform');
  const script = `#!/bin/sh
what="$1"
[ "$1" = plan ] && what="plan-$CODER_WORKSPACE_TRANSITION"
if [ -e "${dir}/$what.hold" ]; then
  touch "${dir}/$$.held"
  while [ -e "${dir}/$what.hold" ]; do sleep 0.05; done
fi
exec terraform "$@"
`;
  writeFileSync(path, script, { mode: 0o755 });
  return {
    path,
    hold: (what) => writeFileSync(join(dir, `${what}.hold`), ''),
    pids: () => globSync('*.held', { cwd: dir }).map((file) => Number.parseInt(file, 10)),
  };
}

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
};

interface Phase {
  job: 'import' | 'dry run' | 'build';
  at: string;
  /** The terraform command during which the daemon dies. Absent: it dies as soon as it has the job. */
  held?: string;
}

const PHASES: Phase[] = [
  { job: 'import', at: 'parse' },
  { job: 'import', at: 'plan start', held: 'plan-start' },
  { job: 'import', at: 'plan stop', held: 'plan-stop' },
  { job: 'dry run', at: 'plan', held: 'plan-start' },
  { job: 'build', at: 'before terraform' },
];

/** Starts the job. Returns a function that waits for its outcome after the next daemon has run it. */
async function begin(
  job: Phase['job'],
  name: string,
  daemon: () => Promise<DaemonProcess>,
): Promise<() => Promise<Job>> {
  const files = { ...commandTemplate('true'), ...PLANNED_STOP };
  const extra = { tags: { way: name } };
  if (job === 'import') {
    const { id } = await postVersion(server, files, extra);
    return async () => (await importEnds(server, id)).job;
  }
  const helper = await daemon();
  const template = await makeTemplate(server, name, files, extra);
  await helper.kill();
  if (job === 'build') {
    const { latest_build } = await createWorkspace(server, template, name);
    return async () => (await buildEnds(server, latest_build.id)).job;
  }
  const { body } = await server.api<{ active_version_id: string }>('GET', `/templates/${template}`);
  const path = `/templateversions/${body.active_version_id}/dry-run`;
  const made = await server.api<Job>('POST', path, { workspace_name: 'try' });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return () =>
    eventually('the dry run ends', async () => {
      const { body: found } = await server.api<Job>('GET', `${path}/${made.body.id}`);
      return found.completed_at ? found : undefined;
    });
}

for (const successor of ['the same daemon restarts', 'another daemon starts']) {
  test(`after kill -9 in each phase of a job, ${successor}`, {
    concurrency: successor.includes('same') ? 3 : 6,
  }, async (t) => {
    if (!successor.includes('same')) void t.test('build: apply', lostApply);
    for (const { job, at, held } of PHASES) {
      void t.test(`${job}: ${at}`, async () => {
        const name = `${successor.includes('same') ? 'same' : 'other'}-${job}-${at}`.replaceAll(' ', '-');
        const key = await makeKey(server, name, { way: name });
        const env = { CODER_PROVISIONER_DAEMON_KEY: key };
        const ended = await begin(job, name, () => startDaemon(server, { name, env }));
        const terraform = heldTerraform(name);
        if (held) terraform.hold(held);
        const first = await startDaemon(server, { name, env, args: ['--terraform-binary', terraform.path] });
        await first.says('acquired a job');
        if (held) await eventually('terraform waits', async () => terraform.pids().length > 0);
        await first.kill();
        const second = await startDaemon(server, {
          name: successor.includes('same') ? name : `${name}-2`,
          env,
          ...(successor.includes('same') ? { cacheDir: first.cacheDir } : {}),
        });
        const { status, error } = await ended();
        if (job === 'build' && !successor.includes('same') && status === 'failed') {
          // after a report of its daemon, a build may have started, so the server does not run it again
          assert.match(error!, /lost|lease/);
        } else {
          assert.equal(status, 'succeeded', `${error}\n${second.log()}`);
          if (successor.includes('same'))
            assert.deepEqual(terraform.pids().filter(isAlive), [], "the dead daemon's processes have ended");
        }
        await second.kill();
      });
    }
  });
}

/**
 * Checks that a build whose daemon died during the apply fails with the reason, and that its last checkpoint remains.
 */
async function lostApply(): Promise<void> {
  const name = 'lost-apply';
  const env = { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, name, { way: name }) };
  const first = await startDaemon(server, { name, env });
  const { command, begun, open } = gate(name);
  const template = await makeTemplate(server, name, commandTemplate(command), { tags: { way: name } });
  const { latest_build } = await createWorkspace(server, template, name);
  await eventually('the apply has begun', async () => begun() > 0);
  const known = async (build: { id: string }) => {
    const { body } = await server.api<{ resources?: { name: string }[] }>('GET', `/workspacebuilds/${build.id}/state`);
    return body.resources?.some((resource) => resource.name === 'first') ?? false;
  };
  await eventually('a checkpoint', () => known(latest_build));
  await first.kill();
  const other = await startDaemon(server, { name: `${name}-2`, env });
  const build = await buildEnds(server, latest_build.id);
  assert.equal(build.status, 'failed');
  assert.match(build.job.error!, /lost|lease/);
  assert.ok(await known(build), 'the server has the state');
  open();
  await other.kill();
}

test('after kill -9 between an apply and the delivery of its result, the restarted daemon delivers the result', async () => {
  const name = 'undelivered';
  const env = { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, name, { way: name }) };
  const first = await startDaemon(server, { name, env });
  const { command, begun, open } = gate(name);
  const template = await makeTemplate(server, name, commandTemplate(command), { tags: { way: name } });
  const { latest_build } = await createWorkspace(server, template, name);
  await eventually('the apply has begun', async () => begun() > 0);
  server.child.kill('SIGSTOP');
  try {
    open();
    const results = () => globSync('provisioner-*/work/Session*/*-apply-*.exit', { cwd: first.cacheDir });
    await eventually('the apply has ended', async () => results().length > 0);
    await first.kill();
  } finally {
    server.child.kill('SIGCONT');
  }
  const second = await startDaemon(server, { name, env, cacheDir: first.cacheDir });
  const build: Build = await buildEnds(server, latest_build.id);
  assert.equal(build.status, 'running', `${build.job.error}\n${second.log()}`);
  assert.equal(begun(), 1, 'the apply ran once');
  await second.kill();
});

test('20 builds on external daemons complete after kill -9 and a restart of the server', async () => {
  const name = 'many';
  const env = { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, name, { way: name }) };
  const args = ['--concurrency', '10'];
  const daemons = await Promise.all(['many-a', 'many-b'].map((one) => startDaemon(server, { name: one, env, args })));
  const { command, begun, open } = gate(name);
  const template = await makeTemplate(server, name, commandTemplate(command), { tags: { way: name } });
  const workspaces = await Promise.all(
    Array.from({ length: 20 }, (_, i) => createWorkspace(server, template, `many-${i}`)),
  );
  await eventually('all twenty run', async () => begun() === 20);
  await server.kill();
  open();
  await server.restart();
  const builds = await Promise.all(workspaces.map((workspace) => buildEnds(server, workspace.latest_build.id, 90_000)));
  assert.deepEqual(
    builds.map((build) => build.status),
    Array(20).fill('running'),
    builds.map((build) => build.job.error).join('; '),
  );
  assert.equal(begun(), 20, 'each apply ran once');
  await Promise.all(daemons.map((daemon) => daemon.kill()));
  rmSync(daemons[0]!.cacheDir, { recursive: true, force: true });
});
