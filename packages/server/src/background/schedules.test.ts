import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, UpdateTemplateMeta, User, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { systemClock } from '@ropewalk/kit';
import {
  createPerson,
  createTestTemplate,
  eventually,
  finishImport,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema, FailedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob, failJob } from '../app/job/complete.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Longer than the jitter of starts and stops. */
const JITTER = 21_000;

/** The clock begins at noon: a deadline close to a start of the schedule would become later. */
let ahead = new Date().setUTCHours(36, 0, 0, 0) - Date.now();
const clock = { ...systemClock, now: () => new Date(Date.now() + ahead) };
let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer({
    clock,
    env: { CODER_SESSION_DURATION: '100000h', CODER_QUIET_HOURS_DEFAULT_SCHEDULE: 'CRON_TZ=Europe/Berlin 0 3 * * *' },
  });
  template = await createTestTemplate(server, 'base');
});
after(() => server.stop());

/** Moves the server's clock to a time, and a little further than any jitter. */
const moveTo = (at: string | Date | null | undefined) => {
  assert.ok(at, 'there is such a time');
  ahead += new Date(at).getTime() + JITTER - clock.now().getTime();
};
const pass = (ms: number) => {
  ahead += ms;
};

const look = async (id: string) => (await server.api<Workspace>('GET', `/workspaces/${id}?include_deleted=true`)).body;
const edit = async (id: string, meta: UpdateTemplateMeta) =>
  assert.equal((await server.api('PATCH', `/templates/${id}`, { body: meta })).status, 200);

async function finishBuild(): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

async function failBuild(error = 'no machine is free'): Promise<void> {
  const own = await takeJob(server);
  await failJob(server.services, own, create(FailedJobSchema, { jobId: own.jobId, error }));
}

async function make(name: string, more: object = {}, token?: string): Promise<Workspace> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id, ...more },
    ...(token ? { token } : {}),
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finishBuild();
  return look(made.body.id);
}

/** Waits until the server begins a build after `before`. */
async function begins(before: Workspace, transition: string, reason: string): Promise<Workspace> {
  const { build_number: number } = before.latest_build;
  const now = await eventually(`build ${number + 1} of ${before.name}`, async () => {
    const seen = await look(before.id);
    return seen.latest_build.build_number > number ? seen : undefined;
  });
  const { latest_build: build } = now;
  assert.deepEqual([build.transition, build.reason, build.build_number], [transition, reason, number + 1]);
  return now;
}

async function stop(workspace: Workspace): Promise<void> {
  const body = { transition: 'stop' };
  assert.equal((await server.api('POST', `/workspaces/${workspace.id}/builds`, { body })).status, 201);
  await finishBuild();
}

const notes = async (id: string) =>
  (
    await server.services.sql<{ title: string }[]>`SELECT t.title FROM inbox_notifications t
      WHERE ${id}::uuid = ANY (t.targets)`
  ).map(({ title }) => title);

test('starts and stops a workspace by its schedule, once each', async () => {
  const made = await make('daily', { autostart_schedule: 'CRON_TZ=UTC 30 9 * * *', ttl_ms: 2 * HOUR });
  const { deadline } = made.latest_build;
  assert.ok(Math.abs(Date.parse(deadline!) - clock.now().getTime() - 2 * HOUR) < MINUTE);
  assert.equal(new Date(made.next_start_at!).toISOString().slice(11, 16), '09:30');
  moveTo(deadline);
  const stopping = await begins(made, 'stop', 'autostop');
  await finishBuild();
  moveTo(stopping.next_start_at);
  const starting = await begins(stopping, 'start', 'autostart');
  assert.equal(starting.latest_build.initiator_id, starting.owner_id);
  await finishBuild();
  const running = await eventually('the next start to move', async () => {
    const seen = await look(made.id);
    return seen.next_start_at !== stopping.next_start_at ? seen : undefined;
  });
  assert.equal(Date.parse(running.next_start_at!) - Date.parse(stopping.next_start_at!), DAY);
  await server.api('PUT', `/workspaces/${made.id}/autostart`, { body: {} });
  assert.equal((await look(made.id)).next_start_at, null);
  await stop(running);
});

