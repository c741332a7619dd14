// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace } from '@ropewalk/contract';
import { systemClock } from '@ropewalk/kit';
import { createTestTemplate, eventually, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { systemContext } from '../app/context/context.ts';
import { completeJob } from '../app/job/complete.ts';
import { actOn } from '../app/workspace/scheduled.ts';

const HOUR = 3_600_000;
/** Longer than the jitter of starts. */
const JITTER = 21_000;
/** The workspaces of the slow template: more than one look finds. */
const MANY = 260;
/** A tag whose evaluation always takes as long as it may: three seconds. */
const SLOW = `length([for i in range(100) : can(regex("${'(?i:[a-\\\\x{ffff}])'.repeat(150)}\${i}", "x"))])`;

let ahead = 0;
const clock = { ...systemClock, now: () => new Date(Date.now() + ahead) };
const first = new Date(Date.now() + 10 * HOUR);
const second = new Date(Date.now() + 12 * HOUR);
let server: TestServer;
let slow: Workspace;
let quick: Workspace;
let later: Workspace;

const sql = () => server.services.sql;
const look = async (id: string) => (await server.api<Workspace>('GET', `/workspaces/${id}`)).body;
const moveTo = (at: Date) => {
  ahead += at.getTime() + JITTER - clock.now().getTime();
};

async function finishBuild(): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

async function stopped(template: Template, name: string): Promise<Workspace> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finishBuild();
  const body = { transition: 'stop' };
  assert.equal((await server.api('POST', `/workspaces/${made.body.id}/builds`, { body })).status, 201);
  await finishBuild();
  return look(made.body.id);
}

/** Adds workspaces like this one. */
async function repeat(workspace: Workspace, times: number): Promise<void> {
  await sql().begin(async (tx) => {
    await tx`CREATE TEMPORARY TABLE more ON COMMIT DROP AS
      SELECT n, gen_random_uuid() AS workspace, gen_random_uuid() AS job FROM generate_series(1, ${times}) n`;
    await tx`INSERT INTO workspaces (id, owner_id, organization_id, template_id, name)
      SELECT m.workspace, w.owner_id, w.organization_id, w.template_id, w.name || '-' || m.n
      FROM workspaces w, more m WHERE w.id = ${workspace.id}`;
    await tx`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, started_at, completed_at)
      SELECT m.job, j.organization_id, j.initiator_id, j.type, j.file_id, '{}', now(), now()
      FROM provisioner_jobs j, more m WHERE j.id = ${workspace.latest_build.job.id}`;
    await tx`INSERT INTO workspace_builds (workspace_id, template_version_id, build_number, transition, initiator_id, job_id)
      SELECT m.workspace, b.template_version_id, 1, 'stop', b.initiator_id, m.job
      FROM workspace_builds b, more m WHERE b.id = ${workspace.latest_build.id}`;
  });
}

/** A template whose builds have a tag from `setTagged` on. */
const taggedSource = (value: string) => `variable "tagged" {
  type    = number
  default = 0
}
data "coder_workspace_tags" "t" {
  count = var.tagged
  tags  = { zone = ${value} }
}
`;
const setTagged = (template: Template) =>
  sql()`INSERT INTO template_version_variables (template_version_id, name, type, value, given)
    VALUES (${template.active_version_id}, 'tagged', 'number', '1', true)`;

/** The slow workspaces whose start was tried. */
const tried = async () =>
  (await sql()<{ count: number }[]>`SELECT count(*) FROM workspaces WHERE automatic_attempts > 0`)[0]!.count;

before(async () => {
  server = await startTestServer({ clock, env: { CODER_SESSION_DURATION: '100000h' } });
  const slowTemplate = await createTestTemplate(server, 'slow', {}, taggedSource(SLOW));
  const quickTemplate = await createTestTemplate(server, 'quick', {}, taggedSource('"eu-${1 + 1}"'));
  slow = await stopped(slowTemplate, 'slow');
  quick = await stopped(quickTemplate, 'quick');
  later = await stopped(quickTemplate, 'later');
  await repeat(slow, MANY - 1);
  await setTagged(slowTemplate);
  await setTagged(quickTemplate);
  const startAt = async (template: string, at: Date, name = '%') =>
    sql()`UPDATE workspaces SET autostart_schedule = 'CRON_TZ=UTC 0 9 * * *', next_start_at = ${at}
      WHERE template_id = ${template} AND name LIKE ${name}`;
  await startAt(slowTemplate.id, first);
  await startAt(quickTemplate.id, new Date(first.getTime() + 2 * JITTER), 'quick');
  await startAt(quickTemplate.id, second, 'later');
  await eventually('the first look at every workspace', async () => {
    const [left] = await sql()`SELECT 1 FROM workspaces WHERE due_at = '-infinity' LIMIT 1`;
    return left === undefined;
  });
});
after(() => server.stop());

/** Waits until a workspace starts. Returns how many starts of the slow template were tried meanwhile. */
async function triedUntilStarted({ id, latest_build: before }: Workspace): Promise<number> {
  const already = await tried();
  await eventually(
    'the workspace starts',
    async () => (await look(id)).latest_build.build_number > before.build_number,
  );
  return (await tried()) - already;
}

test('starts a workspace while more of a slow template are due than one look finds', async () => {
  moveTo(new Date(first.getTime() + 2 * JITTER));
  const before = await triedUntilStarted(quick);
  assert.ok(before < 3, `${before} starts of the slow template came first`);
});

test('starts a workspace that becomes due while those of the slow template are worked through', async () => {
  await eventually('a slow start', async () => (await tried()) > 0);
  moveTo(second);
  const before = await triedUntilStarted(later);
  assert.ok(before < 6, `${before} starts of the slow template came first`);
});

test('a server that ends counts no attempt for a workspace whose turn had come', async () => {
  const [row] = await sql()<{ id: string; template_id: string }[]>`SELECT id, template_id FROM workspaces
    WHERE template_id = ${slow.template_id} AND automatic_attempts = 0 ORDER BY due_at DESC LIMIT 1`;
  const ended = systemContext(server.services, 'test', AbortSignal.abort(new Error('the server ends')));
  await assert.rejects(actOn(ended, row!), { code: 'canceled' });
  const [after] = await sql()`SELECT automatic_attempts AS attempts, due_at <= ${clock.now()} AS due FROM workspaces
    WHERE id = ${row!.id}`;
  assert.deepEqual({ ...after }, { attempts: 0, due: true });
});
