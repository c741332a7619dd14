import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { createTestTemplate, eventually, fillWorkspaces, startTestServer, type TestServer } from '@ropewalk/testkit';
import { type ServerProcess, startCoderServer } from './harness.ts';

// Two servers share a database. The one that starts the due workspaces is killed in the middle of it, or hangs.

const WORKSPACES = 150;
/** Every third workspace of the crowd is stopped. */
const STOPPED = WORKSPACES / 3;
/** All of them but one have a schedule. */
const STARTS = STOPPED - 1;
/** So many starts begin at the same time. The others wait at the gate. */
const FIRST_STARTS = 10;
/** The advisory lock of the gate. */
const GATE = 4711;
const REPLACED_MS = 5_000;
const SECOND = 'second_server';

let direct: Sql;
let filling: TestServer;
/** A stopped workspace that has no schedule at first. */
let late: string;
const servers: ServerProcess[] = [];
before(async () => {
  filling = await startTestServer();
  const { sql, config } = filling.services;
  direct = connect(config.postgresUrl, { max: 2 });
  const template = await createTestTemplate(filling, 'base');
  await sql`UPDATE templates SET allow_user_autostart = false`;
  await fillWorkspaces(sql, template.id, WORKSPACES);
  await sql`UPDATE users SET status = 'active'`;
  await sql`UPDATE workspaces SET template_id = ${template.id}, autostart_schedule = 'CRON_TZ=UTC 0 9 * * *'`;
  const [stopped] = await sql<{ id: string }[]>`UPDATE workspaces SET autostart_schedule = NULL WHERE id =
    (SELECT workspace_id FROM workspace_builds WHERE transition = 'stop' LIMIT 1) RETURNING id`;
  late = stopped!.id;
  // one server has its own name, which shows who holds the lock
  const password = crypto.randomUUID();
  await sql.unsafe(`DROP ROLE IF EXISTS ${SECOND}`);
  await sql.unsafe(`CREATE ROLE ${SECOND} SUPERUSER LOGIN PASSWORD '${password}'`);
  const secondUrl = new URL(config.postgresUrl);
  secondUrl.username = SECOND;
  secondUrl.password = password;
  const start = (url: string) =>
    startCoderServer({ env: { CODER_PG_CONNECTION_URL: url, CODER_PROVISIONER_DAEMONS: '0' } });
  servers.push(...(await Promise.all([start(config.postgresUrl), start(secondUrl.href)])));
  // this process also runs a scheduler: it must not do the work of the two
  await filling.close();
  await direct`UPDATE templates SET allow_user_autostart = true WHERE id = ${template.id}`;
});
after(async () => {
  await direct.end({ timeout: 5 });
  for (const server of servers) await server.stop();
  await filling.stop();
});

const begun = async () =>
  (await direct<{ count: number }[]>`SELECT count(*) FROM workspace_builds WHERE reason = 'autostart'`)[0]!.count;

/** The server that holds the lock of schedules now. */
async function lockHolder(): Promise<ServerProcess | undefined> {
  const [holder] = await direct<{ usename: string }[]>`
    SELECT a.usename FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
      AND l.objid = (hashtext('schedules')::bigint & 4294967295)::oid`;
  return holder && servers[holder.usename === SECOND ? 1 : 0];
}

/** Makes each further start wait in its transaction. Returns what lets them all go. */
async function closeGate(): Promise<() => Promise<void>> {
  const keeper = await direct.reserve();
  await keeper`SELECT pg_advisory_lock(${GATE})`;
  await keeper.unsafe(`
    CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF (SELECT count(*) FROM workspace_builds WHERE reason = 'autostart') >= ${FIRST_STARTS} THEN
          PERFORM pg_advisory_xact_lock_shared(${GATE});
        END IF;
        RETURN NEW;
      END $$;
    CREATE TRIGGER wait_at_gate BEFORE INSERT ON workspace_builds FOR EACH ROW EXECUTE FUNCTION wait_at_gate()`);
  return async () => {
    await keeper`SELECT pg_advisory_unlock(${GATE})`;
    keeper.release();
  };
}

test('a killed server loses no due start and another server takes over, each once', async () => {
  const openGate = await closeGate();
  await direct`UPDATE workspaces SET next_start_at = now() - interval '10 seconds'`;
  await eventually('some starts', async () => (await begun()) >= FIRST_STARTS);
  const leader = (await lockHolder()) ?? servers[0]!;
  const killed = performance.now();
  await leader.kill();
  const atKill = await begun();
  assert.ok(atKill < STARTS, 'some are left');
  await openGate();
  await eventually('a start by the other server', async () => (await begun()) > atKill);
  const tookMs = performance.now() - killed;
  assert.ok(tookMs < REPLACED_MS, `it took ${tookMs} ms`);
  await eventually('all starts', async () => (await begun()) >= STARTS);
  const each = await direct<{ builds: number; workspaces: number }[]>`
    SELECT builds, count(*) AS workspaces FROM (SELECT w.id, count(b.id) FILTER (WHERE b.reason = 'autostart') AS builds
      FROM workspaces w LEFT JOIN workspace_builds b ON b.workspace_id = w.id GROUP BY w.id) each
    GROUP BY builds ORDER BY builds`;
  assert.deepEqual(
    [...each],
    [
      { builds: 0, workspaces: WORKSPACES - STARTS },
      { builds: 1, workspaces: STARTS },
    ],
  );
  await direct`DROP TRIGGER wait_at_gate ON workspace_builds`;
  await leader.restart();
});

test('a server that hangs in the middle of a start is replaced, and the start happens once', async () => {
  const builds = async () =>
    (await direct<{ id: string }[]>`SELECT id FROM workspace_builds WHERE workspace_id = ${late}`).length;
  let leader: ServerProcess | undefined;
  let stopped = 0;
  // builds cannot be inserted meanwhile: the server waits in its transaction, with the locks of schedules and of the row
  await direct.begin(async (tx) => {
    await tx`LOCK TABLE workspace_builds IN SHARE ROW EXCLUSIVE MODE`;
    await direct`UPDATE workspaces SET autostart_schedule = 'CRON_TZ=UTC 0 9 * * *',
      next_start_at = now() - interval '30 seconds' WHERE id = ${late}`;
    await eventually(
      'the start waits',
      async () =>
        (
          await direct`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            AND query ILIKE '%INSERT INTO workspace_builds%'`
        ).length > 0,
    );
    leader = await eventually('the lock is held', lockHolder);
    leader.child.kill('SIGSTOP');
    stopped = performance.now();
  });
  await eventually('the start by the other server', async () => (await builds()) === 2);
  const tookMs = performance.now() - stopped;
  assert.ok(tookMs < REPLACED_MS, `it took ${tookMs} ms`);
  assert.notEqual(await lockHolder(), leader);
  // it goes on where it was
  leader!.child.kill('SIGCONT');
  await eventually('the server notices that it lost the lock', () =>
    leader!.log().includes('a background task failed'),
  );
  assert.equal((await leader!.api('GET', '/buildinfo')).status, 200);
  assert.equal(await builds(), 2);
});
