import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { WorkspaceBuild } from '@ropewalk/contract';
import { completeJob } from '@ropewalk/server/app/job/complete';
import {
  eventually,
  failTaken,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
  takeJob,
} from '@ropewalk/testkit';
import { startRequestBalancer } from '@ropewalk/testkit/request-balancer';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev', {
    agent: { scripts: [{ displayName: 'Startup', script: 'echo from the script', runOnStart: true }] },
  });
  const job = await jobOf(1);
  await logBuild(job, 'planned', '2026-11-28T01:02:03.456Z');
  await logBuild(job, 'cleaned up', '2096-11-28T01:02:03Z');
  await eventually('the log of the script', async () => {
    const { sql } = server.services;
    const [row] = await sql`SELECT 1 FROM workspace_agent_logs WHERE output = 'from the script'`;
    return row !== undefined;
  });
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const env = () => ({ CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken });
const logs = (...flags: string[]) => invoke(['logs', 'dev', ...flags], env());

async function jobOf(number: number): Promise<string> {
  const { body } = await server.api<WorkspaceBuild>('GET', `/users/me/workspace/dev/builds/${number}`);
  return body.job.id;
}

async function logBuild(jobId: string, output: string, at = new Date().toISOString(), level = 'info'): Promise<void> {
  await server.services.sql`INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
    VALUES (${jobId}, ${at}, 'provisioner', ${level}, 'Planning', ${output})`;
}

async function beginBuild(transition: 'start' | 'stop'): Promise<WorkspaceBuild> {
  const path = `/workspaces/${dev.workspace.id}/builds`;
  const { body, status } = await server.api<WorkspaceBuild>('POST', path, { body: { transition } });
  assert.equal(status, 201);
  return body;
}

const TIME = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;

test('prints the log of the build and of its agents, in upstream’s form, sorted by time', async () => {
  const { code, stdout, stderr } = await logs();
  assert.deepEqual([code, /^Build 1 of dev: start, template version \S+\.\n$/.test(stderr)], [0, true], stderr);
  const lines = stdout.split('\n').slice(0, -1);
  assert.ok(lines.includes('2026-11-28T01:02:03Z [info] [provisioner|Planning] planned'), stdout);
  const ofScript = new RegExp(String.raw`^${TIME} \[info\] \[agent\.main\|Startup\] from the script$`);
  assert.ok(
    lines.some((line) => ofScript.test(line)),
    stdout,
  );
  const times = lines.map((line) => line.slice(0, line.indexOf(' ')));
  assert.deepEqual(times, [...times].sort());
  assert.match(lines.at(-1)!, / cleaned up$/);
});

test('follows a build through its agents until a newer build has replaced them', async () => {
  const said = Promise.withResolvers<void>();
  const later = Promise.withResolvers<void>();
  const following = invoke(['logs', 'dev', '-f'], env(), '', (text) => {
    if (text.includes('from the script')) said.resolve();
    if (text.includes('said later')) later.resolve();
  });
  await Promise.race([said.promise, following]);
  const { status } = await server.api('PATCH', '/workspaceagents/me/logs', {
    token: dev.token,
    body: { logs: [{ created_at: new Date().toISOString(), level: 'warn', output: 'said later' }] },
  });
  assert.equal(status, 200);
  await Promise.race([later.promise, following]);
  const stop = await beginBuild('stop');
  const { code, stdout, stderr } = await following;
  assert.equal(code, 0, stderr);
  assert.match(stdout, new RegExp(String.raw`^${TIME} \[warn\] \[agent\.main\|External\] said later$`, 'm'));
  assert.equal(stdout.match(/from the script/g)?.length, 1);

  // the stop waits for a daemon
  const own = await takeJob(server);
  const begun = Promise.withResolvers<void>();
  const ofStop = invoke(['logs', 'dev', '--follow'], env(), '', (text) => {
    if (text.includes('stopping')) begun.resolve();
  });
  await logBuild(stop.job.id, 'stopping');
  server.services.events.publishSoon('job_changed', { job_id: stop.job.id, logs: true });
  await Promise.race([begun.promise, ofStop]);
  const type = { case: 'workspaceBuild' as const, value: {} };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const stopped = await ofStop;
  assert.equal(stopped.code, 0, stopped.stderr);
  assert.match(stopped.stdout, /\[provisioner\|Planning\] stopping\n/);
});

test('finds builds by number, and by how far they are before the latest', async () => {
  for (const number of ['1', '-1']) assert.match((await logs('-n', number)).stdout, /planned/);
  assert.doesNotMatch((await logs('--build-number', '2')).stdout, /planned/);
  for (const number of ['-2', '7']) {
    const { code, stdout, stderr } = await logs('-n', number);
    assert.deepEqual([code, stdout], [1, '']);
    assert.equal(stderr, `error: Build ${number} of dev not found. Its latest build is 2.\n`);
  }
  const missing = await invoke(['logs', 'never'], env());
  assert.match(missing.stderr, /^error: Workspace "never" not found/);
});

test('prints the log of a failed build and succeeds', async () => {
  await beginBuild('start');
  const own = await takeJob(server);
  await logBuild(own.jobId, 'it broke', new Date().toISOString(), 'error');
  await failTaken(server, own, 'it broke');
  const { code, stdout } = await logs('-f');
  assert.equal(code, 0);
  assert.match(stdout, /\[error\] \[provisioner\|Planning\] it broke\n/);
});

test('prints the lines of agents that came while the stream was broken, although a newer build has replaced them', async (t) => {
  const lost = await startTestWorkspace(server, 'lost');
  t.after(() => lost.stop());
  const balancer = await startRequestBalancer();
  t.after(() => balancer.close());
  const opened = Promise.withResolvers<void>();
  balancer.use((path) => {
    if (/workspaceagents.*follow/.test(path)) opened.resolve();
    return [server.url];
  });
  const say = async (output: string) => {
    const body = { logs: [{ created_at: new Date().toISOString(), level: 'info', output }] };
    const { status } = await server.api('PATCH', '/workspaceagents/me/logs', { token: lost.token, body });
    assert.equal(status, 200);
  };
  const begun = Promise.withResolvers<void>();
  const following = invoke(['logs', 'lost', '-f'], { ...env(), CODER_URL: balancer.url }, '', (text) => {
    if (text.includes('line 1\n')) begun.resolve();
  });
  await Promise.race([opened.promise, following]);
  await say('line 1');
  await Promise.race([begun.promise, following]);
  // streams of the agent's log break, and other requests succeed
  const answered = Promise.withResolvers<void>();
  let isReplaced = false;
  balancer.use((path) => {
    if (/workspaceagents.*follow/.test(path)) return ['http://127.0.0.1:1'];
    if (isReplaced && path.startsWith(`/api/v2/workspaces/${lost.workspace.id}`)) answered.resolve();
    return [server.url];
  });
  balancer.disconnect();
  await say('line 2');
  isReplaced = true;
  const path = `/workspaces/${lost.workspace.id}/builds`;
  assert.equal((await server.api('POST', path, { body: { transition: 'stop' } })).status, 201);
  await Promise.race([answered.promise, following]);
  balancer.use([server.url]);
  const { code, stdout, stderr } = await following;
  assert.equal(code, 0, stderr);
  assert.deepEqual(
    [...stdout.matchAll(/line \d$/gm)].map(([line]) => line),
    ['line 1', 'line 2'],
  );
});
