import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestTemplate, firstRuns, startTestServer, type TestServer } from '@ropewalk/testkit';
import { buildTimesByDay, parameterUsage } from '../db/queries/insights.ts';
import { poolTotals } from '../db/queries/prebuilds.ts';
import { buildTimes } from '../db/queries/templates.ts';
import { purgeTasks } from './purge.ts';
import { purgeDeletedWorkspaces } from './purge-deleted.ts';

const DAY_MS = 86_400_000;

let server: TestServer;
let template: { id: string; active_version_id: string };
before(async () => {
  server = await startTestServer({ env: { CODER_DELETED_WORKSPACES_RETENTION: '30d' } });
  await firstRuns(server, ...purgeTasks(server.services).map(({ name }) => name));
  template = await createTestTemplate(server, 'base', {
    richParameters: [{ name: 'size', type: 'string', mutable: true }],
  });
});
after(() => server.stop());

interface Given {
  /** Days since the end of each build, with `!` for one that failed. */
  builds: [transition: 'start' | 'stop' | 'delete', days: number, failed?: '!'][];
  isDeleted: boolean;
  /** The number of lines of each job's log and of each agent's. */
  lines?: number;
  isPrebuilt?: boolean;
  /** Days since its deletion. Default: since the end of its last build. */
  deletedDays?: number;
}

/** A workspace whose builds each have a state, a log, timings, modules and a resource with an agent that has reported. */
async function workspace(
  name: string,
  { builds, isDeleted, lines = 3, isPrebuilt = false, deletedDays = builds.at(-1)![1] }: Given,
): Promise<string> {
  const { sql } = server.services;
  const [row] = await sql<{ id: string; owner_id: string; organization_id: string }[]>`
    INSERT INTO workspaces (owner_id, organization_id, template_id, name)
    SELECT created_by, organization_id, id, ${name} FROM templates WHERE id = ${template.id} RETURNING *`;
  const { id, owner_id: owner } = row!;
  for (const [n, [transition, days, failed]] of builds.entries()) {
    const [job] = await sql<{ id: string }[]>`
      INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, created_at, started_at, completed_at, error)
      SELECT organization_id, ${owner}, 'workspace_build', file_id, '{}', at, at, at + interval '1 second', ${failed ? 'no' : null}
      FROM provisioner_jobs, (SELECT now() - ${days} * interval '1 day' - interval '1 second' AS at) t LIMIT 1 RETURNING id`;
    const [build] = await sql<{ id: string }[]>`
      INSERT INTO workspace_builds (workspace_id, template_version_id, build_number, transition, initiator_id, job_id,
        provisioner_state, state_lineage, state_serial, created_at)
      SELECT ${id}, ${template.active_version_id}, ${n + 1}, ${transition}, ${owner}, id, ${Buffer.from(`state ${n + 1}`)},
        'lineage', ${n + 1}, created_at FROM provisioner_jobs WHERE id = ${job!.id} RETURNING id`;
    await sql`INSERT INTO workspace_build_parameters (workspace_build_id, name, value) VALUES (${build!.id}, 'size', 'large')`;
    await sql`INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
      SELECT ${job!.id}, now(), 'provisioner', 'info', 'Apply', 'line ' || n FROM generate_series(1, ${lines}::int) n`;
    await sql`INSERT INTO provisioner_job_timings (job_id, started_at, ended_at, stage, source, action, resource)
      VALUES (${job!.id}, now(), now(), 'apply', 'vm', 'create', 'machine')`;
    await sql`INSERT INTO workspace_modules (job_id, transition, source, version, key) VALUES (${job!.id}, 'start', 's', '1', 'k')`;
    const [agent] = await sql<{ id: string }[]>`WITH resource AS (
        INSERT INTO workspace_resources (job_id, transition, type, name) VALUES (${job!.id}, 'start', 'vm', 'machine') RETURNING id)
      INSERT INTO workspace_agents (id, resource_id, name, auth_token, architecture, operating_system)
      SELECT gen_random_uuid(), id, 'main', gen_random_uuid(), 'amd64', 'linux' FROM resource RETURNING id`;
    await sql`INSERT INTO workspace_agent_logs (agent_id, log_source_id, output)
      SELECT ${agent!.id}, gen_random_uuid(), 'line ' || n FROM generate_series(1, ${lines}::int) n`;
    await sql`INSERT INTO workspace_agent_stats (agent_id, workspace_id) VALUES (${agent!.id}, ${id})`;
    await sql`WITH script AS (INSERT INTO workspace_agent_scripts (workspace_agent_id, log_source_id, script)
        VALUES (${agent!.id}, gen_random_uuid(), 'true') RETURNING id)
      INSERT INTO workspace_agent_script_timings (script_id, started_at, ended_at, exit_code, stage, status)
      SELECT id, now(), now(), 0, 'start', 'ok' FROM script`;
    await sql`INSERT INTO audit_logs (resource_type, resource_id, action, status_code, user_id, organization_id)
      VALUES ('workspace_build', ${build!.id}, ${transition === 'delete' ? 'delete' : transition}, 200, ${owner}, ${row!.organization_id})`;
  }
  if (isPrebuilt) {
    await sql`WITH preset AS (INSERT INTO template_version_presets (template_version_id, name)
        VALUES (${template.active_version_id}, ${name}) RETURNING id)
      UPDATE workspaces w SET prebuilt_preset_id = preset.id FROM preset WHERE w.id = ${id}`;
  }
  if (isDeleted) {
    await sql`UPDATE workspaces SET deleted = true WHERE id = ${id}`;
    const [at] = await sql<{ recent: boolean }[]>`
      SELECT deleted_at > now() - interval '1 minute' AS recent FROM workspaces WHERE id = ${id}`;
    assert.equal(at!.recent, true, 'the deletion has a time');
    await sql`UPDATE workspaces SET deleted_at = now() - ${deletedDays} * interval '1 day' WHERE id = ${id}`;
  }
  return id;
}

