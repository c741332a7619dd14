// The rows of a deployment, as people and builds leave them: people with a session, and workspaces with an agent each.
import { hashPassword } from '@ropewalk/server/app/user/password';
import { newToken } from '@ropewalk/server/app/values/token';
import type { Sql } from '@ropewalk/server/db/connect';

/** Values of metadata of each agent, as upstream's templates commonly request. */
export const KEYS = 3;

export interface Person {
  id: string;
  username: string;
  email: string;
  token: string;
}

export interface Machine {
  /** The workspace. */
  id: string;
  name: string;
  ownerId: string;
  agentId: string;
  /** The agent's token. */
  token: string;
}

export interface WorkspaceRows {
  count: number;
  /** Owners, in turn. Default: the creator of the template. */
  owners?: readonly Person[];
  /** Default `w`: names are `w-1`, `w-2` and so on. */
  prefix?: string;
  /** A stopped workspace has no agent. */
  transition?: 'start' | 'stop';
}

/** The password of every person. */
export const PASSWORD = 'correct horse battery';

/** Members of the default organization, each with a session of a day. */
export async function insertPeople(sql: Sql, count: number): Promise<Person[]> {
  const hash = await hashPassword(PASSWORD);
  const tokens = Array.from({ length: count }, () => newToken());
  const rows = await sql<
    { id: string; n: number }[]
  >`INSERT INTO users (id, username, email, login_type, hashed_password)
    SELECT gen_random_uuid(), 'member-' || n, 'member-' || n || '@example.com', 'password', ${hash}
    FROM generate_series(1, ${count}) n RETURNING id, substr(username, 8)::int AS n`;
  const ids = rows.toSorted((a, b) => a.n - b.n).map(({ id }) => id);
  await sql`INSERT INTO organization_members (organization_id, user_id)
    SELECT o.id, u.id FROM organizations o, unnest(${ids}::uuid[]) AS u (id) WHERE o.is_default`;
  await sql`INSERT INTO api_keys (id, user_id, hashed_secret, login_type, lifetime_seconds, expires_at)
    SELECT k.id, k.user_id, decode(k.secret, 'hex'), 'password', 86400, now() + interval '1 day'
    FROM unnest(${tokens.map(({ id }) => id)}::text[], ${ids}::uuid[],
      ${tokens.map(({ hashedSecret }) => hashedSecret.toString('hex'))}::text[]) AS k (id, user_id, secret)`;
  return ids.map((id, i) => ({
    id,
    username: `member-${i + 1}`,
    email: `member-${i + 1}@example.com`,
    token: tokens[i]!.text,
  }));
}

/** Workspaces with one build. `sql` has a single connection, which keeps the temporary table. */
export async function insertWorkspaces(
  sql: Sql,
  template: string,
  { count, owners = [], prefix = 'w', transition = 'start' }: WorkspaceRows,
): Promise<Machine[]> {
  const ids = owners.map(({ id }) => id);
  await sql`DROP TABLE IF EXISTS crowd`;
  await sql`CREATE TEMPORARY TABLE crowd AS SELECT n, gen_random_uuid() AS workspace, gen_random_uuid() AS job,
    gen_random_uuid() AS resource, gen_random_uuid() AS agent, gen_random_uuid() AS token,
    coalesce((${ids}::uuid[])[1 + (n - 1) % nullif(${ids.length}::int, 0)], t.created_by) AS owner
    FROM generate_series(1, ${count}) n, templates t WHERE t.id = ${template}`;
  await sql`INSERT INTO workspaces (id, owner_id, organization_id, template_id, name)
    SELECT c.workspace, c.owner, t.organization_id, t.id, ${prefix}::text || '-' || c.n FROM crowd c, templates t WHERE t.id = ${template}`;
  await sql`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, tags, started_at, completed_at)
    SELECT c.job, j.organization_id, c.owner, 'workspace_build', j.file_id, '{}', j.tags, now(), now()
    FROM crowd c, (SELECT j.* FROM provisioner_jobs j JOIN template_versions v ON v.job_id = j.id
      JOIN templates t ON t.active_version_id = v.id WHERE t.id = ${template}) j`;
  await sql`INSERT INTO workspace_builds (workspace_id, template_version_id, build_number, transition, initiator_id, job_id)
    SELECT c.workspace, t.active_version_id, 1, ${transition}::text, c.owner, c.job FROM crowd c, templates t WHERE t.id = ${template}`;
  if (transition === 'start') await insertAgents(sql);
  return sql<
    Machine[]
  >`SELECT workspace AS id, ${prefix}::text || '-' || n AS name, owner AS "ownerId", agent AS "agentId", token
    FROM crowd ORDER BY n`;
}

async function insertAgents(sql: Sql): Promise<void> {
  await sql`INSERT INTO workspace_resources (id, job_id, transition, type, name)
    SELECT resource, job, 'start', 'vm', 'machine' FROM crowd`;
  await sql`INSERT INTO workspace_agents (id, resource_id, name, auth_token, architecture, operating_system)
    SELECT agent, resource, 'main', token, 'amd64', 'linux' FROM crowd`;
  await sql`INSERT INTO workspace_agent_metadata (workspace_agent_id, key, script, interval_seconds)
    SELECT agent, 'key-' || k, 'true', 10 FROM crowd, generate_series(1, ${KEYS}) k`;
  await sql`INSERT INTO workspace_apps (id, agent_id, slug, url, healthcheck_url, healthcheck_interval, health)
    SELECT gen_random_uuid(), agent, 'app', 'http://localhost', 'http://localhost', 10, 'initializing' FROM crowd`;
}
