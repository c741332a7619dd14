// What people use, from the minutes of use that agents' statistics leave in workspace_usage. A person is the owner of the
// workspaces: minutes in which several of them are used count once.

import type { TemplateVersionParameterOption } from '@ropewalk/contract';
import type { Db } from '../connect.ts';

/** From a time to before another one, of these templates. Null: all. */
export interface InsightsScope {
  from: Date;
  to: Date;
  templateIds: string[] | null;
}

/** The half hours of use in a scope, with `ssh`, `vscode`, `jetbrains`, `reconnecting_pty` and `apps` as minutes. */
const used = (db: Db, { from, to, templateIds }: InsightsScope) => db`
  SELECT w.owner_id, w.template_id, start_time, bit_or(ssh) AS ssh, bit_or(vscode) AS vscode,
    bit_or(jetbrains) AS jetbrains, bit_or(reconnecting_pty) AS reconnecting_pty, bit_or(apps) AS apps,
    sum(latency_sum) AS latency_sum, sum(latency_count) AS latency_count
  FROM (
    SELECT workspace_id, start_time, ssh, vscode, jetbrains, reconnecting_pty, 0 AS apps, latency_sum, latency_count
    FROM workspace_usage WHERE start_time >= ${from} AND start_time < ${to}
    UNION ALL
    SELECT workspace_id, start_time, 0, 0, 0, 0, minutes, 0, 0
    FROM workspace_app_usage WHERE start_time >= ${from} AND start_time < ${to}) each
  JOIN workspaces w ON w.id = each.workspace_id
  WHERE ${templateIds}::uuid[] IS NULL OR w.template_id = ANY(${templateIds}::uuid[])
  GROUP BY w.owner_id, w.template_id, start_time`;

/**
 * The seconds, and how often use began, by `kind`: from rows of owner, template, half hour, kind and minutes. A use that
 * goes on from the previous half hour began there.
 */
const summed = (db: Db, rows: ReturnType<typeof used>) => db`
  SELECT kind, sum(usage_minutes(minutes))::bigint * 60 AS seconds,
    sum(usage_minutes(minutes & ~(minutes << 1)))::bigint
      - count(*) FILTER (WHERE minutes & 1 = 1 AND before >> 29 & 1 = 1) AS times_used,
    array_agg(DISTINCT template_id) AS template_ids
  FROM (
    SELECT rows.*, CASE WHEN lag(start_time) OVER earlier = start_time - interval '30 minutes'
      THEN lag(minutes) OVER earlier ELSE 0 END AS before
    FROM (${rows}) rows WHERE minutes <> 0
    WINDOW earlier AS (PARTITION BY owner_id, template_id, kind ORDER BY start_time)) with_before
  GROUP BY kind`;

export interface KindUsage {
  kind: string;
  seconds: number;
  times_used: number;
  template_ids: string[];
}

/** The use of sessions by kind: `ssh`, `vscode`, `jetbrains` and `reconnecting_pty`. */
export async function builtinUsage(db: Db, scope: InsightsScope): Promise<KindUsage[]> {
  return db<KindUsage[]>`${summed(
    db,
    db`SELECT owner_id, template_id, start_time, kind, minutes FROM (${used(db, scope)}) u
      CROSS JOIN LATERAL (VALUES ('ssh', ssh), ('vscode', vscode), ('jetbrains', jetbrains),
        ('reconnecting_pty', reconnecting_pty)) AS kinds (kind, minutes)`,
  )}`;
}

export interface AppUsage extends KindUsage {
  display_name: string | null;
  icon: string | null;
}

/** The use of apps by slug. Name and icon are those of a template's active version. */
export async function appUsage(db: Db, { from, to, templateIds }: InsightsScope): Promise<AppUsage[]> {
  const rows = db`
    SELECT w.owner_id, w.template_id, a.start_time, a.slug AS kind, bit_or(a.minutes) AS minutes
    FROM workspace_app_usage a JOIN workspaces w ON w.id = a.workspace_id
    WHERE a.start_time >= ${from} AND a.start_time < ${to}
      AND (${templateIds}::uuid[] IS NULL OR w.template_id = ANY(${templateIds}::uuid[]))
    GROUP BY 1, 2, 3, 4`;
  return db<AppUsage[]>`
    SELECT s.*, named.display_name, named.icon FROM (${summed(db, rows)}) s
    LEFT JOIN LATERAL (
      SELECT app.display_name, app.icon FROM templates t JOIN template_versions v ON v.id = t.active_version_id
      JOIN workspace_resources r ON r.job_id = v.job_id JOIN workspace_agents g ON g.resource_id = r.id
      JOIN workspace_apps app ON app.agent_id = g.id
      WHERE t.id = ANY(s.template_ids) AND app.slug = s.kind ORDER BY t.name LIMIT 1) named ON true
    ORDER BY seconds DESC, kind`;
}

export interface IntervalUsers {
  active_users: number;
  template_ids: string[];
}

/** The number of people, and the templates of their workspaces, in each interval that begins at one of these times. */
export async function usersByInterval(
  db: Db,
  scope: InsightsScope,
  intervals: readonly { from: Date; to: Date }[],
): Promise<IntervalUsers[]> {
  return db<IntervalUsers[]>`
    SELECT count(DISTINCT u.owner_id) AS active_users,
      coalesce(array_agg(DISTINCT u.template_id) FILTER (WHERE u.template_id IS NOT NULL), '{}') AS template_ids
    FROM unnest(${intervals.map(({ from }) => from.toISOString())}::text[]::timestamptz[],
      ${intervals.map(({ to }) => to.toISOString())}::text[]::timestamptz[]) AS i (from_time, to_time)
    LEFT JOIN (${used(db, scope)}) u ON u.start_time >= i.from_time AND u.start_time < i.to_time
    GROUP BY i.from_time ORDER BY i.from_time`;
}