test('reminds the owner once before each stop, also when the template asks for it later', async () => {
  const made = await make('reminded', { ttl_ms: 8 * HOUR });
  pass(6 * HOUR);
  await edit(template.id, { time_til_autostop_notify_ms: 3 * HOUR });
  const reminders = async () => (await notes(made.id)).filter((title) => title.includes('stops soon')).length;
  await eventually('a reminder', async () => (await reminders()) === 1);
  const extend = async () => {
    const body = { deadline: new Date(clock.now().getTime() + 9 * HOUR).toISOString() };
    assert.equal((await server.api('PUT', `/workspaces/${made.id}/extend`, { body })).status, 200);
  };
  // a look at the workspace repeats nothing
  await edit(template.id, { time_til_autostop_notify_ms: 150 * MINUTE });
  await extend();
  pass(7 * HOUR);
  await eventually('a reminder of the new stop', async () => (await reminders()) === 2);
  assert.equal(await reminders(), 2);
  await edit(template.id, { time_til_autostop_notify_ms: 0 });
  await stop(await look(made.id));
});

test('does not start the workspace of somebody who is not active, and stops it when they are suspended', async () => {
  const person = await createPerson(server, 'leaving');
  const made = await make('left', { autostart_schedule: 'CRON_TZ=UTC 0 7 * * *' }, person.token);
  assert.equal((await server.api<User>('PUT', `/users/${person.id}/status/suspend`)).status, 200);
  const stopping = await begins(made, 'stop', 'autostop');
  await finishBuild();
  moveTo(stopping.next_start_at);
  await server.services.sql`UPDATE users SET status = 'active' WHERE id = ${person.id}`;
  await begins(stopping, 'start', 'autostart');
  await finishBuild();
});

test('retries a failed automatic start', async () => {
  const made = await make('unlucky', { autostart_schedule: 'CRON_TZ=UTC 15 8 * * *' });
  await stop(made);
  const { next_start_at: next } = await look(made.id);
  moveTo(next);
  const first = await begins(await look(made.id), 'start', 'autostart');
  await failBuild();
  // jobs end by the database's clock, so this is long ago for the server
  const second = await begins(first, 'start', 'autostart');
  await failBuild();
  await begins(second, 'start', 'autostart');
  await finishBuild();
  const failed = (await notes(made.id)).filter((title) => title.includes('failed'));
  assert.equal(failed.length, 1, 'the owner gets one message for a row of failures');
});

test('stops a workspace whose start failed, after the time that the template sets', async () => {
  const made = await make('broken');
  await stop(made);
  await server.api('POST', `/workspaces/${made.id}/builds`, { body: { transition: 'start' } });
  await failBuild();
  const before = await look(made.id);
  await edit(template.id, { failure_ttl_ms: MINUTE });
  await begins(before, 'stop', 'autostop');
  await finishBuild();
  await edit(template.id, { failure_ttl_ms: 0 });
});

test('says why an automatic start could not begin, and updates before it starts', async () => {
  const made = await make('updated', { autostart_schedule: 'CRON_TZ=UTC 45 8 * * *', automatic_updates: 'always' });
  await stop(made);
  const before = await look(made.id);
  const publish = async (name: string, parameters: object[]) => {
    const [{ file_id: file } = { file_id: '' }] = await server.services.sql<{ file_id: string }[]>`
      SELECT j.file_id FROM template_versions v JOIN provisioner_jobs j ON j.id = v.job_id
      WHERE v.id = ${template.active_version_id}`;
    const version = await server.api<{ id: string }>(
      'POST',
      `/organizations/${template.organization_id}/templateversions`,
      { body: { name, template_id: template.id, file_id: file, provisioner: 'terraform', storage_method: 'file' } },
    );
    assert.equal(version.status, 201, JSON.stringify(version.body));
    await finishImport(server, await takeJob(server), { richParameters: parameters as never });
    const body = { id: version.body.id };
    assert.equal((await server.api('PATCH', `/templates/${template.id}/versions`, { body })).status, 200);
    return version.body.id;
  };
  await publish('asks', [{ name: 'color', type: 'string', mutable: true, required: true }]);
  moveTo(before.next_start_at);
  const why = await eventually('the reason', async () => (await look(made.id)).automatic_build_error);
  assert.match(why.message, /color/);
  assert.ok(Date.parse(why.next_attempt_at!) > clock.now().getTime());
  const version = await publish('asks-nothing', []);
  pass(2 * MINUTE);
  const started = await begins(await look(made.id), 'start', 'autostart');
  assert.equal(started.latest_build.template_version_id, version);
  assert.equal(started.automatic_build_error, undefined);
  await finishBuild();
  const titles = await notes(made.id);
  assert.ok(
    titles.some((title) => title.includes('updated automatically')),
    titles.join('; '),
  );
  assert.ok(
    titles.some((title) => title.includes('failed')),
    titles.join('; '),
  );
});

