import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { firstRuns, insertPerson, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { insertDaemon } from '../app/job/testing/daemons.ts';
import { verifiedDaemon } from '../authz/proofs.ts';
import { BUILT_IN_KEY_ID, PSK_KEY_ID, USER_AUTH_KEY_ID } from '../db/queries/daemons.ts';
import { finishJob } from '../db/queries/job-ownership.ts';
import { acquireJob } from '../db/queries/job-queue.ts';
import { purgeAgentLogs, purgeDaemons, purgeRecords, purgeReports, purgeTasks } from './purge.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer({
    env: {
      CODER_AUDIT_LOGS_RETENTION: '2h',
      CODER_CONNECTION_LOGS_RETENTION: '90d',
      CODER_WORKSPACE_AGENT_LOGS_RETENTION: '7d',
      CODER_API_KEYS_RETENTION: '7d',
    },
  });
  await firstRuns(server, ...purgeTasks(server.services).map(({ name }) => name));
});
after(() => server.stop());

test('daemons unseen for a week and those of deleted keys go, unless they run a job', async () => {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const [key] = await sql<{ id: string }[]>`
    INSERT INTO provisioner_keys (organization_id, name, hashed_secret) VALUES (${organization!.id}, 'live', '') RETURNING id`;
  const gone = crypto.randomUUID();
  const tags = { scope: 'organization', owner: '' };
  /** Ages as intervals of Postgres; `seen` null for never. */
  const daemon = async (name: string, keyId: string, created: string, seen: string | null) => {
    const row = await insertDaemon(server, name, tags, { key_id: keyId, credential: keyId });
    await sql`UPDATE provisioner_daemons SET created_at = now() - ${created}::interval,
      last_seen_at = now() - ${seen}::interval WHERE id = ${row.id}`;
    return row;
  };
  const run = async (workerId: string) => {
    await pendingVersion(server);
    const job = await acquireJob(sql, {
      worker: verifiedDaemon({
        id: workerId,
        organizationId: organization!.id,
        provisioners: ['terraform'],
        tags,
      }),
      leaseMs: 60_000,
    });
    assert.ok(job);
    return verifiedDaemon({ jobId: job.id, workerId, epoch: job.acquire_epoch });
  };
  await daemon('seen', BUILT_IN_KEY_ID, '30 days', '1 second');
  await daemon('nearly a week', USER_AUTH_KEY_ID, '30 days', '6 days 23 hours 59 minutes');
  await daemon('a week', PSK_KEY_ID, '30 days', '7 days 1 minute');
  await daemon('never seen, new', PSK_KEY_ID, '6 days 23 hours 59 minutes', null);
  await daemon('never seen, old', PSK_KEY_ID, '7 days 1 minute', null);
  await daemon('of a live key', key!.id, '30 days', '1 second');
  await daemon('of a live key, a week', key!.id, '30 days', '8 days');
  await daemon('of a deleted key', gone, '1 second', '1 second');
  const ended = await daemon('of a deleted key, worked', gone, '1 second', '1 second');
  const busy = await daemon('of a deleted key, works', gone, '1 second', '1 second');
  const away = await daemon('a week, works', PSK_KEY_ID, '30 days', '8 days');
  await finishJob(sql, await run(ended.id), {});
  const jobs = [await run(busy.id), await run(away.id)];

  const left = async () =>
    (await sql<{ name: string }[]>`SELECT name FROM provisioner_daemons ORDER BY name`).map(({ name }) => name);
  const stay = ['nearly a week', 'never seen, new', 'of a live key', 'seen'];
  assert.equal(await purgeDaemons(server.services), 5);
  assert.deepEqual(await left(), [...stay, 'a week, works', 'of a deleted key, works'].sort());
  for (const own of jobs) await finishJob(sql, own, {});
  assert.equal(await purgeDaemons(server.services), 2);
  assert.deepEqual(await left(), stay);
  assert.equal(await purgeDaemons(server.services), 0);
});

