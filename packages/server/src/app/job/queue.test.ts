import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template, Workspace } from '@ropewalk/contract';
import {
  eventually,
  finishImport,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { loseAnswers } from '@ropewalk/testkit/lost-answers';
import { authorize } from '../../authz/authorize.ts';
import { systemTask, verifiedDaemon } from '../../authz/proofs.ts';
import { acquireJob, ageBackgroundJobs, insertJob, queuePlaces } from '../../db/queries/job-queue.ts';
import { systemContext } from '../context/context.ts';
import { createJobQueue } from './queue.ts';
import { runnableTagSets, type Tags, UNTAGGED } from './tags.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const worker = (organizationId: string, tags: Tags = { ...UNTAGGED }) =>
  verifiedDaemon({ id: crypto.randomUUID(), organizationId, provisioners: ['terraform'], tags });

test('hands a posted job to a waiting daemon immediately, never to one that left, and loses none', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  // no daemon looks by itself
  const queue = createJobQueue(server.services, { lookAgainMs: 3_600_000 });
  const next = (signal: AbortSignal) => queue.next(worker(organization!.id), signal);
  try {
    const leaving = new AbortController();
    const left = next(leaving.signal);
    leaving.abort(new Error('gone'));
    await assert.rejects(left, /gone/);
    const version = await pendingVersion(server);
    const job = await next(AbortSignal.timeout(60_000));
    assert.equal(job.id, version.job.id);
    // taken while its waiter leaves: the job goes back, and the next waiter gets it
    await sql`UPDATE provisioner_jobs SET started_at = NULL, worker_id = NULL WHERE id = ${job.id}`;
    const slow = new AbortController();
    const racing = next(slow.signal);
    slow.abort(new Error('gone'));
    await assert.rejects(racing, /gone/);
    const again = await next(AbortSignal.timeout(60_000));
    assert.equal(again.id, job.id);
    assert.equal(queue.waiting(organization!.id, UNTAGGED), 0);
  } finally {
    queue.close();
  }
});

