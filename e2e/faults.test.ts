import assert from 'node:assert/strict';
import { chmodSync, globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  buildEnds,
  buildLog,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  importVersion,
  killDaemonsAndSessions,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

const DAEMONS = 3;

let server: ServerProcess;
let scratch: string;
before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'platform-marks-'));
  chmodSync(scratch, 0o1777); // daemons of a root server have their own uid
  server = await startCoderServer({
    env: {
      CODER_PROVISIONER_LEASE: '10s',
      CODER_PROVISIONER_DAEMONS: String(DAEMONS),
      AWS_SECRET_ACCESS_KEY: 'canary-cloud',
      PGPASSWORD: 'canary-pg',
      MY_COPY: 'canary-psk',
      CODER_PROVISIONER_DAEMON_PSK: 'canary-psk',
    },
  });
  await firstUser(server);
});
after(async () => {
  await server.stop();
  rmSync(scratch, { recursive: true, force: true });
});

/** A command that reports that it has begun and waits for a file. Several builds can run it at the same time. */
function waiting(name: string): { command: string; begun: (builds?: number) => boolean; release: () => void } {
  const [mark, gate] = [join(scratch, `${name}-begun`), join(scratch, `${name}-gate`)];
  return {
    command: `touch ${mark}-$$; while [ ! -e ${gate} ]; do sleep 0.05; done`,
    begun: (builds = 1) => globSync(`${mark}-*`).length >= builds,
    release: () => writeFileSync(gate, ''),
  };
}

test('after kill -9 of the daemons during an apply, the next daemons adopt the run and the build completes', async () => {
  const gate = waiting('adopt');
  const template = await makeTemplate(server, 'adopt', commandTemplate(gate.command));
  const workspace = await createWorkspace(server, template, 'adopted');
  await eventually('the apply has begun', async () => gate.begun());
  const pid = await server.daemonsPid();
  process.kill(pid, 'SIGKILL');
  await eventually('other daemons run', async () => (await server.daemonsPid()) !== pid);
  gate.release();
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
  assert.ok(build.resources.some((resource) => resource.name === 'machine' && resource.agents?.length === 1));
});

test('also without the work directory: the job fails with the reason, and the next build has the state', async () => {
  const gate = waiting('gone');
  const template = await makeTemplate(server, 'gone', commandTemplate(gate.command));
  const workspace = await createWorkspace(server, template, 'gone');
  await eventually('the apply has begun', async () => gate.begun());
  await eventually('the server has the state of the first resource', async () => {
    const state = await server.api<{ resources?: { name: string }[] }>(
      'GET',
      `/workspacebuilds/${workspace.latest_build.id}/state`,
    );
    return state.body.resources?.some((resource) => resource.name === 'first');
  });
  const killed = killDaemonsAndSessions(server.configDir, await server.daemonsPid());
  assert.ok(killed.sessions.length > 0, 'a session folder existed');
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.status, 'failed');
  assert.match(build.job.error!, /lost|lease/);
  gate.release();
  const next = await server.api<{ id: string }>('POST', `/workspaces/${workspace.id}/builds`, { transition: 'stop' });
  assert.equal(next.status, 201, JSON.stringify(next.body));
  const stopped = await buildEnds(server, next.body.id);
  assert.equal(stopped.status, 'stopped', stopped.job.error ?? '');
  const log = await buildLog(server, next.body.id);
  assert.doesNotMatch(log, /terraform_data\.first: Creating/, 'the build had the state');
});

test('after kill -9 of the server during ten builds, its restart completes all ten', async () => {
  const gate = waiting('ten');
  const template = await makeTemplate(server, 'ten', commandTemplate(gate.command));
  const workspaces = await Promise.all(
    Array.from({ length: 10 }, (_, i) => createWorkspace(server, template, `ten-${i}`)),
  );
  // others are on their way to a daemon, which has not stored them yet
  await eventually('a build has begun', () => gate.begun());
  await server.kill();
  gate.release();
  await server.restart();
  const builds = await Promise.all(workspaces.map((workspace) => buildEnds(server, workspace.latest_build.id, 90_000)));
  assert.deepEqual(
    builds.map((build) => build.status),
    Array(10).fill('running'),
    builds.map((build) => build.job.error).join('; '),
  );
});