test('old statistics and connections go, newer ones stay', async () => {
  const { sql } = server.services;
  const [agent] = await sql<{ id: string; workspace_id: string; organization_id: string; owner_id: string }[]>`
    WITH person AS (SELECT id FROM users LIMIT 1), place AS (SELECT id FROM organizations WHERE is_default),
    job AS (SELECT id FROM provisioner_jobs LIMIT 1), version AS (SELECT id FROM template_versions LIMIT 1),
    template AS (INSERT INTO templates (organization_id, name, active_version_id, created_by)
      SELECT place.id, 'purged', version.id, person.id FROM place, version, person RETURNING id),
    workspace AS (INSERT INTO workspaces (owner_id, organization_id, template_id, name)
      SELECT person.id, place.id, template.id, 'purged' FROM person, place, template RETURNING *),
    resource AS (INSERT INTO workspace_resources (job_id, transition, type, name)
      SELECT id, 'start', 'vm', 'machine' FROM job RETURNING id)
    INSERT INTO workspace_agents (id, resource_id, name, auth_token, architecture, operating_system)
      SELECT gen_random_uuid(), resource.id, 'main', gen_random_uuid(), 'amd64', 'linux' FROM resource
    RETURNING id, (SELECT id FROM workspace) AS workspace_id, (SELECT id FROM place) AS organization_id,
      (SELECT id FROM person) AS owner_id`;
  const { id, workspace_id: workspace, organization_id: organization, owner_id: owner } = agent!;
  for (const days of [1, 179, 181]) {
    await sql`INSERT INTO workspace_agent_stats (agent_id, workspace_id, created_at)
      VALUES (${id}, ${workspace}, now() - ${days} * interval '1 day')`;
  }
  for (const days of [1, 89, 91]) {
    await sql`INSERT INTO audit_logs (time, resource_type, resource_id, action, status_code)
      VALUES (now() - ${days} * interval '1 day', 'user', ${owner}, 'purged', 200)`;
    await sql`INSERT INTO connection_logs (id, connect_time, organization_id, workspace_owner_id, workspace_id,
        workspace_name, agent_name, type)
      VALUES (gen_random_uuid(), now() - ${days} * interval '1 day', ${organization}, ${owner}, ${workspace}, 'purged', 'main', 'ssh')`;
  }
  assert.equal(await purgeReports(server.services), 1);
  assert.equal(await purgeRecords(server.services), 4);
  const [left] = await sql`SELECT (SELECT count(*) FROM workspace_agent_stats) AS stats,
    (SELECT count(*) FROM connection_logs) AS connections,
    (SELECT count(*) FROM audit_logs WHERE action = 'purged') AS audit`;
  assert.deepEqual(left, { stats: 2, connections: 2, audit: 0 });
  assert.equal(await purgeReports(server.services), 0);
});

test('old logs of agents go in batches, except those of the latest build', async () => {
  const { sql } = server.services;
  const [agent] = await sql<{ id: string; resource_id: string; workspace_id: string }[]>`
    SELECT a.id, a.resource_id, (SELECT id FROM workspaces WHERE name = 'purged') AS workspace_id
    FROM workspace_agents a JOIN workspace_agent_stats s ON s.agent_id = a.id LIMIT 1`;
  const { id, resource_id: resource, workspace_id: workspace } = agent!;
  const build = (number: number, job: string) => sql`
    INSERT INTO workspace_builds (workspace_id, template_version_id, build_number, transition, initiator_id, job_id, reason)
    SELECT ${workspace}, v.id, ${number}, 'start', u.id, ${job}, 'initiator' FROM template_versions v, users u LIMIT 1`;
  const [first] = await sql<{ job_id: string }[]>`SELECT job_id FROM workspace_resources WHERE id = ${resource}`;
  await build(1, first!.job_id);
  const lines = 5_000;
  await sql`INSERT INTO workspace_agent_logs (agent_id, log_source_id, output)
    SELECT ${id}, gen_random_uuid(), 'line ' || n FROM generate_series(1, ${lines}) n`;
  await sql`UPDATE workspace_agents SET logs_length = 100, last_connected_at = now() - interval '6 days' WHERE id = ${id}`;
  await sql`ANALYZE workspace_agent_logs`;
  const old = () => sql`UPDATE workspace_agents SET last_connected_at = now() - interval '8 days' WHERE id = ${id}`;
  assert.equal(await purgeAgentLogs(server.services), 0, 'connected within the week');
  await old();
  assert.equal(await purgeAgentLogs(server.services), 0, 'of the latest build');
  const next = await pendingVersion(server);
  await build(2, next.job.id);
  const stop = new AbortController();
  stop.abort();
  assert.equal(await purgeAgentLogs(server.services, stop.signal), 0, 'the server ends');
  assert.equal(await purgeAgentLogs(server.services), lines);
  const [left] = await sql`SELECT logs_length FROM workspace_agents WHERE id = ${id}`;
  assert.equal(left!['logs_length'], 0);
  assert.equal(await purgeAgentLogs(server.services), 0);
  const kept = { ...server.services, config: { ...server.services.config, workspaceAgentLogsRetention: 0 } };
  await sql`UPDATE workspace_agents SET logs_length = 100 WHERE id = ${id}`;
  assert.equal(await purgeAgentLogs(kept), 0);
});

test('expired sessions go after a week', async () => {
  const { sql } = server.services;
  const { token } = await insertPerson(server, 'signed-out');
  const key = token.split('-')[0]!;
  const expired = (interval: string) =>
    sql`UPDATE api_keys SET expires_at = now() - ${interval}::interval WHERE id = ${key}`;
  const count = async () => (await sql`SELECT 1 FROM api_keys WHERE id = ${key}`).length;
  await expired('6 days');
  await purgeRecords(server.services);
  assert.equal(await count(), 1);
  await expired('8 days');
  await purgeRecords(server.services);
  assert.equal(await count(), 0);
  assert.equal((await server.api('GET', '/users/me')).status, 200);
});
