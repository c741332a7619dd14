import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { freshDatabase } from '@ropewalk/testkit';
import { systemTask, verifiedDaemon } from '../authz/proofs.ts';
import { connect, type Sql } from './connect.ts';
import { migrate } from './migrate.ts';
import { purgeStats, purgeUsage } from './queries/agent-reports.ts';
import { unfinishedBuildJobs } from './queries/builds.ts';
import { acquireJob } from './queries/job-queue.ts';
import { dueWorkspaces } from './queries/schedules.ts';
import { workspaceByName } from './queries/workspaces.ts';

const WORKSPACES = 20_000;
const PENDING_JOBS = 5_000;

let database: Awaited<ReturnType<typeof freshDatabase>>;
/** A connection as for lookups, whose plans are made without the values. */
let sql: Sql;
const ownerId = crypto.randomUUID();

before(async () => {
  database = await freshDatabase({ forServer: true });
  sql = connect(database.url, { max: 1 });
  await migrate(sql, silentLogger);
  // without the rows that these refer to
  await sql`SET session_replication_role = replica`;
  const organizationId = crypto.randomUUID();
  const templateId = crypto.randomUUID();
  await sql`INSERT INTO workspaces (owner_id, organization_id, template_id, name, deleted)
    SELECT ${ownerId}, ${organizationId}, ${templateId}, 'w' || n, n % 2 = 0 FROM generate_series(1, ${WORKSPACES}) n`;
  await sql`INSERT INTO workspace_usage (workspace_id, start_time) SELECT id, date_trunc('hour', now()) FROM workspaces`;
  await sql`INSERT INTO workspace_agent_stats (agent_id, workspace_id, created_at)
    SELECT gen_random_uuid(), id, now() FROM workspaces`;
  await sql`INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, tags, started_at, completed_at)
    SELECT ${organizationId}, ${ownerId}, 'template_version_import', gen_random_uuid(), '{}', '{}', now(), now()
    FROM generate_series(1, ${WORKSPACES})`;
  await sql`ANALYZE`;
});
after(async () => {
  await sql.end();
  await database.drop();
});

/** The number of rows of a table that this connection has read one after the other, without an index. */
async function readThrough(table: string): Promise<number> {
  await sql`SELECT pg_stat_force_next_flush()`;
  const [row] = await sql`SELECT seq_tup_read AS rows FROM pg_stat_user_tables WHERE relname = ${table}`;
  return row!['rows'];
}

const task = systemTask({ actor: { kind: 'system', name: 'test' } });
const lookups: Record<string, [table: string, look: () => Promise<unknown>]> = {
  'a workspace by its name': [
    'workspaces',
    () => workspaceByName(sql, { ownerId, name: 'w7', deleted: false }, ownerId),
  ],
  'due workspaces': ['workspaces', () => dueWorkspaces(sql, new Date(), 100)],
  'builds that have not ended': ['provisioner_jobs', () => unfinishedBuildJobs(sql)],
  'old statistics': ['workspace_agent_stats', () => purgeStats(sql, task, { days: 180, most: 2_000 })],
  'old usage': ['workspace_usage', () => purgeUsage(sql, task, { days: 410, most: 2_000 })],
};
for (const [what, [table, look]] of Object.entries(lookups)) {
  test(`finds ${what} by an index`, async () => {
    await look();
    const before = await readThrough(table);
    await look();
    assert.ok((await readThrough(table)) - before < WORKSPACES / 2);
  });
}

test('takes a job with a plan from when few were pending, and reads few of those that became pending since', async () => {
  const organizationId = crypto.randomUUID();
  const post = (count: number, tags: Record<string, string>) => sql`
    INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, tags)
    SELECT ${organizationId}, ${ownerId}, 'template_version_import', gen_random_uuid(), '{}', ${sql.json(tags)}
    FROM generate_series(1, ${count})`;
  const tags = { scope: 'organization', owner: '' };
  const worker = verifiedDaemon({ id: crypto.randomUUID(), organizationId, provisioners: ['terraform'], tags });
  const take = () => acquireJob(sql, { worker, tagSets: [tags], leaseMs: 60_000 });
  await post(2, tags);
  await take();
  await post(PENDING_JOBS, { ...tags, other: 'yes' });
  const readByIndexes = async () => {
    await sql`SELECT pg_stat_force_next_flush()`;
    const [row] =
      await sql`SELECT sum(idx_tup_read) AS rows FROM pg_stat_user_indexes WHERE relname = 'provisioner_jobs'`;
    return Number(row!['rows']);
  };
  const [before, scanned] = [await readByIndexes(), await readThrough('provisioner_jobs')];
  assert.ok(await take());
  assert.ok((await readByIndexes()) - before < 100);
  assert.ok((await readThrough('provisioner_jobs')) - scanned < 100);
});
