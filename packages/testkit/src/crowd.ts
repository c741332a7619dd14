import type { Sql, Tx } from '@ropewalk/server/db/connect';

/** Of each owner. */
const OWNED = 50;
const TEMPLATES = 5;

/** People, templates and workspaces, of which every third is stopped, as builds leave them. */
export async function fillWorkspaces(pool: Sql, templateId: string, workspaces: number): Promise<void> {
  await pool.begin((sql) => fillIn(sql, templateId, workspaces));
}

async function fillIn(sql: Tx, templateId: string, workspaces: number): Promise<void> {
  const owners = workspaces / OWNED;
  await sql`INSERT INTO users (id, username, email, login_type, hashed_password)
    SELECT gen_random_uuid(), 'person-' || n, 'person-' || n || '@example.com', 'password', '' FROM generate_series(1, ${owners}) n`;
  await sql`INSERT INTO organization_members (organization_id, user_id)
    SELECT o.id, u.id FROM organizations o, users u WHERE o.is_default AND u.username LIKE 'person-%'`;
  await sql`INSERT INTO templates SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid(), 'name', 'template-' || n))).*
    FROM templates t, generate_series(1, ${TEMPLATES}) n WHERE t.id = ${templateId}`;
  await sql`CREATE TEMPORARY TABLE crowd AS SELECT n, gen_random_uuid() AS workspace, gen_random_uuid() AS job,
    gen_random_uuid() AS resource, gen_random_uuid() AS agent FROM generate_series(1, ${workspaces}) n`;
  await sql`INSERT INTO workspaces (id, owner_id, organization_id, template_id, name)
    SELECT c.workspace, u.id, t.organization_id, t.id, 'workspace-' || c.n FROM crowd c
    JOIN users u ON u.username = 'person-' || (1 + c.n % ${owners}) JOIN templates t ON t.name = 'template-' || (1 + c.n % ${TEMPLATES})`;
  await sql`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, started_at, completed_at)
    SELECT c.job, j.organization_id, j.initiator_id, 'workspace_build', j.file_id, '{}', now(), now()
    FROM crowd c, (SELECT * FROM provisioner_jobs LIMIT 1) j`;
  await sql`INSERT INTO workspace_builds (workspace_id, template_version_id, build_number, transition, initiator_id, job_id)
    SELECT c.workspace, t.active_version_id, 1, CASE WHEN c.n % 3 = 0 THEN 'stop' ELSE 'start' END, t.created_by, c.job
    FROM crowd c, templates t WHERE t.id = ${templateId}`;
  await sql`INSERT INTO workspace_resources (id, job_id, transition, type, name) SELECT resource, job, 'start', 'vm', 'machine' FROM crowd`;
  await sql`INSERT INTO workspace_agents (id, resource_id, name, auth_token, architecture, operating_system)
    SELECT agent, resource, 'main', gen_random_uuid(), 'amd64', 'linux' FROM crowd`;
  await sql`INSERT INTO workspace_apps (id, agent_id, slug, url, health) SELECT gen_random_uuid(), agent, 'app', 'http://localhost', 'disabled' FROM crowd`;
}
