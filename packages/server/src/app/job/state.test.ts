import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { createTestTemplate, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema, FailedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import type { Ownership } from '../../db/owned.ts';
import { checkpoint, deliverState } from './checkpoint.ts';
import { completeJob, failJob, type JobObserver } from './complete.ts';
import { acquiredJobMessage } from './message.ts';
import { readState } from './state.ts';
import { insertDaemon, tagged } from './testing/daemons.ts';

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'states');
});
after(() => server.stop());

const state = (serial: number, names: string[], lineage = 'line') =>
  Buffer.from(
    JSON.stringify({
      version: 4,
      serial,
      lineage,
      resources: names.map((name) => ({ mode: 'managed', type: 't', name, instances: [{}] })),
    }),
  );
const EMPTY = Buffer.alloc(0);

async function make(name: string): Promise<Workspace> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
}
const build = (workspace: Workspace, body: object) =>
  server.api<WorkspaceBuild & { message?: string }>('POST', `/workspaces/${workspace.id}/builds`, { body });
const buildOf = async (own: Ownership) => {
  const [row] = await server.services.sql<
    { id: string; warning: string; error: string | null; deleted: boolean; in_flight: string[]; status: string }[]
  >`SELECT b.id, b.warning, b.in_flight, j.error, j.job_status AS status, w.deleted FROM workspace_builds b
    JOIN provisioner_jobs j ON j.id = b.job_id JOIN workspaces w ON w.id = b.workspace_id WHERE b.job_id = ${own.jobId}`;
  return row!;
};
const pull = async (id: string) =>
  (
    await server.services.sql<{ state: Buffer | null }[]>`
    SELECT provisioner_state AS state FROM workspace_builds WHERE id = ${id}`
  )[0]!.state;
const stored = async (own: Ownership) => readState((await pull((await buildOf(own)).id)) ?? EMPTY);
const orphans = async (own: Ownership) =>
  server.services.sql<{ serial: number; lineage: string }[]>`SELECT o.serial, o.lineage FROM orphan_states o
    JOIN workspace_builds b ON b.id = o.workspace_build_id WHERE b.job_id = ${own.jobId} ORDER BY o.created_at`;

function observer(): JobObserver & { seen: string[] } {
  const seen: string[] = [];
  return { seen, stateRejected: (source, reason) => seen.push(`${source} ${reason}`), claimReplaced() {} };
}

const done = (own: Ownership, bytes: Buffer) =>
  create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'workspaceBuild', value: { state: bytes } } });
const failed = (own: Ownership, bytes: Buffer) =>
  create(FailedJobSchema, {
    jobId: own.jobId,
    error: 'terraform apply: exit status 1',
    type: { case: 'workspaceBuild', value: { state: bytes } },
  });

/** States that must never replace a state of lineage `line` and serial 5. */
const BAD: [string, Buffer][] = [
  ['unparseable', state(9, ['a']).subarray(0, 40)],
  ['unparseable', Buffer.from('null')],
  ['unparseable', Buffer.from('[]')],
  ['unparseable', Buffer.from('{"version":4,"serial":9}')],
  ['unparseable', Buffer.from('{"version":4,"serial":9,"lineage":""}')],
  ['unparseable', Buffer.from('{"version":4,"serial":9,"lineage":"line\\u0000"}')],
  ['unparseable', Buffer.from('{"version":4,"serial":"9","lineage":"line"}')],
  ['unparseable', Buffer.from('{"version":4,"serial":1e300,"lineage":"line"}')],
  ['unparseable', Buffer.from('{"version":3,"serial":9,"lineage":"line"}')],
  ['unparseable', Buffer.from('{"version":4,"serial":9,"lineage":"line","resources":null}')],
  ['foreign_lineage', state(9, ['a'], 'another')],
  ['older', state(4, ['a'])],
];

