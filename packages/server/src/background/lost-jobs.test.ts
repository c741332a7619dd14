import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TemplateVersion, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { createTestTemplate, pendingVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { connect } from '../db/connect.ts';
import { renewLeases, touchJob } from '../db/queries/job-ownership.ts';
import { lostJobsTask } from './lost-jobs.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_FORCE_CANCEL_INTERVAL: '2m' } });
});
after(() => server.stop());

test('a canceled job that does not end is canceled by force after the interval', async () => {
  const { sql } = server.services;
  const version = await pendingVersion(server);
  const { jobId } = await takeJob(server);
  assert.equal(jobId, version.job.id);
  assert.equal((await server.api('PATCH', `/templateversions/${version.id}/cancel`)).status, 200);
  const status = async () =>
    (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body.job.status;
  const task = lostJobsTask(server.services);
  const sweep = () => task.run(AbortSignal.timeout(10_000));
  await sql`UPDATE provisioner_jobs SET canceled_at = now() - interval '1 minute' WHERE id = ${jobId}`;
  await sweep();
  assert.equal(await status(), 'canceling');
  await sql`UPDATE provisioner_jobs SET canceled_at = now() - interval '3 minutes' WHERE id = ${jobId}`;
  await sweep();
  assert.equal(await status(), 'canceled');
});

test('a build that its daemon did not confirm goes back to the queue, and one that it may have begun fails', async () => {
  const { services } = server;
  const { sql } = services;
  const template = await createTestTemplate(server, 'lost');
  const order = async (name: string) => {
    const { body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
      body: { name, template_id: template.id },
    });
    return body.latest_build.id;
  };
  const buildJob = async (id: string) => (await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${id}`)).body.job;
  const task = lostJobsTask(services);
  const sweep = () => task.run(AbortSignal.timeout(10_000));
  const leaseEnds = (id: string) =>
    sql`UPDATE provisioner_jobs SET lease_expires_at = now() - interval '1 second' WHERE id = ${id}`;
  await sweep();

  const begun = await order('begun');
  const confirmed = await takeJob(server, undefined, { confirms: true });
  assert.ok(await touchJob(sql, confirmed, 60_000));
  await renewLeases(sql, [confirmed], 60_000);
  const [whole] = await sql<{ isWhole: boolean }[]>`
    SELECT lease_expires_at > now() + interval '50 seconds' AS "isWhole" FROM provisioner_jobs WHERE id = ${confirmed.jobId}`;
  assert.ok(whole!.isWhole);
  await leaseEnds(confirmed.jobId);
  await sweep();
  assert.equal((await buildJob(begun)).status, 'failed');

  const upstream = await order('upstream');
  await leaseEnds((await takeJob(server)).jobId);
  await sweep();
  assert.equal((await buildJob(upstream)).status, 'failed', 'its daemon may have begun without a report');

  const sent = await order('sent');
  const first = await takeJob(server, undefined, { confirms: true });
  const leaseOf = async ({ jobId }: { jobId: string }) => {
    const [lease] = await sql<{ seconds: number }[]>`
      SELECT extract(epoch FROM lease_expires_at - now())::float8 AS seconds FROM provisioner_jobs WHERE id = ${jobId}`;
    return lease!.seconds;
  };
  const steps: Record<string, () => Promise<unknown>> = {
    'the server is killed, and others go on': async () => {},
    'the connection is alive': () => renewLeases(sql, [first], 60_000),
    'the server starts again': () => lostJobsTask(services).run(AbortSignal.timeout(10_000)),
  };
  for (const [what, step] of Object.entries(steps)) {
    await step();
    const seconds = await leaseOf(first);
    assert.ok(seconds > 0 && seconds <= 30, `${what}: a person waits ${seconds} s`);
  }
  await leaseEnds(first.jobId);
  await sweep();
  assert.equal((await buildJob(sent)).status, 'pending');
  // the daemon has it after all: it must not begin
  assert.equal(await touchJob(sql, first, 60_000), undefined);
  for (let tries = 2; tries <= 3; tries++) {
    const { jobId } = await takeJob(server, undefined, { confirms: true });
    assert.equal(jobId, first.jobId);
    await leaseEnds(jobId);
    await sweep();
  }
  const { status, error } = await buildJob(sent);
  assert.deepEqual([status, error?.split(':')[0]], ['failed', 'The provisioner daemon was lost']);
});

test('an error that persists keeps no lost job alive', async () => {
  const { services } = server;
  const { sql } = services;
  const first = await pendingVersion(server);
  const taken = await takeJob(server);
  const task = lostJobsTask(services);
  await task.run(AbortSignal.timeout(10_000));
  // the database answers, and rejects one statement of each run
  await sql`ALTER TABLE provisioner_jobs RENAME COLUMN background TO hidden`;
  try {
    await assert.rejects(task.run(AbortSignal.timeout(10_000)), /background/);
    await sql`UPDATE provisioner_jobs SET lease_expires_at = now() - interval '1 second' WHERE id = ${taken.jobId}`;
    await assert.rejects(task.run(AbortSignal.timeout(10_000)), /background/);
  } finally {
    await sql`ALTER TABLE provisioner_jobs RENAME COLUMN hidden TO background`;
  }
  const [job] = await sql<
    { worker_id: string | null }[]
  >`SELECT worker_id FROM provisioner_jobs WHERE id = ${taken.jobId}`;
  assert.equal(job!.worker_id, null, 'the lost job is back in the queue');
  assert.equal(first.job.id, taken.jobId);
});

test('a jump of the clock of the database costs no job its lease, and the lease of a silent daemon still ends', async () => {
  const { sql } = server.services;
  // A function before PostgreSQL's own in the path. Connections look for it when they prepare a statement.
  const name = new URL(server.services.config.postgresUrl).pathname.slice(1);
  await sql.unsafe(`CREATE TABLE jump AS SELECT interval '0' AS length;
    CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql STABLE AS
      'SELECT pg_catalog.now() + (SELECT length FROM public.jump)';
    ALTER DATABASE ${name} SET search_path = public, pg_catalog`);
  const services = { ...server.services, sql: connect(server.services.config.postgresUrl, { max: 2 }) };
  try {
    await pendingVersion(server);
    const { jobId } = await takeJob(server);
    await services.sql`UPDATE provisioner_jobs SET lease_expires_at = now() + interval '90 seconds' WHERE id = ${jobId}`;
    const task = lostJobsTask(services);
    const sweep = () => task.run(AbortSignal.timeout(10_000));
    const job = async () => {
      const [row] = await services.sql<{ worker_id: string | null; seconds: number }[]>`
        SELECT worker_id, extract(epoch FROM lease_expires_at - now())::float8 AS seconds
        FROM provisioner_jobs WHERE id = ${jobId}`;
      return row!;
    };
    await sweep();
    await services.sql`UPDATE jump SET length = interval '1 hour'`;
    await sweep();
    const { worker_id, seconds } = await job();
    assert.ok(worker_id, 'it belongs to its daemon');
    assert.ok(seconds > 60 && seconds <= 90, `its lease runs for ${seconds} s`);
    for (let runs = 1; runs <= 20; runs++) {
      await services.sql`UPDATE jump SET length = length + interval '1 minute'`;
      await sweep();
    }
    assert.equal((await job()).worker_id, null, 'back in the queue');
  } finally {
    await services.sql.end();
    await sql.unsafe(`ALTER DATABASE ${name} RESET search_path; DROP FUNCTION public.now(); DROP TABLE jump`);
  }
});
