import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@platform/kit';
import { freshDatabase } from '@platform/testkit/postgres';
import { connect, type Sql } from '../../db/connect.ts';
import { migrate } from '../../db/migrate.ts';
import { matches, mutateTags, type Tags, UNTAGGED } from './tags.ts';

let sql: Sql;
let drop: () => Promise<void>;
before(async () => {
  const database = await freshDatabase();
  drop = database.drop;
  sql = connect(database.url);
  await migrate(sql, silentLogger);
});
after(async () => {
  await sql.end();
  await drop();
});

const org = (more: Tags = {}): Tags => ({ ...UNTAGGED, ...more });
const user = (owner: string, more: Tags = {}): Tags => ({ scope: 'user', owner, ...more });
const PREM = { environment: 'on-prem' };
const CHICAGO = { ...PREM, datacenter: 'chicago' };

/** daemon's tags, job's tags, whether it may run there: the published table, within one organization. */
const TABLE: [Tags, Tags, boolean][] = [
  [org(), org(), true],
  [org(PREM), org(PREM), true],
  [org(CHICAGO), org(PREM), true],
  [org(CHICAGO), org(CHICAGO), true],
  [user('aaa'), user('aaa'), true],
  [user('aaa', PREM), user('aaa'), true],
  [user('aaa', PREM), user('aaa', PREM), true],
  [user('aaa', CHICAGO), user('aaa', PREM), true],
  [user('aaa', CHICAGO), user('aaa', CHICAGO), true],
  [org(), org(PREM), false],
  [org(PREM), org(), false],
  [org(PREM), org(CHICAGO), false],
  [org({ ...PREM, datacenter: 'new_york' }), org(CHICAGO), false],
  [user('aaa'), org(), false],
  [user('aaa'), user('bbb'), false],
  [org(), user('aaa'), false],
  [org(), user('aaa', PREM), false],
  [user('aaa'), user('aaa', PREM), false],
  [user('aaa', PREM), user('aaa', CHICAGO), false],
  [user('aaa', CHICAGO), user('aaa', { ...PREM, datacenter: 'new_york' }), false],
];

async function inSql(daemon: Tags, job: Tags): Promise<boolean> {
  const [row] = await sql<
    { match: boolean }[]
  >`SELECT provisioner_tags_match(${sql.json(daemon)}, ${sql.json(job)}) AS match`;
  return row!.match;
}

test('which daemon may run which job, in code and in SQL', async () => {
  for (const [daemon, job, may] of TABLE) {
    const what = `${JSON.stringify(job)} on ${JSON.stringify(daemon)}`;
    assert.equal(matches(job, daemon), may, what);
    assert.equal(await inSql(daemon, job), may, `SQL: ${what}`);
  }
});

test('code and SQL agree on random tags', async () => {
  let seed = 7;
  const random = (n: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % n;
  };
  const tags = (): Tags => {
    const out = random(3) === 0 ? user(['aaa', 'bbb'][random(2)]!) : org();
    for (const key of ['a', 'b']) if (random(2)) out[key] = ['1', '2', ''][random(3)]!;
    return out;
  };
  for (let i = 0; i < 200; i++) {
    const [daemon, job] = [tags(), tags()];
    assert.equal(await inSql(daemon, job), matches(job, daemon), `${JSON.stringify(job)} on ${JSON.stringify(daemon)}`);
  }
});

test('tags are merged left to right, empty values never overwrite, scope and owner are made consistent', () => {
  assert.deepEqual(mutateTags('u1', {}), UNTAGGED);
  assert.deepEqual(mutateTags('u1', { scope: 'user', owner: 'someone' }), { scope: 'user', owner: 'u1' });
  assert.deepEqual(mutateTags('u1', { scope: 'nonsense', owner: 'u1' }), UNTAGGED);
  assert.deepEqual(mutateTags('u1', { a: '1' }, { a: '' }, { b: '2' }), org({ a: '1', b: '2' }));
  assert.throws(() => mutateTags('u1', { 'a\0': '1' }), /Invalid provisioner tags/);
});