test('finds the job that it took although the database connection broke before the answer', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const tags = { ...UNTAGGED, broken: 'yes' };
  const taking = 'acquire_epoch = acquire_epoch + 1';
  const { sql: breaking, lost } = loseAnswers(sql, taking, (_, rows) => rows.length > 0 && lost() === 0);
  const queue = createJobQueue({ ...server.services, sql: breaking });
  try {
    const version = await pendingVersion(server, { tags });
    const daemon = worker(organization!.id, tags);
    const job = await queue.next(daemon, AbortSignal.timeout(60_000));
    assert.equal(job.id, version.job.id);
    assert.equal(lost(), 1);
    await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE id = ${job.id}`;
  } finally {
    queue.close();
  }
});

test('users take turns, and jobs that a person waits for go first', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const organizationId = organization!.id;
  const place = authorize(systemContext(server.services, 'test'), 'create', { type: 'template', organizationId });
  const [file] = await sql<{ id: string }[]>`SELECT id FROM files LIMIT 1`;
  const [ada, ben, eve] = await Promise.all(['ada', 'ben', 'eve'].map((name) => insertPerson(server, name)));
  const tags = { ...UNTAGGED, turns: 'yes' };
  const names = new Map<string, string>();
  const post = async (name: string, initiator: { id: string }, background = false) => {
    const job = await insertJob(sql, place, {
      id: crypto.randomUUID(),
      initiator_id: initiator.id,
      type: 'template_version_import',
      file_id: file!.id,
      input: {},
      tags,
      background,
    });
    names.set(job.id, name);
  };
  const take = async () => {
    const job = await acquireJob(sql, {
      worker: verifiedDaemon({
        id: crypto.randomUUID(),
        organizationId,
        provisioners: ['terraform'],
        tags,
      }),
      tagSets: runnableTagSets(tags),
      leaseMs: 60_000,
    });
    return names.get(job!.id);
  };
  await post('nightly', eve!, true);
  for (const n of [1, 2, 3, 4]) await post(`ada ${n}`, ada!);
  await post('ben 1', ben!);
  assert.deepEqual([await take(), await take()], ['ada 1', 'ben 1']);
  // Ada's four jobs delay the others by at most one
  await post('ben 2', ben!);
  await post('eve 1', eve!);
  assert.deepEqual([await take(), await take(), await take()], ['ada 2', 'ben 2', 'eve 1']);
  assert.deepEqual([await take(), await take(), await take()], ['ada 3', 'ada 4', 'nightly']);

  await post('late', eve!, true);
  await sql`UPDATE provisioner_jobs SET created_at = now() - interval '11 minutes' WHERE completed_at IS NULL AND background`;
  await ageBackgroundJobs(sql, systemTask(systemContext(server.services, 'test')));
  await post('ada 5', ada!);
  assert.equal(await take(), 'late');
  assert.equal(await take(), 'ada 5');
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('jobs that a person posts at the same time take turns with those of others, too', async () => {
  const tags = { ...UNTAGGED, burst: 'yes' };
  const [ada, ben] = await Promise.all(['ada-burst', 'ben-burst'].map((name) => insertPerson(server, name)));
  const version = await pendingVersion(server, { tags: { burst: 'yes' } });
  await finishImport(server, await takeJob(server, tags));
  const { body: template } = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name: 'burst', template_version_id: version.id },
  });
  const post = async ({ token }: { token: string }, name: string) => {
    const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
      token,
      body: { name, template_id: template.id },
    });
    assert.equal(status, 201, JSON.stringify(body));
    return body.latest_build.job.id;
  };
  await Promise.all(Array.from({ length: 20 }, (_, n) => post(ada!, `burst-${n}`)));
  const mine = await post(ben!, 'alone');
  const [organization] = await server.services.sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const places = await queuePlaces(
    server.services.sql,
    [{ organization: organization!.id, queue: 0, tags, provisioners: ['terraform'] }],
    [mine],
  );
  assert.deepEqual([...places], [{ id: mine, position: 2, size: 21 }]);
  const take = () =>
    acquireJob(server.services.sql, {
      worker: worker(organization!.id, tags),
      tagSets: runnableTagSets(tags),
      leaseMs: 60_000,
    });
  const taken = [(await take())!.id, (await take())!.id];
  assert.equal(taken[1], mine);
  await server.services.sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test("a person's posts for other daemons do not wait for an open transaction", async () => {
  const { sql } = server.services;
  const { job } = await pendingVersion(server, { tags: { open: 'first' } });
  const opened = Promise.withResolvers<void>();
  const close = Promise.withResolvers<void>();
  const open = sql.begin(async (tx) => {
    const [given] = await tx<{ initiator_id: string; organization_id: string; file_id: string; tags: Tags }[]>`
      SELECT initiator_id, organization_id, file_id, tags FROM provisioner_jobs WHERE id = ${job.id}`;
    const { organization_id: organizationId, ...rest } = given!;
    const place = authorize(systemContext(server.services, 'test'), 'create', { type: 'template', organizationId });
    await insertJob(tx, place, { ...rest, id: crypto.randomUUID(), type: 'template_version_import', input: {} });
    opened.resolve();
    await close.promise;
  });
  await opened.promise;
  let posted = false;
  const waits = pendingVersion(server, { tags: { open: 'first' } }).then(() => {
    posted = true;
  });
  try {
    await pendingVersion(server, { tags: { open: 'second' } });
    assert.equal(posted, false);
  } finally {
    close.resolve();
    await Promise.all([open, waits]);
  }
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('a round of one kind of daemon does not move newcomers at another', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const organizationId = organization!.id;
  const place = authorize(systemContext(server.services, 'test'), 'create', { type: 'template', organizationId });
  const [file] = await sql<{ id: string }[]>`SELECT id FROM files LIMIT 1`;
  const [ada, ben] = await Promise.all(['ada-kinds', 'ben-kinds'].map((name) => insertPerson(server, name)));
  const post = (initiator: { id: string }, kind: string) =>
    insertJob(sql, place, {
      id: crypto.randomUUID(),
      initiator_id: initiator.id,
      type: 'template_version_import',
      file_id: file!.id,
      input: {},
      tags: { ...UNTAGGED, kind },
    });
  for (let n = 0; n < 5; n++) await post(ada!, 'x');
  for (let n = 0; n < 5; n++) await post(ada!, 'y');
  // the last round of one kind runs
  await sql`UPDATE provisioner_jobs SET started_at = now() WHERE tags ->> 'kind' = 'x'`;
  assert.equal(Number((await post(ben!, 'y')).turn), 0);
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('jobs of one person in many tag sets take turns with those of others at the same daemon', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const organizationId = organization!.id;
  const place = authorize(systemContext(server.services, 'test'), 'create', { type: 'template', organizationId });
  const [file] = await sql<{ id: string }[]>`SELECT id FROM files LIMIT 1`;
  const [ada, ben] = await Promise.all(['ada-sets', 'ben-sets'].map((name) => insertPerson(server, name)));
  const daemon = { ...UNTAGGED, a: '1', b: '1', c: '1' };
  const post = (initiator: { id: string }, more: Record<string, string>) =>
    insertJob(sql, place, {
      id: crypto.randomUUID(),
      initiator_id: initiator.id,
      type: 'template_version_import',
      file_id: file!.id,
      input: {},
      tags: { ...UNTAGGED, ...more },
    });
  const take = () =>
    acquireJob(sql, { worker: worker(organizationId, daemon), tagSets: runnableTagSets(daemon), leaseMs: 60_000 });
  const sets: Record<string, string>[] = [
    { a: '1' },
    { b: '1' },
    { c: '1' },
    { a: '1', b: '1' },
    { a: '1', c: '1' },
    { b: '1', c: '1' },
  ];
  for (const set of sets) await post(ada!, set);
  const { id: alone } = await post(ben!, daemon);
  assert.deepEqual([(await take())!.initiator_id, (await take())!.id], [ada!.id, alone]);
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;

  // a late round of one set runs: the first round of another does not come before its newcomers
  for (let n = 0; n < 5; n++) await post(ada!, { a: '1' });
  await sql`UPDATE provisioner_jobs SET started_at = now() WHERE completed_at IS NULL`;
  for (let n = 0; n < 5; n++) await post(ada!, { b: '1' });
  const { id: newcomer } = await post(ben!, { a: '1' });
  const taken = [(await take())!.id, (await take())!.id];
  assert.ok(taken.includes(newcomer));
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;

  // hundreds of jobs for other daemons hide none
  for (const other of ['1', '2', '3', '4', '5'])
    await sql`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, tags)
      SELECT gen_random_uuid(), ${organizationId}, ${ada!.id}, 'template_version_import', ${file!.id}, '{}',
        ${sql.json({ ...UNTAGGED, other })} FROM generate_series(1, 250)`;
  const turns: number[] = [];
  for (const set of sets) turns.push(Number((await post(ada!, set)).turn));
  assert.deepEqual(
    turns.map((turn) => turn - turns[0]!),
    [0, 1, 2, 3, 4, 5],
  );
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('a posted job wakes one group of daemons with equal tags, the one with the fewest tags', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const zone = { ...UNTAGGED, zone: 'a' };
  const tags = { rich: { ...zone, gpu: 'yes' }, plain: zone };
  // no daemon looks by itself: only a wake-up hands out a job
  const queue = createJobQueue(server.services, { lookAgainMs: 3_600_000 });
  const stop = new AbortController();
  const wait = (name: keyof typeof tags) => queue.next(worker(organization!.id, tags[name]), stop.signal);
  try {
    for (let round = 0; round < 5; round++) {
      const taken = { rich: wait('rich'), plain: wait('plain') };
      for (const one of Object.values(taken)) one.catch(() => {});
      await eventually('both wait', async () => queue.waiting(organization!.id, zone) === 2 + round);
      const version = await pendingVersion(server, { tags: { zone: 'a' } });
      assert.equal((await taken.plain).id, version.job.id);
      assert.equal(queue.waiting(organization!.id, zone), 1 + round);
    }
  } finally {
    stop.abort();
    queue.close();
  }
});

test('jobs posted at the same time all reach the waiting daemons, with one query each', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const tags = { ...UNTAGGED, crowd: 'yes' };
  let queries = 0;
  const { sql: counting } = loseAnswers(sql, 'acquire_epoch = acquire_epoch + 1', (nth) => {
    queries = nth;
    return false;
  });
  const queue = createJobQueue({ ...server.services, sql: counting }, { lookAgainMs: 3_600_000 });
  const stop = new AbortController();
  const taken: string[] = [];
  const wait = () => queue.next(worker(organization!.id, tags), stop.signal).then(({ id }) => taken.push(id));
  try {
    const waits = Promise.allSettled([wait(), wait(), wait(), wait(), wait()]);
    await eventually('all wait', async () => queue.waiting(organization!.id, tags) === 5 && queries > 0);
    const before = queries;
    const versions = await Promise.all([1, 2, 3, 4].map(() => pendingVersion(server, { tags: { crowd: 'yes' } })));
    await eventually('one waits', async () => taken.length === 4 && queue.waiting(organization!.id, tags) === 1);
    assert.deepEqual(taken.sort(), versions.map(({ job }) => job.id).sort());
    assert.equal(queries - before, 4);
    stop.abort();
    await waits;
    await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE id = ANY(${taken})`;
  } finally {
    stop.abort();
    queue.close();
  }
});

test('finds a job whose notification was lost within a second', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const tags = { ...UNTAGGED, lost: 'yes' };
  const version = await pendingVersion(server, { tags: { lost: 'yes' } });
  await sql`UPDATE provisioner_jobs SET started_at = now() WHERE id = ${version.job.id}`;
  const queue = createJobQueue(server.services);
  const stop = AbortSignal.timeout(60_000);
  try {
    let taken: string | undefined;
    const next = queue.next(worker(organization!.id, tags), stop).then(({ id }) => {
      taken = id;
    });
    await eventually('it waits', async () => queue.waiting(organization!.id, tags) === 1);
    await sql`UPDATE provisioner_jobs SET started_at = NULL WHERE id = ${version.job.id}`;
    // the queue needs the database, so that a slow database makes each look slow
    const look = async () => (await sql`SELECT`) && taken;
    assert.equal(await eventually('the job', look, 2_000), version.job.id);
    await next;
  } finally {
    queue.close();
  }
});
