import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { UNTAGGED } from '../app/job/tags.ts';
import { verifiedDaemon } from '../authz/proofs.ts';
import { connect } from './connect.ts';
import { migrate } from './migrate.ts';
import { migrations } from './migrations/index.ts';
import { acquireJob } from './queries/job-queue.ts';

test('a job that was pending before the migration to turns and tag sets is handed out after it', async () => {
  const database = await freshDatabase();
  const sql = connect(database.url);
  try {
    await sql.unsafe(`CREATE TABLE schema_migrations (
      version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`);
    await sql.unsafe(migrations[0]!.text);
    await sql`INSERT INTO schema_migrations (version, name) VALUES (1, 'foundation')`;
    await sql`INSERT INTO users (username, email, login_type) VALUES ('u', 'u@example.com', 'none')`;
    await sql`INSERT INTO organizations (name) VALUES ('o')`;
    await sql`INSERT INTO files (hash, mimetype, data, created_by) SELECT '', '', '', id FROM users`;
    const [before] = await sql<{ id: string; organization_id: string }[]>`
      INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input)
      SELECT o.id, u.id, 'template_version_import', f.id, '{}' FROM organizations o, users u, files f
      RETURNING id, organization_id`;
    await migrate(sql, silentLogger);
    const taken = await acquireJob(sql, {
      worker: verifiedDaemon({
        id: crypto.randomUUID(),
        organizationId: before!.organization_id,
        provisioners: ['terraform'],
        tags: UNTAGGED,
      }),
      tagSets: [UNTAGGED],
      leaseMs: 1_000,
    });
    assert.equal(taken?.id, before!.id);
    await migrate(sql, silentLogger); // no migration left
  } finally {
    await sql.end();
    await database.drop();
  }
});

test('takes the end of the delete build as the time at which a workspace was deleted', async () => {
  const database = await freshDatabase();
  const sql = connect(database.url);
  try {
    await migrate(
      sql,
      silentLogger,
      migrations.filter(({ version }) => version < 37),
    );
    await sql.begin(async (tx) => {
      // rows without the ones that they refer to
      await tx`SET LOCAL session_replication_role = replica`;
      for (const [name, deleted, ended] of [
        ['built', true, '2026-01-02Z'],
        ['bare', true, null],
        ['living', false, '2026-01-02Z'],
      ] as const) {
        const build = ended === null ? null : crypto.randomUUID();
        const job = crypto.randomUUID();
        const [workspace] = await tx<{ id: string }[]>`
          INSERT INTO workspaces (owner_id, organization_id, template_id, name, deleted, updated_at, latest_build_id)
          VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), ${name}, ${deleted}, '2026-01-01Z', ${build})
          RETURNING id`;
        if (build === null) continue;
        await tx`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, completed_at)
          VALUES (${job}, gen_random_uuid(), gen_random_uuid(), 'workspace_build', gen_random_uuid(), '{}', ${ended})`;
        await tx`INSERT INTO workspace_builds (id, workspace_id, template_version_id, build_number, transition, initiator_id, job_id)
          VALUES (${build}, ${workspace!.id}, gen_random_uuid(), 1, 'delete', gen_random_uuid(), ${job})`;
      }
    });
    await migrate(sql, silentLogger);
    const rows = await sql`SELECT name, deleted_at, history FROM workspaces ORDER BY name`;
    assert.deepEqual(
      [...rows],
      [
        { name: 'bare', deleted_at: new Date('2026-01-01Z'), history: 'whole' },
        { name: 'built', deleted_at: new Date('2026-01-02Z'), history: 'whole' },
        { name: 'living', deleted_at: null, history: 'whole' },
      ],
    );
  } finally {
    await sql.end();
    await database.drop();
  }
});

test('summarizes the statistics and accounts from before the migration to insights', async () => {
  const database = await freshDatabase();
  const sql = connect(database.url);
  try {
    await migrate(
      sql,
      silentLogger,
      migrations.filter(({ version }) => version <= 12),
    );
    const workspace = crypto.randomUUID();
    await sql.begin(async (tx) => {
      // rows without the ones that they refer to
      await tx`SET LOCAL session_replication_role = replica`;
      await tx`INSERT INTO users (username, email, login_type, status, created_at)
        VALUES ('u', 'u@example.com', 'none', 'active', '2026-01-01Z')`;
      await tx`INSERT INTO workspaces (id, owner_id, organization_id, template_id, name)
        SELECT ${workspace}, id, gen_random_uuid(), gen_random_uuid(), 'w' FROM users`;
      for (const [at, ssh, latency] of [
        ['2026-01-02T10:31:10Z', 1, 20],
        ['2026-01-02T10:31:40Z', 2, 40],
        ['2026-01-02T10:59:59Z', 1, -1],
        ['2026-01-02T11:00:00Z', 0, -1],
      ] as const) {
        await tx`INSERT INTO workspace_agent_stats
            (agent_id, workspace_id, created_at, session_count_ssh, connection_median_latency_ms)
          VALUES (gen_random_uuid(), ${workspace}, ${at}, ${ssh}, ${latency})`;
      }
    });
    await migrate(sql, silentLogger);
    const usage =
      await sql`SELECT workspace_id, start_time, ssh, vscode, latency_sum, latency_count FROM workspace_usage`;
    assert.deepEqual(
      [...usage],
      [
        {
          workspace_id: workspace,
          start_time: new Date('2026-01-02T10:30:00Z'),
          ssh: (1 << 1) | (1 << 29),
          vscode: 0,
          latency_sum: 60,
          latency_count: 2,
        },
      ],
    );
    const changes = await sql`SELECT status, changed_at FROM user_status_changes`;
    assert.deepEqual([...changes], [{ status: 'active', changed_at: new Date('2026-01-01Z') }]);
  } finally {
    await sql.end();
    await database.drop();
  }
});
