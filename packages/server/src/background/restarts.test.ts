import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { AuditLogResponse, Template, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import {
  createPerson,
  createTestTemplate,
  eventually,
  failTaken,
  importedVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { systemContext } from '../app/context/context.ts';
import { completeJob } from '../app/job/complete.ts';
import { startAgain } from '../app/workspace/build/restart.ts';
import type { DueRestart } from '../db/queries/restarts.ts';

const NIL = '00000000-0000-0000-0000-000000000000';
const SIZE = { name: 'size', type: 'string', mutable: true, defaultValue: 'small' };

let server: TestServer;
let other: TestServer;
let template: Template;
let owner: { id: string; token: string };
before(async () => {
  server = await startTestServer();
  other = await startTestServer({
    bare: true,
    env: { CODER_PG_CONNECTION_URL: server.services.config.postgresUrl },
  });
  template = await createTestTemplate(server, 'base', { richParameters: [SIZE] });
  owner = await createPerson(server, 'sam');
});
after(async () => {
  await other.stop();
  await server.stop();
});

interface Problem {
  message: string;
  detail?: string;
}

const look = async (id: string) => (await server.api<Workspace>('GET', `/workspaces/${id}`)).body;
const restart = (id: string, body: object = {}, token = owner.token) =>
  server.api<WorkspaceBuild>('POST', `/workspaces/${id}/restart`, { token, body });
const refused = async (id: string, body: object = {}, token = owner.token) =>
  (await restart(id, body, token)) as unknown as { status: number; body: Problem };
const order = (id: string, transition: string, token = owner.token) =>
  server.api<WorkspaceBuild>('POST', `/workspaces/${id}/builds`, { token, body: { transition } });
const builds = async (id: string) => (await server.api<WorkspaceBuild[]>('GET', `/workspaces/${id}/builds`)).body;
const valuesOf = async (build: WorkspaceBuild) =>
  (await server.api<object[]>('GET', `/workspacebuilds/${build.id}/parameters`)).body;
const waiting = async () =>
  (await server.services.sql<{ count: number }[]>`SELECT count(*) FROM workspace_restarts`)[0]!.count;

async function finishBuild(): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

/** A running workspace. */
async function make(name: string, of = template): Promise<Workspace> {
  const body = { name, template_id: of.id };
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { token: owner.token, body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finishBuild();
  return look(made.body.id);
}

const startsAgain = (id: string) =>
  eventually('the workspace starts again', async () => {
    const { latest_build: build } = await look(id);
    return build.transition === 'start' && build.build_number > 2 && build;
  });

test('stops a workspace and starts it in the name of the person, with the chosen values', async () => {
  const { id, name } = await make('again');
  const size = [{ name: 'size', value: 'large' }];
  const asked = await restart(id, { reason: 'dashboard', rich_parameter_values: size });
  assert.equal(asked.status, 201, JSON.stringify(asked.body));
  const { body: stop } = asked;
  assert.deepEqual(
    [stop.transition, stop.build_number, stop.reason, stop.restart_pending],
    ['stop', 2, 'dashboard', true],
  );
  assert.deepEqual(await valuesOf(stop), [{ name: 'size', value: 'small' }]);
  await finishBuild();
  const start = await startsAgain(id);
  assert.deepEqual(
    [start.build_number, start.reason, start.initiator_id, start.restart_pending],
    [3, 'dashboard', owner.id, undefined],
  );
  assert.deepEqual(await valuesOf(start), size);
  assert.equal(await waiting(), 0);
  await finishBuild();
  const { body: log } = await server.api<AuditLogResponse>('GET', `/audit?q=resource_id:${start.id}`);
  const [entry] = log.audit_logs;
  assert.deepEqual(
    [entry!.action, entry!.resource_target, entry!.user?.username, entry!.ip, entry!.status_code],
    ['start', name, 'sam', '127.0.0.1', 201],
  );
});

test('a stop with a start that follows it is a restart, with the active version', async () => {
  const versions = await createTestTemplate(server, 'versions', { richParameters: [SIZE] });
  const { id, latest_build: first } = await make('follows', versions);
  const { id: active } = await importedVersion(server, { template_id: versions.id }, { richParameters: [SIZE] });
  await server.api('PATCH', `/templates/${versions.id}/versions`, { body: { id: active } });
  const large = [{ name: 'size', value: 'large' }];
  const medium = [{ name: 'size', value: 'medium' }];
  const body = {
    ...{ transition: 'stop', reason: 'cli', rich_parameter_values: medium },
    on_success: { transition: 'start', rich_parameter_values: large, template_version_id: NIL },
  };
  const build = (given: object) =>
    server.api<WorkspaceBuild>('POST', `/workspaces/${id}/builds`, { token: owner.token, body: given });
  for (const number of [2, 5]) {
    // the second time, the workspace is stopped
    const { status, body: stop } = await build(body);
    assert.deepEqual([status, stop.transition, stop.build_number, stop.restart_pending], [201, 'stop', number, true]);
    assert.deepEqual(await valuesOf(stop), medium);
    await finishBuild();
    const start = await startsAgain(id);
    assert.deepEqual([start.build_number, start.reason, start.initiator_id], [number + 1, 'cli', owner.id]);
    assert.notEqual(start.template_version_id, first.template_version_id);
    assert.equal(start.template_version_id, active);
    assert.deepEqual(await valuesOf(start), large);
    await finishBuild();
    if (number === 5) break;
    await order(id, 'stop');
    await finishBuild();
  }
});

const FOLLOWING: [change: object, following: object, message: string][] = [
  [{ transition: 'start' }, {}, 'OnSuccess is only permitted when stopping a workspace.'],
  [{ transition: 'delete' }, {}, 'OnSuccess is only permitted when stopping a workspace.'],
  [{}, { transition: 'stop' }, 'OnSuccess transition must be start.'],
  [{ dry_run: true }, {}, 'OnSuccess cannot be set alongside DryRun.'],
  [{ orphan: true }, {}, 'OnSuccess cannot be set alongside Orphan.'],
  [{ state: 'e30=' }, {}, 'OnSuccess cannot be set alongside ProvisionerState.'],
  [
    {},
    { template_version_preset_id: crypto.randomUUID() },
    'OnSuccess TemplateVersionPresetID requires TemplateVersionID.',
  ],
];

test('rejects builds that cannot follow each other', async () => {
  const { id } = await make('unfollowed');
  for (const [change, following, message] of FOLLOWING) {
    const body = { transition: 'stop', on_success: { transition: 'start', ...following }, ...change };
    const { status, body: problem } = await server.api<Problem>('POST', `/workspaces/${id}/builds`, {
      token: owner.token,
      body,
    });
    assert.deepEqual([status, problem.message], [400, message]);
  }
  assert.equal((await builds(id)).length, 1);
  assert.equal(await waiting(), 0);
});

test('starts a stopped workspace immediately', async () => {
  const { id } = await make('stopped');
  await order(id, 'stop');
  await finishBuild();
  const { status, body: start } = await restart(id);
  assert.deepEqual([status, start.transition, start.build_number], [201, 'start', 3]);
  assert.equal(await waiting(), 0);
  await finishBuild();
});

test('does not stop a workspace that cannot start, or that the person may not restart', async () => {
  const made = await make('kept');
  const { id } = made;
  const unknown = await refused(id, { rich_parameter_values: [{ name: 'color', value: 'red' }] });
  assert.equal(unknown.status, 400, JSON.stringify(unknown.body));
  const elsewhere = await createTestTemplate(server, 'elsewhere');
  const foreign = await refused(id, { template_version_id: elsewhere.active_version_id });
  assert.deepEqual(
    [foreign.status, foreign.body.message],
    [400, 'The template version does not belong to the template of this workspace.'],
  );
  const debug = await refused(id, { log_level: 'debug' });
  assert.deepEqual(
    [debug.status, debug.body.message],
    [400, 'Terraform debug mode is disabled in the deployment configuration.'],
  );
  await server.api('PATCH', `/templates/${template.id}`, { body: { require_active_version: true } });
  const newer = await importedVersion(server, { template_id: template.id });
  const outdated = await refused(id, { template_version_id: newer.id });
  assert.deepEqual([outdated.status, outdated.body.message], [403, 'Template requires using the active version.']);
  await server.api('PATCH', `/templates/${template.id}`, { body: { require_active_version: false } });
  const stranger = await createPerson(server, 'stranger');
  assert.equal((await refused(id, {}, stranger.token)).status, 404);
  await server.api('PUT', `/workspaces/${id}/dormant`, { body: { dormant: true } });
  // dormancy stops it
  await finishOf(id);
  const dormant = await refused(id);
  assert.deepEqual([dormant.status, dormant.body.message], [403, 'Forbidden.']);
  assert.match(dormant.body.detail!, /dormant. Activate it first/);
  assert.deepEqual(
    (await builds(id)).map(({ reason }) => reason),
    ['dormancy', 'initiator'],
  );
  await order(id, 'delete');
  await finishBuild();
  assert.equal((await refused(id)).status, 410);
});

/** Completes the next build of a workspace, which the server begins by itself. */
async function finishOf(id: string): Promise<void> {
  await eventually('a build', async () => (await look(id)).latest_build.job.status === 'pending');
  await finishBuild();
}

test('does not stop a workspace whose template needs an account that its owner has not connected', async () => {
  const found = { externalAuthProviders: [{ id: 'forge', optional: false }] };
  const needy = await createTestTemplate(server, 'needy');
  const { id } = await make('unconnected', needy);
  const { id: versionId } = await importedVersion(server, { template_id: needy.id }, found);
  const { status, body } = await refused(id, { template_version_id: versionId });
  assert.equal(status, 400);
  assert.match(body.message, /forge/);
  assert.equal((await builds(id)).length, 1);
});

test('joins its own stop, and rejects every other request with 409 while a build is active', async () => {
  const { id } = await make('joined');
  const wanted = { rich_parameter_values: [{ name: 'size', value: 'large' }] };
  const { body: stop } = await restart(id, wanted);
  assert.deepEqual([(await restart(id, wanted)).body.id, (await builds(id)).length], [stop.id, 2]);
  const differs = await refused(id);
  assert.deepEqual([differs.status, differs.body.message], [409, 'A workspace build is already active.']);
  assert.equal((await order(id, 'start')).status, 409);
  await finishBuild();
  await startsAgain(id);
  assert.equal((await refused(id, wanted)).status, 409);
  await finishBuild();
  await order(id, 'stop');
  assert.equal((await refused(id)).status, 409, 'a stop that nobody asked to restart stays one');
  await finishBuild();
  assert.equal((await builds(id)).length, 4);
});

test('does not start a workspace whose stop failed or was canceled', async () => {
  const { id } = await make('stuck');
  const { body: stop } = await restart(id);
  await failTaken(server, await takeJob(server), 'the machine does not answer');
  await eventually('the restart is dropped', async () => (await waiting()) === 0);
  const failed = (await look(id)).latest_build;
  assert.deepEqual([failed.id, failed.status, failed.restart_pending], [stop.id, 'failed', undefined]);
  // the next one also stops first
  const { body: second } = await restart(id);
  assert.equal(second.transition, 'stop');
  assert.equal((await server.api('PATCH', `/workspacebuilds/${second.id}/cancel`)).status, 200);
  await eventually('the restart is dropped', async () => (await waiting()) === 0);
  const canceled = (await look(id)).latest_build;
  assert.deepEqual([canceled.id, canceled.status, canceled.restart_pending], [second.id, 'canceled', undefined]);
  assert.equal((await look(id)).automatic_build_error, undefined);
});

test('does not start a workspace that has a newer build', async () => {
  const { sql } = server.services;
  const { id } = await make('overtaken');
  const { body: stop } = await restart(id);
  const [row] = await sql<DueRestart[]>`SELECT *, ${id} AS workspace_id FROM workspace_restarts`;
  await takeJob(server);
  await sql.begin(async (tx) => {
    await tx`UPDATE provisioner_jobs SET completed_at = now() WHERE id = ${stop.job.id}`;
    const [job] = await tx<{ id: string }[]>`
      INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, started_at, completed_at)
      SELECT organization_id, initiator_id, type, file_id, '{}', now(), now() FROM provisioner_jobs
      WHERE id = ${stop.job.id} RETURNING id`;
    await tx`INSERT INTO workspace_builds (workspace_id, template_version_id, build_number, transition, initiator_id, job_id)
      SELECT workspace_id, template_version_id, 3, 'stop', initiator_id, ${job!.id} FROM workspace_builds WHERE id = ${stop.id}`;
  });
  // The rows above publish no event. The task looks each second while a restart waits, and else every 15 seconds.
  await eventually('the restart is dropped', async () => (await waiting()) === 0, 12_000);
  // this server sees it only under the lock of the workspace
  const { workspace_id: _, ...stored } = { ...row!, parameters: sql.json([]) };
  await sql`INSERT INTO workspace_restarts ${sql(stored as never)}`;
  await startAgain(systemContext(server.services, 'test'), row!);
  assert.equal((await builds(id)).length, 3);
  assert.deepEqual([await waiting(), (await look(id)).automatic_build_error], [0, undefined]);
});

test('leaves the workspace stopped with the reason if the start is no longer possible', async () => {
  const { sql } = server.services;
  const { active_version_id: versionId, id: templateId } = await createTestTemplate(server, 'breaks');
  const { id } = await make('blocked', { ...template, id: templateId });
  const { body: stop } = await restart(id);
  await sql`UPDATE provisioner_jobs SET error = 'gone' WHERE id = (
    SELECT job_id FROM template_versions WHERE id = ${versionId})`;
  await finishBuild();
  const why = await eventually('the reason', async () => (await look(id)).automatic_build_error);
  assert.equal(
    why.message,
    'The restart stopped the workspace, but could not start it again. The provided template version has failed to import. gone',
  );
  assert.equal(why.next_attempt_at, undefined);
  const stopped = (await look(id)).latest_build;
  assert.deepEqual([stopped.id, stopped.status, stopped.restart_pending], [stop.id, 'stopped', undefined]);
  assert.equal(await waiting(), 0);
  // a background task sends it
  const messages = await eventually('the message', async () => {
    const found = await sql<{ content: string }[]>`SELECT content FROM inbox_notifications
      WHERE user_id = ${owner.id} AND ${id}::uuid = ANY (targets)`;
    return found.length > 0 && found;
  });
  assert.equal(messages.length, 1);
  assert.match(messages[0]!.content, /The restart stopped .* failed to import/);
  await sql`UPDATE provisioner_jobs SET error = NULL WHERE id = (
    SELECT job_id FROM template_versions WHERE id = ${versionId})`;
  await restart(id);
  assert.equal((await look(id)).automatic_build_error, undefined, 'the next build clears it');
  await finishBuild();
});

test('starts with the permissions that the person has after the stop', async () => {
  const admin = await createPerson(server, 'helper', ['owner']);
  const { id } = await make('helped');
  for (const [change, reason] of [
    [
      () => server.api('PUT', `/users/${admin.id}/roles`, { body: { roles: [] } }),
      /not found or you do not have access/,
    ],
    [() => server.api('PUT', `/users/${admin.id}/status/suspend`), /is suspended/],
    [() => server.api('DELETE', `/users/${admin.id}`), /was deleted/],
  ] as const) {
    if ((await look(id)).latest_build.transition === 'stop') {
      await order(id, 'start');
      await finishBuild();
      await server.services.sql`UPDATE users SET status = 'active', rbac_roles = '{owner}' WHERE id = ${admin.id}`;
      server.services.events.publishSoon('revoked', { user_ids: [admin.id] });
    }
    await eventually('the role', async () => (await restart(id, {}, admin.token)).status === 201);
    assert.equal((await change()).status, 200);
    await finishBuild();
    const why = await eventually('the reason', async () => (await look(id)).automatic_build_error);
    assert.match(why.message, reason);
  }
});

test('starts each of many workspaces once, whichever server is first', async () => {
  const made: string[] = [];
  for (let n = 0; n < 8; n++) made.push((await make(`crowd-${n}`)).id);
  const contexts = [server, other, server, other].map(({ services }) => systemContext(services, 'test'));
  for (const id of made) {
    const { body: stop } = await restart(id);
    const [row] = await server.services.sql<DueRestart[]>`
      SELECT *, ${id} AS workspace_id, ${template.id} AS template_id FROM workspace_restarts WHERE stop_build_id = ${stop.id}`;
    await finishBuild();
    await Promise.all(contexts.map((ctx) => startAgain(ctx, row!)));
    const [start] = await builds(id);
    assert.deepEqual([start!.transition, start!.build_number], ['start', 3]);
    await finishBuild();
  }
  for (const id of made) {
    assert.equal((await builds(id)).length, 3);
    assert.equal((await look(id)).automatic_build_error, undefined);
  }
});