test('makes unused workspaces dormant, keeps people out of them, and deletes them', async () => {
  const made = await make('forgotten');
  await edit(template.id, { time_til_dormant_ms: 30 * DAY });
  pass(29 * DAY);
  // used meanwhile
  await server.services.sql`UPDATE workspaces SET last_used_at = ${clock.now()} WHERE id = ${made.id}`;
  await server.services.sql`UPDATE workspaces SET last_used_at = ${clock.now()} WHERE id <> ${made.id}`;
  pass(29 * DAY);
  assert.equal((await look(made.id)).dormant_at, null);
  await server.services.sql`UPDATE workspaces SET last_used_at = ${clock.now()} WHERE id <> ${made.id}`;
  pass(DAY + HOUR);
  const dormant = await begins(made, 'stop', 'dormancy');
  assert.ok(dormant.dormant_at);
  assert.equal(dormant.deleting_at, null);
  await finishBuild();
  const refused = await server.api<{ message: string; detail: string }>('POST', `/workspaces/${made.id}/builds`, {
    body: { transition: 'start' },
  });
  assert.deepEqual([refused.status, refused.body.message], [403, 'Forbidden.']);
  assert.match(refused.body.detail, /dormant. Activate it first/);
  await edit(template.id, { time_til_dormant_autodelete_ms: 7 * DAY });
  const marked = await look(made.id);
  assert.equal(Date.parse(marked.deleting_at!) - Date.parse(marked.dormant_at!), 7 * DAY);
  moveTo(marked.deleting_at);
  await begins(marked, 'delete', 'dormancy');
  await finishBuild();
  const [{ deleted } = { deleted: false }] = await server.services.sql<{ deleted: boolean }[]>`
    SELECT deleted FROM workspaces WHERE id = ${made.id}`;
  assert.ok(deleted);
  const titles = await notes(made.id);
  for (const text of ['is dormant', 'will be deleted']) {
    assert.ok(
      titles.some((title) => title.includes(text)),
      `${text}: ${titles.join('; ')}`,
    );
  }
  await edit(template.id, { time_til_dormant_ms: 0, time_til_dormant_autodelete_ms: 0 });
});

test('stops at the quiet hours that the template requires, however much it is used', async () => {
  await edit(template.id, { autostop_requirement: { days_of_week: ['saturday'], weeks: 1 } });
  const made = await make('required', { ttl_ms: 2 * HOUR });
  const { max_deadline: most, deadline } = made.latest_build;
  const at = Temporal.Instant.from(most!).toZonedDateTimeISO('Europe/Berlin');
  assert.deepEqual([at.dayOfWeek, at.hour, at.minute], [6, 3, 0]);
  assert.ok(Date.parse(deadline!) <= Date.parse(most!));
  // as upstream: otherwise people could keep a workspace running by moving their quiet hours away from each stop
  const quietHours = async (schedule: string) =>
    assert.equal((await server.api('PUT', '/users/me/quiet-hours', { body: { schedule } })).status, 200);
  await quietHours('CRON_TZ=Europe/Berlin 0 22 * * *');
  await server.api('PUT', `/workspaces/${made.id}/ttl`, { body: {} });
  const { latest_build: kept } = await look(made.id);
  assert.deepEqual([kept.deadline, kept.max_deadline], [most, most]);
  await quietHours('');
  await edit(template.id, { autostop_requirement: { days_of_week: [], weeks: 1 } });
  const free = (await look(made.id)).latest_build;
  assert.deepEqual([free.deadline, free.max_deadline], [undefined, undefined]);
  await edit(template.id, { autostop_requirement: { days_of_week: ['saturday', 'sunday'], weeks: 1 } });
  const again = await look(made.id);
  assert.ok(Date.parse(again.latest_build.deadline!) >= clock.now().getTime() + 2 * HOUR - MINUTE);
  moveTo(again.latest_build.deadline);
  const stopping = await begins(again, 'stop', 'autostop');
  await finishBuild();
  await edit(template.id, { autostop_requirement: { days_of_week: [], weeks: 1 } });
  assert.equal((await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${stopping.latest_build.id}`)).status, 200);
});
