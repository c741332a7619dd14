import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connect } from '@platform/server/db/connect';
import { createTestTemplate, eventually, fillWorkspaces, startTestServer, type TestServer } from '@platform/testkit';
import { type ServerProcess, startCoderServer } from './harness.ts';

// Two servers share a database. The one that starts the due workspaces is killed in the middle of it.

const WORKSPACES = 150;
/** Every third workspace of the crowd is stopped. */
const STOPPED = WORKSPACES / 3;
/** Promised is 5 s. A busy test machine gets more. */
const REPLACED_MS = 15_000;
const SECOND = 'second_server';

let filling: TestServer;
const servers: ServerProcess[] = [];
before(async () => {
  filling = await startTestServer();
});
after(async () => {
  for (const server of servers) await server.stop();
  await filling.stop();
});

test('a killed server loses no due start and another server takes over, each once', async () => {
  const { sql, config } = filling.services;
  const template = await createTestTemplate(filling, 'base');
  await sql`UPDATE templates SET allow_user_autostart = false`;
  await fillWorkspaces(sql, template.id, WORKSPACES);
  await sql`UPDATE users SET status = 'active'`;
  await sql`UPDATE workspaces SET template_id = ${template.id}, autostart_schedule = 'CRON_TZ=UTC 0 9 * * *'`;
  // one server has a name of its own, which shows who holds the lock
  const password = crypto.randomUUID();
  await sql.unsafe(`DROP ROLE IF EXISTS ${SECOND}`);
  await sql.unsafe(`CREATE ROLE ${SECOND} SUPERUSER LOGIN PASSWORD '${password}'`);
  const secondUrl = new URL(config.postgresUrl);
  secondUrl.username = SECOND;
  secondUrl.password = password;
  const start = (url: string) =>
    startCoderServer({ env: { CODER_PG_CONNECTION_URL: url, CODER_PROVISIONER_DAEMONS: '0' } });
  const [first, second] = await Promise.all([start(config.postgresUrl), start(secondUrl.href)]);
  servers.push(first!, second!);
  // this process also runs a scheduler: it must not do the work of the two
  await filling.close();
  const direct = connect(config.postgresUrl, { max: 1 });
  try {
    await direct`UPDATE workspaces SET next_start_at = now() - interval '10 seconds'`;
    await direct`UPDATE templates SET allow_user_autostart = true WHERE id = ${template.id}`;
    await direct`UPDATE workspaces SET next_start_at = now() - interval '10 seconds', due_at = '-infinity'`;
    const begun = async () =>
      (await direct<{ count: number }[]>`SELECT count(*) FROM workspace_builds WHERE reason = 'autostart'`)[0]!.count;
    await eventually('some starts', async () => (await begun()) >= STOPPED / 5);
    const [holder] = await direct<
      { usename: string }[]
    >`SELECT a.usename FROM pg_locks l JOIN pg_stat_activity a USING (pid)
      WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
        AND l.objid = (hashtext('schedules')::bigint & 4294967295)::oid`;
    const leader = holder?.usename === SECOND ? second! : first!;
    const atKill = await begun();
    assert.ok(atKill < STOPPED, 'some are left');
    const killed = performance.now();
    await leader.kill();
    await eventually('a start by the other server', async () => (await begun()) > atKill);
    assert.ok(performance.now() - killed < REPLACED_MS);
    await eventually('all starts', async () => (await begun()) >= STOPPED);
    const each = await direct<{ builds: number; workspaces: number }[]>`
      SELECT builds, count(*) AS workspaces FROM (SELECT w.id, count(b.id) FILTER (WHERE b.reason = 'autostart') AS builds
        FROM workspaces w LEFT JOIN workspace_builds b ON b.workspace_id = w.id GROUP BY w.id) each
      GROUP BY builds ORDER BY builds`;
    assert.deepEqual(
      [...each],
      [
        { builds: 0, workspaces: WORKSPACES - STOPPED },
        { builds: 1, workspaces: STOPPED },
      ],
    );
  } finally {
    await direct.end({ timeout: 5 });
  }
});