test('ignores and counts a checkpoint that is not a complete, newer state of the same lineage', async () => {
  await make('checkpoints');
  const own = await takeJob(server);
  const { seen, ...counted } = observer();
  const take = (bytes: Buffer, inFlight: string[] = []) =>
    checkpoint(server.services, own, { state: bytes, inFlight }, counted);
  assert.ok(await take(EMPTY, ['t.a']));
  assert.deepEqual((await buildOf(own)).in_flight, ['t.a'], 'in-flight resources are stored without a state');
  assert.ok(await take(state(5, ['a'])));
  assert.deepEqual(seen, []);
  for (const [reason, bytes] of [...BAD, ['older', state(5, ['other'])] as const]) {
    assert.ok(await take(bytes), 'the job stays with its owner');
    assert.deepEqual(seen.splice(0), [`checkpoint ${reason}`], bytes.toString());
    assert.deepEqual(await stored(own), readState(state(5, ['a'])), bytes.toString());
  }
  assert.ok(await take(EMPTY, ['t.b']));
  assert.ok(await take(state(5, ['a']), ['t.b', 't.c']), 'the same state again, with other in-flight resources');
  assert.deepEqual((await buildOf(own)).in_flight, ['t.b', 't.c']);
  assert.deepEqual(await stored(own), readState(state(5, ['a'])));
  assert.ok(await take(state(6, ['a', 'b'])));
  assert.equal((await stored(own))?.serial, 6);
  assert.deepEqual(seen, []);
  const stranger = { ...own, epoch: own.epoch + 1 };
  for (const bytes of [EMPTY, state(7, ['x']), Buffer.from('{')])
    assert.equal(await checkpoint(server.services, stranger, { state: bytes, inFlight: [] }), false);
  assert.equal((await stored(own))?.serial, 6);
  await completeJob(server.services, own, done(own, state(7, ['a', 'b'])));
});