export interface ParameterUsage {
  name: string;
  display_name: string;
  description: string;
  type: string;
  options: TemplateVersionParameterOption[];
  template_ids: string[];
  values: { value: string; count: number }[];
}

/** The values of parameters in the latest start of each workspace in a scope, at most `most` values of each. */
export async function parameterUsage(
  db: Db,
  { from, to, templateIds }: InsightsScope,
  most: number,
): Promise<ParameterUsage[]> {
  return db<ParameterUsage[]>`
    WITH latest AS (
      SELECT DISTINCT ON (b.workspace_id) b.id, b.template_version_id, w.template_id
      FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id
      WHERE b.created_at >= ${from} AND b.created_at < ${to} AND b.transition = 'start'
        AND (${templateIds}::uuid[] IS NULL OR w.template_id = ANY(${templateIds}::uuid[]))
      ORDER BY b.workspace_id, b.build_number DESC),
    counted AS (
      SELECT p.name, p.display_name, p.description, p.type, p.options, v.value, count(*) AS count,
        array_agg(DISTINCT l.template_id) AS template_ids
      FROM latest l JOIN workspace_build_parameters v ON v.workspace_build_id = l.id
      JOIN template_version_parameters p ON p.template_version_id = l.template_version_id AND p.name = v.name
      WHERE NOT p.ephemeral GROUP BY 1, 2, 3, 4, 5, 6),
    ranked AS (
      SELECT *, row_number() OVER (PARTITION BY name, display_name, description, type, options
        ORDER BY count DESC, value) AS rank FROM counted)
    SELECT name, display_name, description, type, options,
      (SELECT array_agg(DISTINCT id) FROM unnest(string_to_array(string_agg(array_to_string(template_ids, ','), ','), ',')::uuid[]) AS id)
        AS template_ids,
      jsonb_agg(jsonb_build_object('value', value, 'count', count) ORDER BY rank) FILTER (WHERE rank <= ${most}) AS values
    FROM ranked GROUP BY name, display_name, description, type, options ORDER BY name, type`;
}

export interface UserUsage {
  user_id: string;
  username: string;
  avatar_url: string;
  seconds: number;
  template_ids: string[];
}

/** How long each person used workspaces, by name. */
export async function usageByUser(db: Db, scope: InsightsScope): Promise<UserUsage[]> {
  return db<UserUsage[]>`
    WITH halves AS (${used(db, scope)}),
    merged AS (
      SELECT owner_id, start_time, bit_or(ssh | vscode | jetbrains | reconnecting_pty | apps) AS minutes
      FROM halves GROUP BY 1, 2)
    SELECT x.id AS user_id, x.username, x.avatar_url, sum(usage_minutes(minutes))::bigint * 60 AS seconds,
      (SELECT array_agg(DISTINCT template_id) FROM halves WHERE halves.owner_id = x.id) AS template_ids
    FROM merged JOIN users x ON x.id = merged.owner_id GROUP BY x.id ORDER BY x.username`;
}

export interface UserLatencies {
  user_id: string;
  username: string;
  avatar_url: string;
  p50: number;
  p95: number;
  template_ids: string[];
}

/** The latency of each person's connections, from the means of half hours, by name. */
export async function latencyByUser(db: Db, scope: InsightsScope): Promise<UserLatencies[]> {
  return db<UserLatencies[]>`
    SELECT x.id AS user_id, x.username, x.avatar_url, array_agg(DISTINCT template_id) AS template_ids,
      percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_sum / latency_count) AS p50,
      percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_sum / latency_count) AS p95
    FROM (${used(db, scope)}) u JOIN users x ON x.id = u.owner_id
    WHERE latency_count > 0 GROUP BY x.id ORDER BY x.username`;
}

/** How the number of accounts with a status changed on a day. */
export interface StatusDelta {
  /** YYYY-MM-DD in the requested zone. */
  day: string;
  status: string;
  delta: number;
}

/** All changes of the numbers of accounts by status, by day of a time zone `offset` hours east of UTC. */
export async function statusDeltas(db: Db, offset: number): Promise<StatusDelta[]> {
  return db<StatusDelta[]>`
    WITH changes AS (
      SELECT status, to_char(changed_at AT TIME ZONE 'UTC' + ${offset} * interval '1 hour', 'YYYY-MM-DD') AS day,
        lag(status) OVER (PARTITION BY user_id ORDER BY changed_at) AS before
      FROM user_status_changes)
    SELECT day, status, sum(delta)::int AS delta FROM (
      SELECT day, status, 1 AS delta FROM changes
      UNION ALL SELECT day, before, -1 FROM changes WHERE before IS NOT NULL) each
    WHERE status <> 'deleted' GROUP BY day, status ORDER BY day`;
}

export interface DayBuildTimes {
  date: string;
  count: number;
  /** In ms. */
  p50: number;
  p95: number;
}

/** The durations of successful starts of the last 60 days, by the day that they ended, `offset` hours east of UTC. */
export async function buildTimesByDay(db: Db, offset: number): Promise<DayBuildTimes[]> {
  return db<DayBuildTimes[]>`
    SELECT to_char(ended AT TIME ZONE 'UTC' + ${offset} * interval '1 hour', 'YYYY-MM-DD') AS date, count(*) AS count,
      percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50, percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95
    FROM (
      SELECT j.completed_at AS ended, extract(epoch FROM j.completed_at - j.started_at) * 1000 AS ms
      FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id
      WHERE b.transition = 'start' AND j.job_status = 'succeeded' AND b.created_at > now() - interval '60 days') starts
    GROUP BY 1 ORDER BY 1`;
}