test('kill -9 of the database in each phase of five builds: all complete, and no log lines are lost', async () => {
  const own = await startCoderServer({ bundled: true, env: { CODER_PROVISIONER_DAEMONS: '5' } });
  try {
    await firstUser(own);
    const ready = async () => (await fetch(`${own.url}/readyz`)).status === 200;
    const gate = waiting('away');
    // many lines in plan and apply
    const template = await makeTemplate(own, 'away', commandTemplate(`${gate.command}; seq 1 2000`));
    const workspaces = await Promise.all(
      Array.from({ length: 5 }, (_, i) => createWorkspace(own, template, `away-${i}`)),
    );
    await eventually('a build has begun', gate.begun);
    for (let times = 0; times < 4; times++) {
      const pid = await own.killDatabase();
      if (times === 1) gate.release();
      await eventually('another one runs', () => ![undefined, pid].includes(own.postmaster()));
      await eventually('ready again', ready);
    }
    for (const workspace of workspaces) {
      const build = await buildEnds(own, workspace.latest_build.id, 60_000);
      assert.equal(build.status, 'running', build.job.error ?? '');
      assert.match(await buildLog(own, build.id), /\(local-exec\): 1\b.*\(local-exec\): 2000\b/s);
    }
  } catch (err) {
    // shows why the server ended or a build waits, without the requests of this test's own polling
    const said = own
      .log()
      .split('\n')
      .filter((line) => !line.includes('answered a request'));
    console.error(said.join('\n').slice(-20_000));
    throw err;
  } finally {
    await own.stop();
  }
});

test('a template finds no secret of the server in the environment or in /proc', async () => {
  const look =
    'env; cat /proc/*/environ 2>/dev/null | tr "\\\\0" "\\\\n"; cat /proc/*/cmdline 2>/dev/null | tr "\\\\0" "\\\\n"; true';
  const template = await makeTemplate(server, 'look', commandTemplate(look));
  const build = await buildEnds(server, (await createWorkspace(server, template, 'look')).latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
  const text = await buildLog(server, build.id);
  assert.match(text, /PATH=/, 'the command printed its environment');
  assert.match(text, /canary-cloud/, 'cloud credentials reach terraform');
  if (process.getuid?.() === 0) {
    for (const secret of ['canary-pg', 'canary-psk', 'postgres://'])
      assert.ok(!text.includes(secret), `${secret} was seen`);
  }
});

test('a failing provisioner script fails the build with its reason, and the server stores the state', async () => {
  const template = await makeTemplate(server, 'failing', commandTemplate('echo the reason is here; exit 3'));
  const workspace = await createWorkspace(server, template, 'failing');
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.status, 'failed');
  assert.match(build.job.error!, /exit status 3|local-exec/);
  assert.match(await buildLog(server, build.id), /the reason is here/);
  const state = await server.api<{ resources: { name: string }[] }>('GET', `/workspacebuilds/${build.id}/state`);
  assert.ok(state.body.resources.some((resource) => resource.name === 'first'));
});

test('a canceled build has the status canceled', async () => {
  const gate = waiting('cancel');
  const template = await makeTemplate(server, 'cancel', commandTemplate(gate.command));
  const workspace = await createWorkspace(server, template, 'canceled');
  await eventually('the apply has begun', async () => gate.begun());
  const canceled = await server.api('PATCH', `/workspacebuilds/${workspace.latest_build.id}/cancel`);
  assert.equal(canceled.status, 200, JSON.stringify(canceled.body));
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.status, 'canceled');
  gate.release();
});

test('reports broken HCL and a missing variable, and accepts a template without an agent', async () => {
  const broken = await importVersion(server, { 'main.tf': 'resource "terraform_data" "x" {' });
  assert.equal(broken.job.status, 'failed');
  assert.match(broken.job.error!, /main\.tf:\d+|main\.tf line \d+/);
  const noAgent = await importVersion(server, { 'main.tf': 'resource "terraform_data" "x" {}' });
  assert.equal(noAgent.job.status, 'succeeded', noAgent.job.error ?? '');
  const variable = {
    'main.tf': 'variable "region" {\n  type = string\n}\nresource "terraform_data" "x" {\n  input = var.region\n}',
  };
  const missing = await importVersion(server, variable);
  assert.equal(missing.job.status, 'failed');
  assert.match(missing.job.error!, /required template variables.*region/);
  const given = await importVersion(server, variable, { user_variable_values: [{ name: 'region', value: 'eu' }] });
  assert.equal(given.job.status, 'succeeded', given.job.error ?? '');
});