/** What is left of a workspace, by build: `contents` counts the kinds of rows of its job that are left. */
async function left(
  id: string,
): Promise<{ number: number; state: string | null; contents: number; parameters: number }[]> {
  const rows = await server.services.sql<
    { number: number; state: string | null; contents: number; parameters: number }[]
  >`
    SELECT b.build_number AS number, convert_from(b.provisioner_state, 'UTF8') AS state,
      (SELECT count(*)::int FROM workspace_build_parameters p WHERE p.workspace_build_id = b.id) AS parameters,
      (EXISTS (SELECT FROM provisioner_job_logs WHERE job_id = b.job_id))::int
        + (EXISTS (SELECT FROM provisioner_job_timings WHERE job_id = b.job_id))::int
        + (EXISTS (SELECT FROM workspace_modules WHERE job_id = b.job_id))::int
        + (EXISTS (SELECT FROM workspace_resources WHERE job_id = b.job_id))::int AS contents
    FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id WHERE b.workspace_id = ${id} ORDER BY b.build_number`;
  return [...rows];
}
const whole = (builds: number) =>
  Array.from({ length: builds }, (_, n) => ({ number: n + 1, state: `state ${n + 1}`, contents: 4, parameters: 1 }));
const emptied = (number: number, state: string | null = null) => ({ number, state, contents: 0, parameters: 1 });

