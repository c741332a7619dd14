import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { authorize } from '../../authz/authorize.ts';
import { verifiedDaemon } from '../../authz/proofs.ts';
import { connect, type Sql } from '../../db/connect.ts';
import { migrate } from '../../db/migrate.ts';
import { acquireJob, insertJob } from '../../db/queries/job-queue.ts';
import { matches, mutateTags, runnableTagSets, type Tags, tagDifference, UNTAGGED } from './tags.ts';

let sql: Sql;
let drop: () => Promise<void>;
before(async () => {
  const database = await freshDatabase();
  drop = database.drop;
  sql = connect(database.url);
  await migrate(sql, silentLogger);
  await sql`INSERT INTO users (username, email, login_type) VALUES ('u', 'u@example.com', 'none')`;
  await sql`INSERT INTO files (hash, mimetype, data, created_by) SELECT '', '', '', id FROM users`;
});
after(async () => {
  await sql.end();
  await drop();
});

interface Row {
  provisioner_tags: Tags;
  job_tags: Tags;
  same_org: boolean;
  can_run: boolean;
}
/** Upstream's table. */
const TABLE = JSON.parse(readFileSync(new URL('tag-match-table.json', import.meta.url), 'utf8')) as Row[];

const org = (more: Tags = {}): Tags => ({ ...UNTAGGED, ...more });
const user = (owner: string, more: Tags = {}): Tags => ({ scope: 'user', owner, ...more });

async function inSql(daemon: Tags, job: Tags): Promise<boolean> {
  const [row] = await sql<
    { match: boolean }[]
  >`SELECT provisioner_tags_match(${sql.json(daemon)}, ${sql.json(job)}) AS match`;
  return row!.match;
}

const SYSTEM = { actor: { kind: 'system', name: 'test' } } as const;

/** Whether the queue's own statement gives a job with the `wanted` tags to a daemon with the `daemon` tags. */
async function handsOut(daemon: Tags, wanted: Tags, options: { sameOrg?: boolean; tagSets?: boolean } = {}) {
  const [made] = await sql<{ organization_id: string; initiator_id: string; file_id: string }[]>`
    WITH o AS (INSERT INTO organizations (name, display_name) VALUES (${crypto.randomUUID()}, '') RETURNING id),
      u AS (SELECT id FROM users LIMIT 1), f AS (SELECT id FROM files LIMIT 1)
    SELECT o.id AS organization_id, u.id AS initiator_id, f.id AS file_id FROM o, u, f`;
  const { organization_id: organizationId, ...job } = made!;
  const place = authorize(SYSTEM, 'create', { type: 'template', organizationId });
  const { id } = await insertJob(sql, place, {
    id: crypto.randomUUID(),
    type: 'template_version_import',
    input: {},
    tags: wanted,
    ...job,
  });
  const taken = await acquireJob(sql, {
    worker: verifiedDaemon({
      id: crypto.randomUUID(),
      organizationId: options.sameOrg === false ? crypto.randomUUID() : made!.organization_id,
      provisioners: ['terraform'],
      tags: daemon,
    }),
    tagSets: options.tagSets === false ? undefined : runnableTagSets(daemon),
    leaseMs: 1_000,
  });
  assert.ok(!taken || taken.id === id);
  return taken !== undefined;
}

test('code, SQL and the queue agree with upstream on which daemon may run which job', async () => {
  assert.equal(TABLE.length, 21);
  for (const { provisioner_tags: daemon, job_tags: job, same_org: sameOrg, can_run: may } of TABLE) {
    const what = `${JSON.stringify(job)} on ${JSON.stringify(daemon)}, same organization: ${sameOrg}`;
    assert.equal(sameOrg && matches(job, daemon), may, what);
    assert.equal(sameOrg && (await inSql(daemon, job)), may, `SQL: ${what}`);
    assert.equal(await handsOut(daemon, job, { sameOrg }), may, `queue: ${what}`);
    if (sameOrg) assert.equal(tagDifference(job, daemon) === undefined, may, `difference: ${what}`);
  }
});

test('code, SQL and queue agree on random tags', async () => {
  let seed = 7;
  const random = (n: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return (seed >> 8) % n;
  };
  const tags = (): Tags => {
    const out = random(3) === 0 ? user(['aaa', 'bbb'][random(2)]!) : org();
    for (const key of ['a', 'b', 'c']) if (random(2)) out[key] = ['1', '2', ''][random(3)]!;
    return out;
  };
  let matching = 0;
  for (let i = 0; i < 400; i++) {
    const [daemon, job] = [tags(), tags()];
    const what = `${JSON.stringify(job)} on ${JSON.stringify(daemon)}`;
    const may = matches(job, daemon);
    if (may) matching++;
    assert.equal(await inSql(daemon, job), may, what);
    assert.equal(tagDifference(job, daemon) === undefined, may, what);
    const sets = runnableTagSets(daemon)!.map((set) => JSON.stringify(Object.entries(set).sort()));
    assert.equal(sets.includes(JSON.stringify(Object.entries(job).sort())), may, what);
    if (i % 4 === 0) assert.equal(await handsOut(daemon, job), may, what);
  }
  assert.ok(matching > 20, `${matching} of 400 match`);
});

test('a daemon with too many tags for a lookup by sets still gets its jobs', async () => {
  const many = org(Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`k${i}`, 'v'])));
  assert.equal(runnableTagSets(many), undefined);
  assert.equal(await handsOut(many, org({ k3: 'v', k7: 'v' })), true);
  assert.equal(await handsOut(many, org()), false);
  assert.equal(await handsOut(many, org({ k3: 'w' })), false);
});

test('tagDifference lists each tag that a daemon lacks', () => {
  assert.deepEqual(tagDifference(org({ a: '1', b: '2' }), org({ b: '3', c: '4' })), {
    missing: { a: '1' },
    different: { b: { wanted: '2', has: '3' } },
    taken_for_tagged_jobs: false,
  });
  assert.deepEqual(tagDifference(org(), org({ a: '1' })), {
    missing: {},
    different: {},
    taken_for_tagged_jobs: true,
  });
});

test('merges tags left to right, never overwrites with empty values, and normalizes scope and owner', () => {
  assert.deepEqual(mutateTags('u1', {}), UNTAGGED);
  assert.deepEqual(mutateTags('u1', { scope: 'user', owner: 'someone' }), { scope: 'user', owner: 'u1' });
  assert.deepEqual(mutateTags('u1', { scope: 'nonsense', owner: 'u1' }), UNTAGGED);
  assert.deepEqual(mutateTags('u1', { a: '1' }, { a: '' }, { b: '2' }), org({ a: '1', b: '2' }));
  assert.throws(() => mutateTags('u1', { 'a\0': '1' }), /Invalid provisioner tags/);
  assert.throws(() => mutateTags('u1', { a: 'x'.repeat(7_000) }), /Invalid provisioner tags/);
  mutateTags('u1', { a: 'x'.repeat(6_900) });
});
