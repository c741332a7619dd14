import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@platform/kit';
import { freshDatabase } from '@platform/testkit/postgres';
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
