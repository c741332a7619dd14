import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { eventually, freshDatabase } from '@ropewalk/testkit';
import { connect } from './connect.ts';
import { createEvents } from './events.ts';
import { watchQueries } from './query-times.ts';

test('sends events that are published together in one or two statements, each once, to every server', async () => {
  const database = await freshDatabase();
  const here = connect(database.url, { max: 2 });
  const there = connect(database.url, { max: 2 });
  const publisher = await createEvents(here, silentLogger, { beatMs: 60_000 });
  const other = await createEvents(there, silentLogger);
  const seen: string[] = [];
  const forgotten: string[] = [];
  other.on('agent_logs', ({ agent_id: id }) => seen.push(id));
  publisher.onPublish('agent_logs', ({ agent_id: id }) => forgotten.push(id));
  let statements = 0;
  const stop = watchQueries(here, (statement) => {
    if (statement === 'select unnest') statements++;
    return undefined;
  });
  const ids = Array.from({ length: 500 }, (_, n) => `agent-${n}`);
  for (const id of ids) publisher.publishSoon('agent_logs', { agent_id: id });
  publisher.publishSoon('agent_logs', { agent_id: ids[0]! });
  assert.equal(forgotten.length, 501, 'caches of this server drop entries immediately');
  await eventually('all have arrived', async () => seen.length >= ids.length);
  assert.deepEqual(seen, ids);
  stop();
  assert.equal(statements, 1);
  publisher.publishSoon('agent_logs', { agent_id: 'last' });
  // events published before the close are still sent
  await publisher.close();
  await eventually('the last one has arrived', async () => seen.includes('last'));
  await other.close();
  await Promise.all([here.end(), there.end()]);
  await database.drop();
});

test('waits for the disk with the events of a transaction, and not with others', async () => {
  const database = await freshDatabase();
  const admin = connect(database.url, { max: 1 });
  // stands before PostgreSQL's own function, and stores how the statement commits
  await admin`CREATE SCHEMA spy`;
  await admin`CREATE TABLE spy.commits (waits text)`;
  await admin.unsafe(`CREATE FUNCTION spy.pg_notify(text, text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO spy.commits VALUES (current_setting('synchronous_commit'));
    SELECT pg_catalog.pg_notify($1, $2) $$`);
  await admin.unsafe(
    `ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET search_path = spy, pg_catalog, public`,
  );
  const sql = connect(database.url, { max: 2 });
  const events = await createEvents(sql, silentLogger, { beatMs: 60_000 });
  const commits = async () =>
    (await admin<{ waits: string }[]>`SELECT waits FROM spy.commits`).map(({ waits }) => waits);
  events.publishSoon('agent_logs', { agent_id: 'soon' });
  await eventually('it is sent', async () => (await commits()).length === 1);
  await sql.begin((tx) => events.publish(tx, 'agent_logs', { agent_id: 'with a transaction' }));
  assert.deepEqual(await commits(), ['off', 'on']);
  await events.close();
  await Promise.all([sql.end(), admin.end()]);
  await database.drop();
});

test('sends the events of a transaction in one statement when it commits, and none when it does not', async () => {
  const database = await freshDatabase();
  const sql = connect(database.url, { max: 1 });
  const events = await createEvents(sql, silentLogger, { beatMs: 60_000 });
  const seen: string[] = [];
  events.on('agent_logs', ({ agent_id: id }) => seen.push(id));
  await sql`SELECT 1`;
  const statements: string[] = [];
  const stop = watchQueries(sql, (statement) => void statements.push(statement));
  await sql.begin(async (tx) => {
    await events.publish(tx, 'agent_logs', { agent_id: 'first' });
    await events.publish(tx, 'agent_logs', { agent_id: 'second' });
    assert.deepEqual(statements, ['begin'], 'nothing is sent yet');
  });
  stop();
  assert.deepEqual(statements, ['begin', 'select unnest', 'commit']);
  const failed = sql.begin(async (tx) => {
    await events.publish(tx, 'agent_logs', { agent_id: 'lost' });
    throw new Error('it fails');
  });
  await assert.rejects(failed, /it fails/);
  await events.publish(sql, 'agent_logs', { agent_id: 'third' });
  await eventually('the last one has arrived', async () => seen.includes('third'));
  assert.deepEqual(seen, ['first', 'second', 'third']);
  await events.close();
  await sql.end();
  await database.drop();
});

test('delivers every one of very many concurrent events', async () => {
  const database = await freshDatabase();
  const sql = connect(database.url, { max: 2 });
  const events = await createEvents(sql, silentLogger);
  const received = { users: [] as string[], keys: [] as string[] };
  events.on('revoked', ({ user_ids = [], api_key_ids = [] }) => {
    received.users.push(...user_ids);
    received.keys.push(...api_key_ids);
  });
  const users = Array.from({ length: 450 }, () => crypto.randomUUID());
  const keys = Array.from({ length: 250 }, (_, n) => `key-${n}`);
  await sql.begin((tx) => events.publish(tx, 'revoked', { user_ids: users, api_key_ids: keys }));
  await eventually('all have arrived', async () => received.users.length + received.keys.length === 700);
  assert.deepEqual(received, { users, keys });
  await events.close();
  await sql.end();
  await database.drop();
});

test('a server without notifications checks on a timer until they arrive again', async () => {
  const database = await freshDatabase();
  const sql = connect(database.url, { max: 2 });
  let arrives = false;
  const deaf = new Proxy(sql, {
    get(target, name, self) {
      if (name !== 'listen') return Reflect.get(target, name, self);
      const listen: typeof sql.listen = (channel, receive, ready) =>
        target.listen(channel, (text) => arrives && receive(text), ready);
      return listen;
    },
  });
  const events = await createEvents(deaf, silentLogger, { beatMs: 20 });
  let looks = 0;
  events.onResync(() => looks++);
  await eventually('it has checked more than once', async () => looks > 2);
  arrives = true;
  let before = -1;
  await eventually('it checks no more', async () => {
    const same = looks === before;
    before = looks;
    if (!same) await new Promise((resolve) => setTimeout(resolve, 200));
    return same;
  });
  await events.close();
  await sql.end();
  await database.drop();
});
