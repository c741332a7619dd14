// When running workspaces stop. app/schedule/times.ts has the rules.

import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { BuildRow, TemplateRow, WorkspaceRow } from '../rows.ts';
import type { OwnedBuild } from './build-states.ts';

/** What decides when a started workspace stops. */
export interface StopRules
  extends Pick<WorkspaceRow, 'owner_id' | 'ttl_ms' | 'autostart_schedule'>,
    Pick<
      TemplateRow,
      | 'default_ttl_ms'
      | 'allow_user_autostop'
      | 'allow_user_autostart'
      | 'autostart_days'
      | 'autostop_requirement_days'
      | 'autostop_requirement_weeks'
    > {
  /** Of the owner. Empty: the installation's. */
  quiet_hours_schedule: string;
}

const RULES = (db: Db) => db`w.owner_id, w.ttl_ms, w.autostart_schedule, t.default_ttl_ms, t.allow_user_autostop,
  t.allow_user_autostart, t.autostart_days, t.autostop_requirement_days, t.autostop_requirement_weeks,
  u.quiet_hours_schedule`;

/** The rules for the stop time of a build, and what the build does. */
export async function stopRulesOfBuild(
  db: Db,
  build: OwnedBuild,
): Promise<StopRules & { transition: BuildRow['transition'] }> {
  const [row] = await db<(StopRules & { transition: BuildRow['transition'] })[]>`
    SELECT ${RULES(db)}, b.transition FROM workspace_builds b
    JOIN workspaces w ON w.id = b.workspace_id JOIN templates t ON t.id = w.template_id JOIN users u ON u.id = w.owner_id
    WHERE b.id = ${build.build_id}`;
  return row!;
}

export interface RunningBuild extends StopRules {
  id: string;
  deadline: Date | null;
  max_deadline: Date | null;
  completed_at: Date;
}

/** The builds of a template's running workspaces, whose rows it locks. */
export async function runningBuildsOf(tx: Tx, { id }: Pick<TemplateRow, 'id'>): Promise<RunningBuild[]> {
  return tx<RunningBuild[]>`SELECT b.id, b.deadline, b.max_deadline, j.completed_at, ${RULES(tx)} FROM workspaces w
    JOIN workspace_builds b ON b.id = w.latest_build_id JOIN provisioner_jobs j ON j.id = b.job_id
    JOIN templates t ON t.id = w.template_id JOIN users u ON u.id = w.owner_id
    WHERE w.template_id = ${id} AND w.running AND NOT w.deleted ORDER BY w.id FOR UPDATE OF w`;
}

/** Replaces the stop times of builds of a template that the actor may change. */
export async function storeStopTimes(
  tx: Tx,
  template: Allowed<'update', Pick<TemplateRow, 'id'>>,
  builds: readonly Pick<RunningBuild, 'id' | 'deadline' | 'max_deadline'>[],
): Promise<void> {
  const time = (at: Date | null) => at?.toISOString() ?? null;
  await tx`UPDATE workspace_builds b SET deadline = v.deadline, max_deadline = v.most, updated_at = now()
    FROM unnest(${builds.map(({ id }) => id)}::uuid[],
      ${builds.map(({ deadline }) => time(deadline))}::text[]::timestamptz[],
      ${builds.map(({ max_deadline: most }) => time(most))}::text[]::timestamptz[]) AS v (id, deadline, most),
      workspaces w
    WHERE b.id = v.id AND w.id = b.workspace_id AND w.template_id = ${template.id}`;
}

/** Moves the deadline of a build. */
export async function setDeadline(db: Db, build: Allowed<'update', BuildRow>, deadline: Date): Promise<void> {
  await db`UPDATE workspace_builds SET deadline = ${deadline} WHERE id = ${build.id}`;
}

/** Removes the deadline of the latest build of a workspace, except the one that its template requires. */
export async function clearDeadline(db: Db, workspace: Allowed<'update', WorkspaceRow>): Promise<void> {
  await db`UPDATE workspace_builds SET deadline = max_deadline WHERE id =
    (SELECT latest_build_id FROM workspaces WHERE id = ${workspace.id})`;
}

/**
 * The part of `UPDATE workspace_builds b` that moves the deadlines of running workspaces because somebody uses them.
 * `busy` is a query of their ids. A deadline moves to the template's bump from now. If the workspace would start by its schedule before that, it
 * moves to the time to live after that start. It is not moved for less than a twentieth of the bump, which saves most
 * writes.
 */
export const bump = (db: Db, busy: ReturnType<Db>) => db`
  SET deadline = least(greatest(b.deadline, now() + used_now.by), b.max_deadline)
  FROM (SELECT w.latest_build_id AS id, CASE
      WHEN w.next_start_at > now() AND w.next_start_at < now() + t.activity_bump_ms * interval '1 millisecond'
        AND (CASE WHEN t.allow_user_autostop THEN w.ttl_ms ELSE t.default_ttl_ms END) > 0
      THEN w.next_start_at - now()
        + (CASE WHEN t.allow_user_autostop THEN w.ttl_ms ELSE t.default_ttl_ms END) * interval '1 millisecond'
      ELSE t.activity_bump_ms * interval '1 millisecond' END AS by
    FROM workspaces w JOIN templates t ON t.id = w.template_id
    WHERE w.id IN (${busy}) AND w.running AND t.activity_bump_ms > 0) used_now
  WHERE b.id = used_now.id AND b.deadline < now() + used_now.by * 0.95`;
