// What people use at the moment, by template, for metrics.
import type { Sql } from '../connect.ts';

interface OfTemplate {
  template_name: string;
  organization_name: string;
}

export interface RecentUsage extends OfTemplate {
  active_users: number;
  /** Seconds of use by kind of session. */
  sessions: Record<'ssh' | 'vscode' | 'jetbrains' | 'reconnecting_pty', number>;
  apps: { slug: string; display_name: string; seconds: number }[];
}

export interface RecentParameter extends OfTemplate {
  parameter_name: string;
  parameter_type: string;
  parameter_value: string;
  count: number;
}

/**
 * The use of templates since a time at most half an hour ago, and the parameters of workspaces that started since.
 * Minutes in which a person uses several workspaces of a template count once.
 */
export async function readRecentUsage(
  sql: Sql,
  since: Date,
  most: number,
): Promise<{ usage: RecentUsage[]; parameters: RecentParameter[] }> {
  return sql.begin('READ ONLY', async (tx) => {
    const usage = await tx<RecentUsage[]>`
      WITH each AS (
        SELECT workspace_id, start_time, '' AS slug, ssh, vscode, jetbrains, reconnecting_pty, 0 AS app
        FROM workspace_usage WHERE start_time > ${since}::timestamptz - interval '30 minutes'
        UNION ALL
        SELECT workspace_id, start_time, slug, 0, 0, 0, 0, minutes
        FROM workspace_app_usage WHERE start_time > ${since}::timestamptz - interval '30 minutes'),
      -- the minutes of the half hour that are not before the time
      recent AS (
        SELECT *, -1 << greatest(0, floor(extract(epoch FROM ${since}::timestamptz - start_time) / 60))::integer AS mask FROM each),
      by_person AS (
        SELECT w.template_id, w.owner_id, start_time, slug, bit_or(ssh & mask) AS ssh, bit_or(vscode & mask) AS vscode,
          bit_or(jetbrains & mask) AS jetbrains, bit_or(reconnecting_pty & mask) AS reconnecting_pty,
          bit_or(app & mask) AS app
        FROM recent JOIN workspaces w ON w.id = workspace_id GROUP BY 1, 2, 3, 4),
      by_slug AS (
        SELECT template_id, slug, array_agg(DISTINCT owner_id) AS owners,
          sum(usage_minutes(ssh)) * 60 AS ssh, sum(usage_minutes(vscode)) * 60 AS vscode,
          sum(usage_minutes(jetbrains)) * 60 AS jetbrains, sum(usage_minutes(reconnecting_pty)) * 60 AS reconnecting_pty,
          sum(usage_minutes(app)) * 60 AS app
        FROM by_person WHERE ssh | vscode | jetbrains | reconnecting_pty | app <> 0 GROUP BY 1, 2)
      SELECT t.name AS template_name, o.name AS organization_name,
        (SELECT count(DISTINCT owner) FROM by_slug s, unnest(s.owners) AS owner WHERE s.template_id = t.id)::int AS active_users,
        jsonb_build_object('ssh', sum(ssh), 'vscode', sum(vscode), 'jetbrains', sum(jetbrains),
          'reconnecting_pty', sum(reconnecting_pty)) AS sessions,
        coalesce(jsonb_agg(jsonb_build_object('slug', slug, 'seconds', app, 'display_name', coalesce((
          SELECT a.display_name FROM template_versions v JOIN workspace_resources r ON r.job_id = v.job_id
          JOIN workspace_agents g ON g.resource_id = r.id JOIN workspace_apps a ON a.agent_id = g.id
          WHERE v.id = t.active_version_id AND a.slug = b.slug LIMIT 1), '')) ORDER BY slug)
          FILTER (WHERE slug <> ''), '[]') AS apps
      FROM by_slug b JOIN templates t ON t.id = b.template_id JOIN organizations o ON o.id = t.organization_id
      GROUP BY t.id, o.name ORDER BY t.name LIMIT ${most}`;
    const parameters = await tx<RecentParameter[]>`
      SELECT t.name AS template_name, o.name AS organization_name, p.name AS parameter_name, p.type AS parameter_type,
        v.value AS parameter_value, count(*)::int AS count
      FROM (
        SELECT DISTINCT ON (b.workspace_id) b.id, b.template_version_id, w.template_id
        FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id
        WHERE b.created_at >= ${since} AND b.transition = 'start'
        ORDER BY b.workspace_id, b.build_number DESC) latest
      JOIN workspace_build_parameters v ON v.workspace_build_id = latest.id
      JOIN template_version_parameters p ON p.template_version_id = latest.template_version_id AND p.name = v.name
      JOIN templates t ON t.id = latest.template_id JOIN organizations o ON o.id = t.organization_id
      WHERE NOT p.ephemeral GROUP BY 1, 2, 3, 4, 5 ORDER BY count DESC LIMIT ${most}`;
    return { usage, parameters };
  });
}