test('purges builds of workspaces that were deleted long ago, and nothing of others', async (t) => {
  const { sql } = server.services;
  const old: Given['builds'] = [
    ['start', 500],
    ['stop', 480],
    ['delete', 470],
  ];
  const living = await workspace('living', { builds: [...old.slice(0, 2), ['start', 460]], isDeleted: false });
  const failed = await workspace('failed', { builds: [...old.slice(0, 2), ['delete', 470, '!']], isDeleted: false });
  const recent = await workspace('recent', {
    builds: [
      ['start', 500],
      ['delete', 29],
    ],
    isDeleted: true,
  });
  const counted = await workspace('counted', {
    builds: [
      ['start', 40],
      ['stop', 35],
      ['delete', 31],
    ],
    isDeleted: true,
  });
  const gone = await workspace('gone', { builds: old, isDeleted: true });
  const pooled = await workspace('pooled', { builds: old, isDeleted: true, isPrebuilt: true });
  const orphaned = await workspace('orphaned', { builds: old, isDeleted: true });
  await sql`INSERT INTO orphan_states (workspace_build_id, state, serial, lineage, reason)
    SELECT id, 'orphan', 1, 'lineage', 'late' FROM workspace_builds WHERE workspace_id = ${orphaned} AND build_number = 2`;

  const now = Date.now();
  const scope = { from: new Date(now - 400 * DAY_MS), to: new Date(now), templateIds: [template.id] };
  const seen = async () => ({
    audit: [...(await sql`SELECT id, resource_id, action FROM audit_logs ORDER BY id`)],
    parameters: await parameterUsage(sql, scope, 10),
    // of the last 60 and the last 30 days
    days: await buildTimesByDay(sql, 0),
    template: await buildTimes(sql, [template.id]),
    pools: await poolTotals(sql),
  });
  const before = await seen();
  assert.deepEqual(before.parameters[0]?.values, [{ value: 'large', count: 1 }]);
  assert.ok(
    before.audit.length >= 20 && before.days.length > 0 && before.template.length > 0 && before.pools.length > 0,
  );
  assert.equal(await purgeDeletedWorkspaces(server.services), 12);

  assert.deepEqual(await left(living), whole(3));
  assert.deepEqual(await left(failed), whole(3), 'the last state of a failed delete');
  assert.deepEqual(await left(recent), whole(2), 'deleted within the retention');
  assert.deepEqual(await left(counted), [emptied(1), emptied(2), emptied(3, 'state 3')], 'insights count its builds');
  assert.deepEqual(await left(gone), [emptied(3, 'state 3')]);
  assert.deepEqual(await left(pooled), [emptied(1), emptied(3, 'state 3')], 'figures of pools count the first build');
  assert.deepEqual(await left(orphaned), [emptied(2, 'state 2'), emptied(3, 'state 3')], 'with an orphan state');
  assert.deepEqual(await seen(), before);
  const [rows] = await sql<Record<string, number>[]>`SELECT
    (SELECT count(*)::int FROM workspace_agents a JOIN workspace_agent_stats s ON s.agent_id = a.id) AS stats,
    (SELECT count(DISTINCT agent_id)::int FROM workspace_agent_logs) AS logs,
    (SELECT count(*)::int FROM workspace_agent_script_timings) AS scripts,
    (SELECT count(*)::int FROM provisioner_jobs j WHERE type = 'workspace_build'
      AND NOT EXISTS (SELECT FROM workspace_builds b WHERE b.job_id = j.id)) AS jobs`;
  assert.deepEqual(rows, { stats: 8, logs: 8, scripts: 8, jobs: 0 });

  const names = async (query: string) =>
    (await server.api<{ workspaces: { name: string }[] }>('GET', `/workspaces?q=${query}`)).body.workspaces.map(
      ({ name }) => name,
    );
  assert.deepEqual((await names('deleted:true')).sort(), ['counted', 'gone', 'orphaned', 'pooled', 'recent']);
  const found = await server.api<{ latest_build: { build_number: number; resources: unknown[] } }>(
    'GET',
    `/workspaces/${gone}?include_deleted=true`,
  );
  assert.deepEqual(
    [found.status, found.body.latest_build.build_number, found.body.latest_build.resources],
    [200, 3, []],
  );
  assert.equal((await server.api('GET', '/audit?limit=50')).status, 200);

  await t.test('a second run finds nothing', async () => {
    assert.equal(await purgeDeletedWorkspaces(server.services), 0);
  });
  await t.test('the builds go when insights no longer count them', async () => {
    await sql`UPDATE workspaces SET deleted_at = now() - interval '411 days' WHERE id = ${counted}`;
    await purgeDeletedWorkspaces(server.services);
    assert.deepEqual(await left(counted), [emptied(3, 'state 3')]);
  });
  await t.test('a retention of 0 keeps all', async () => {
    await sql`UPDATE workspaces SET deleted_at = now() - interval '9000 days' WHERE id = ${recent}`;
    const { services } = server;
    const kept = { ...services, config: { ...services.config, deletedWorkspacesRetention: 0 } };
    assert.equal(await purgeDeletedWorkspaces(kept), 0);
    assert.deepEqual(await left(recent), whole(2));
  });
});