test('a failed build keeps the known state unless it sends a newer one of the same lineage', async () => {
  const workspace = await make('fails');
  const first = await takeJob(server);
  await completeJob(server.services, first, done(first, state(5, ['a'])));
  for (const [reason, bytes] of BAD) {
    await build(workspace, { transition: 'start' });
    const own = await takeJob(server);
    const counted = observer();
    await failJob(server.services, own, failed(own, bytes), counted);
    assert.deepEqual(counted.seen, [`fail ${reason}`], bytes.toString());
    assert.deepEqual(await stored(own), readState(state(5, ['a'])), bytes.toString());
    const { id, warning } = await buildOf(own);
    assert.match(warning, /[Dd]id not store|orphan state/);
    const shown = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${id}`);
    assert.equal(shown.body.warning, warning, 'people see it');
    // the resources that it names can still be found
    assert.equal((await orphans(own)).length, readState(bytes) ? 1 : 0, bytes.toString());
  }
});

test('a build, deletions included, completes only with a state that can be stored', async () => {
  const workspace = await make('completes');
  const first = await takeJob(server);
  await completeJob(server.services, first, done(first, state(5, ['a'])));
  for (const transition of ['start', 'stop', 'delete'] as const) {
    for (const [reason, bytes] of [...BAD, ['empty', EMPTY] as const]) {
      await build(workspace, { transition });
      const own = await takeJob(server);
      const counted = observer();
      await completeJob(server.services, own, done(own, bytes), counted);
      assert.deepEqual(counted.seen, [`complete ${reason}`], bytes.toString());
      const { status, error, deleted } = await buildOf(own);
      assert.equal(status, 'failed');
      assert.match(error!, /[Dd]id not store the state.*kept/);
      assert.equal(deleted, false);
      assert.deepEqual(await stored(own), readState(state(5, ['a'])), bytes.toString());
    }
  }
  // nothing changed, and another Terraform version rewrote the file
  await build(workspace, { transition: 'start' });
  const same = await takeJob(server);
  await completeJob(server.services, same, done(same, Buffer.from(` ${state(5, ['a'])}`)));
  assert.equal((await buildOf(same)).status, 'succeeded');
  await build(workspace, { transition: 'delete' });
  const last = await takeJob(server);
  await completeJob(server.services, last, done(last, state(6, [])));
  assert.deepEqual(await stored(last), readState(state(6, [])));
  assert.ok((await buildOf(last)).deleted);
});

test('a build may complete without a state when no resource would be lost', async () => {
  const workspace = await make('nothing');
  const first = await takeJob(server);
  await completeJob(server.services, first, done(first, EMPTY));
  assert.equal((await buildOf(first)).status, 'succeeded');
  await build(workspace, { transition: 'start' });
  const second = await takeJob(server);
  await completeJob(server.services, second, done(second, state(3, [])));
  await build(workspace, { transition: 'stop' });
  const third = await takeJob(server);
  await completeJob(server.services, third, done(third, EMPTY));
  assert.equal((await buildOf(third)).status, 'succeeded');
  assert.equal((await stored(third))?.serial, 3, 'the stored state stays');
  await build(workspace, { transition: 'delete' });
  const last = await takeJob(server);
  await completeJob(server.services, last, done(last, EMPTY));
  assert.ok((await buildOf(last)).deleted);
});

test('the late state of a lost job never replaces a stored one of another lineage or a higher serial', async () => {
  await make('late');
  const own = await takeJob(server);
  await checkpoint(server.services, own, { state: state(5, ['a']), inFlight: [] });
  for (const [reason, bytes] of [...BAD, ['', EMPTY] as const, ['', state(5, ['b'])] as const]) {
    const counted = observer();
    const outcome = await deliverState(server.services, own, { state: bytes }, counted);
    assert.equal(outcome, reason === 'foreign_lineage' ? 'orphaned' : 'refused', bytes.toString());
    assert.deepEqual(counted.seen, reason === '' ? [] : [`delivery ${reason}`]);
    assert.deepEqual(await stored(own), readState(state(5, ['a'])), bytes.toString());
  }
  assert.deepEqual([...(await orphans(own))], [{ serial: 9, lineage: 'another' }]);
  assert.equal(await deliverState(server.services, own, { state: state(6, ['a', 'b']) }), 'kept');
  assert.equal((await stored(own))?.serial, 6);
  await failJob(server.services, own, failed(own, EMPTY));
});

test('a build keeps a number of orphan states', async () => {
  await make('many-orphans');
  const own = await takeJob(server);
  await checkpoint(server.services, own, { state: state(5, ['a']), inFlight: [] });
  const deliver = (n: number) => deliverState(server.services, own, { state: state(1, ['b'], `line ${n}`) });
  const outcomes = await Promise.all(Array.from({ length: 12 }, (_, n) => deliver(n)));
  assert.deepEqual(outcomes.sort(), [...Array(10).fill('orphaned'), 'refused', 'refused']);
  assert.equal((await orphans(own)).length, 10);
  await failJob(server.services, own, failed(own, EMPTY));
});

test('only an explicit push replaces a state by an unrelated one. It is audited, and earlier states stay retrievable', async () => {
  const workspace = await make('pushes');
  const first = await takeJob(server);
  await completeJob(server.services, first, done(first, state(5, ['a'])));
  for (const [reason, bytes] of BAD.filter(([reason]) => reason === 'unparseable')) {
    const rejected = await build(workspace, { transition: 'start', state: bytes.toString('base64') });
    assert.equal(rejected.status, 400, `${reason} ${bytes}`);
    assert.match(rejected.body.message!, /complete Terraform state/);
  }
  // clients send this when they push no state
  const none = await build(workspace, { transition: 'start', state: '' });
  const unset = await takeJob(server);
  assert.equal((await stored(unset))?.serial, 5);
  await completeJob(server.services, unset, done(unset, state(5, ['a'])));
  const pushed = await build(workspace, {
    transition: 'start',
    state: state(2, ['mended'], 'another').toString('base64'),
  });
  assert.equal(pushed.status, 201, JSON.stringify(pushed.body));
  const [entry] = await server.services.sql<{ pushed: object; user_id: string }[]>`
    SELECT additional_fields -> 'pushed_state' AS pushed, user_id FROM audit_logs WHERE resource_id = ${pushed.body.id} AND action = 'start'`;
  const { length } = state(2, ['mended'], 'another');
  assert.deepEqual(entry?.pushed, { serial: 2, lineage: 'another', bytes: length });
  assert.ok(entry.user_id);
  const own = await takeJob(server);
  await completeJob(server.services, own, done(own, state(3, ['mended', 'more'], 'another')));
  const serials = [];
  for (const id of [workspace.latest_build.id, none.body.id, pushed.body.id]) {
    const { body } = await server.api<{ serial: number; lineage: string }>('GET', `/workspacebuilds/${id}/state`);
    serials.push([body.serial, body.lineage]);
  }
  assert.deepEqual(serials, [
    [5, 'line'],
    [5, 'line'],
    [3, 'another'],
  ]);
});

test('rejects a pushed state whose serial Terraform could not increment', async () => {
  const workspace = await make('serials');
  const own = await takeJob(server);
  await completeJob(server.services, own, done(own, state(5, ['a'])));
  const push = async (serial: number) => {
    const bytes = state(serial, ['a']).toString('base64');
    return build(workspace, { transition: 'start', state: bytes });
  };
  for (const serial of [2 ** 52 + 1, Number.MAX_SAFE_INTEGER]) {
    const { status, body } = await push(serial);
    assert.equal(status, 400);
    assert.match(
      body.message!,
      new RegExp(`has the serial ${serial}; the largest that can be pushed is 4503599627370496`),
    );
  }
  assert.equal((await push(2 ** 52)).status, 201);
  const last = await takeJob(server);
  await completeJob(server.services, last, done(last, state(2 ** 52 + 1, ['a', 'b'])));
  assert.equal((await stored(last))?.serial, 2 ** 52 + 1);
});

test('an orphaning deletion keeps the state until the workspace is deleted, and sends none to the daemon', async () => {
  const { sql } = server.services;
  const workspace = await make('orphans');
  const first = await takeJob(server);
  await completeJob(server.services, first, done(first, state(5, ['a'])));
  // without a daemon that may take the deletion, it is done immediately
  const daemon = await insertDaemon(server, 'there', tagged({}));
  const orphan = async () => {
    const made = await build(workspace, { transition: 'delete', orphan: true });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.equal(made.body.job.status, 'pending');
    return made.body.id;
  };
  const canceled = await orphan();
  assert.equal((await server.api('PATCH', `/workspacebuilds/${canceled}/cancel`)).status, 200);
  await orphan();
  const failing = await takeJob(server);
  await failJob(server.services, failing, failed(failing, EMPTY));
  await build(workspace, { transition: 'start' });
  const next = await takeJob(server);
  assert.deepEqual(
    await stored(next),
    readState(state(5, ['a'])),
    'the resources that were not deleted are still known',
  );
  await completeJob(server.services, next, done(next, state(6, ['a'])));
  await orphan();
  const last = await takeJob(server);
  const { type } = await acquiredJobMessage(server.services, last.job);
  assert.equal(type.case === 'workspaceBuild' && type.value.state.length, 0, 'there is nothing to destroy for it');
  await completeJob(server.services, last, done(last, EMPTY));
  const { status, deleted } = await buildOf(last);
  assert.deepEqual([status, deleted], ['succeeded', true]);
  assert.equal((await stored(last))?.serial, 6, 'the abandoned resources can be found');
  await sql`DELETE FROM provisioner_daemons WHERE id = ${daemon.id}`;
});

test('fuzz: the stored state stays complete and only grows under partial writes in any order, concurrently', async () => {
  let seed = 14;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };
  const workspace = await make('fuzz');
  let own = await takeJob(server);
  let serial = 0;
  let known = 0;
  const names: string[] = [];
  for (let round = 0; round < 150; round++) {
    if (random(3) > 0) names.push(`r${round}`);
    const whole = state(++serial, names);
    const cut = () => whole.subarray(0, random(whole.length));
    const mixed = () => Buffer.concat([whole.subarray(0, random(whole.length)), Buffer.alloc(random(64))]);
    const sent = [cut(), cut(), mixed(), EMPTY, state(Math.max(0, serial - 2), []), ...(random(2) ? [whole] : [])];
    const answers = await Promise.all(
      sent
        .sort(() => random(3) - 1)
        .map((bytes) => checkpoint(server.services, own, { state: bytes, inFlight: names.slice(-1) })),
    );
    assert.ok(answers.every(Boolean));
    if (sent.includes(whole)) known = serial;
    const now = await stored(own);
    if (known > 0) assert.ok(now && now.serial >= known && now.lineage === 'line', `round ${round}`);
    if (round % 10 < 9) continue;
    const end = [cut(), mixed(), EMPTY][random(3)]!;
    await (random(2)
      ? completeJob(server.services, own, done(own, end))
      : failJob(server.services, own, failed(own, end)));
    const after = await stored(own);
    assert.ok((after?.serial ?? 0) >= known, `round ${round}: ${after?.serial} < ${known}`);
    await build(workspace, { transition: 'start' });
    own = await takeJob(server);
    assert.deepEqual(await stored(own), after, 'the next build begins with it');
  }
  assert.ok(known > 50);
});

test('a rejected state counts once if its transaction runs again', async () => {
  const { sql } = server.services;
  const workspace = await make('again');
  const first = await takeJob(server);
  await completeJob(server.services, first, done(first, state(5, ['a'])));
  const foreign = state(9, ['a'], 'another');
  // no rollback resets the sequence
  await sql.unsafe(`CREATE SEQUENCE attempts;
    CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval('attempts') % 2 = 1 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER fault BEFORE INSERT ON orphan_states FOR EACH ROW EXECUTE FUNCTION fault()`);
  const again = async (send: (own: Ownership, counted: JobObserver) => Promise<unknown>) => {
    await build(workspace, { transition: 'start' });
    const own = await takeJob(server);
    const counted = observer();
    await send(own, counted);
    return { own, seen: counted.seen };
  };
  try {
    const complete = await again((own, counted) => completeJob(server.services, own, done(own, foreign), counted));
    assert.deepEqual(complete.seen, ['complete foreign_lineage']);
    const fail = await again((own, counted) => failJob(server.services, own, failed(own, foreign), counted));
    assert.deepEqual(fail.seen, ['fail foreign_lineage']);
    const delivery = { state: state(10, ['a'], 'third') };
    const delivered = observer();
    assert.equal(await deliverState(server.services, fail.own, delivery, delivered), 'orphaned');
    assert.deepEqual(delivered.seen, ['delivery foreign_lineage']);
    const [row] = await sql<{ last_value: number }[]>`SELECT last_value FROM attempts`;
    assert.equal(Number(row!.last_value), 6, 'each ran twice');
  } finally {
    await sql.unsafe('DROP TRIGGER fault ON orphan_states; DROP FUNCTION fault; DROP SEQUENCE attempts');
  }
});