test('deletes at most 2,000 rows with a statement, and continues after an interruption', async () => {
  const { sql } = server.services;
  const id = await workspace('large', {
    deletedDays: 0,
    builds: [
      ['start', 60],
      ['delete', 50],
    ],
    isDeleted: true,
    lines: 5_000,
  });
  // counts the rows of each statement
  await sql`CREATE TABLE purged (of text, count int)`;
  await sql.unsafe(`CREATE FUNCTION count_purged() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO purged SELECT TG_TABLE_NAME, count(*) FROM gone; RETURN NULL; END $$`);
  for (const table of ['provisioner_job_logs', 'workspace_agent_logs'])
    await sql.unsafe(`CREATE TRIGGER purged AFTER DELETE ON ${table} REFERENCING OLD TABLE AS gone
      FOR EACH STATEMENT EXECUTE FUNCTION count_purged()`);
  await purgeDeletedWorkspaces(server.services);
  await sql`UPDATE workspaces SET deleted_at = now() - interval '50 days' WHERE id = ${id}`;
  await sql`DELETE FROM purged`;
  const stop = new AbortController();
  stop.abort();
  await purgeDeletedWorkspaces(server.services, stop.signal);
  assert.deepEqual(await left(id), whole(2), 'the server ends');
  await purgeDeletedWorkspaces(server.services);
  assert.deepEqual(await left(id), [emptied(1), emptied(2, 'state 2')]);
  const statements = await sql<{ of: string; most: number; all: number }[]>`
    SELECT of, max(count) AS most, sum(count)::int AS all FROM purged GROUP BY of ORDER BY of`;
  assert.deepEqual(
    [...statements],
    ['provisioner_job_logs', 'workspace_agent_logs'].map((of) => ({ of, most: 2_000, all: 10_000 })),
  );
});

test('purges dry runs that ended before the retention, and no other job without a build', async () => {
  const { sql } = server.services;
  const job = async (type: string, days: number | undefined) => {
    const [row] = await sql<{ id: string }[]>`
      INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, started_at, completed_at)
      SELECT organization_id, initiator_id, ${type}, file_id, '{}', now(), now() - ${days ?? null}::int * interval '1 day'
      FROM provisioner_jobs LIMIT 1 RETURNING id`;
    await sql`INSERT INTO workspace_resources (job_id, transition, type, name) VALUES (${row!.id}, 'start', 'vm', 'machine')`;
    return row!.id;
  };
  const stay = [
    await job('template_version_dry_run', 29),
    await job('template_version_dry_run', undefined),
    await job('template_version_import', 900),
  ];
  const ids = [...stay, await job('template_version_dry_run', 31)];
  assert.equal(await purgeDeletedWorkspaces(server.services), 1);
  const found = await sql<{ id: string }[]>`SELECT id FROM provisioner_jobs WHERE id = ANY(${ids})`;
  assert.deepEqual(found.map(({ id }) => id).sort(), stay.sort());
});
