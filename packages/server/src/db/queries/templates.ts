import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import type { Allowed, ReadScope } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { TemplateRow, VersionRow } from '../rows.ts';

const NAMES = (db: Db) => db`o.name AS organization_name, o.display_name AS organization_display_name,
  o.icon AS organization_icon, c.username AS created_by_name
  FROM templates t JOIN organizations o ON o.id = t.organization_id JOIN users c ON c.id = t.created_by`;

/** Columns and tables of a `TemplateRow`, up to WHERE. */
const templateColumns = (db: Db) => db`t.*, ${NAMES(db)}`;

const LISTED = [
  'id',
  'organization_id',
  'name',
  'display_name',
  'description',
  'icon',
  'deprecated',
  'provisioner',
  'active_version_id',
  'created_by',
  'default_ttl_ms',
  'activity_bump_ms',
  'failure_ttl_ms',
  'time_til_autostop_notify_ms',
  'time_til_dormant_ms',
  'time_til_dormant_autodelete_ms',
  'autostop_requirement_days',
  'autostop_requirement_weeks',
  'autostart_days',
  'allow_user_cancel_workspace_jobs',
  'allow_user_autostart',
  'allow_user_autostop',
  'require_active_version',
  'use_classic_parameter_flow',
  'max_port_share_level',
  'cors_behavior',
  'disable_module_cache',
  'deleted',
  'created_at',
  'updated_at',
] as const satisfies (keyof TemplateRow)[];
type Names = 'organization_name' | 'organization_display_name' | 'organization_icon' | 'created_by_name';

/** A template of a list: without the permissions, which can be longer than everything else together. */
export type ListedTemplate = Pick<TemplateRow, (typeof LISTED)[number] | Names>;

export async function templateById(db: Db, id: string): Promise<TemplateRow | undefined> {
  const [row] = await db<TemplateRow[]>`SELECT ${templateColumns(db)} WHERE t.id = ${id} AND NOT t.deleted`;
  return row;
}

export async function templateByName(db: Db, organizationId: string, name: string): Promise<TemplateRow | undefined> {
  const [row] = await db<TemplateRow[]>`SELECT ${templateColumns(db)}
    WHERE t.organization_id = ${organizationId} AND lower(t.name) = lower(${name}) AND NOT t.deleted`;
  return row;
}

/** Locks the template until the transaction ends. Deleting, promoting and archiving take this lock. */
export async function lockTemplate(tx: Tx, id: string): Promise<void> {
  await tx`SELECT 1 FROM templates WHERE id = ${id} FOR UPDATE`;
}

export interface TemplateFilter {
  /** The read permissions of the actor's roles. */
  scope: ReadScope;
  /** Whose permissions count that templates give to people and groups of their organization. Null: nobody's. */
  memberId: string | null;
  organizationId: string | null;
  /** An organization's id or name. */
  organization: string | null;
  exactName: string | null;
  /** Part of the name or display name. */
  name: string | null;
  deprecated: boolean | null;
  /** Whether to list only deleted templates, which everyone who could read them still finds, or only others. */
  deleted: boolean;
  /** Whether the active version has AI tasks. */
  hasTask: boolean | null;
}

/** By display name. */
export async function listTemplateRows(db: Db, filter: TemplateFilter): Promise<ListedTemplate[]> {
  const { scope, memberId, organizationId, organization, exactName, name, deprecated, deleted, hasTask } = filter;
  const columns = db(LISTED.map((name) => `t.${name}`));
  return db<ListedTemplate[]>`SELECT ${columns}, ${NAMES(db)}
    LEFT JOIN (SELECT organization_id, array_agg(group_id::text) AS groups FROM all_group_members
      WHERE user_id = ${memberId} GROUP BY organization_id) mine ON mine.organization_id = t.organization_id
    WHERE t.deleted = ${deleted}
    AND (${scope.all} OR t.organization_id = ANY(${scope.organizationIds}) OR t.group_acl ?| mine.groups
      OR (mine.groups IS NOT NULL AND t.user_acl ? ${memberId}::text))
    AND (${scope.ids}::uuid[] IS NULL OR t.id = ANY(${scope.ids}::uuid[]))
    AND (${organizationId}::uuid IS NULL OR t.organization_id = ${organizationId}::uuid)
    AND (${organization}::text IS NULL OR o.id::text = ${organization}::text OR lower(o.name) = lower(${organization}::text))
    AND (${exactName}::text IS NULL OR lower(t.name) = lower(${exactName}::text))
    AND (${name}::text IS NULL OR position(lower(${name}::text) IN lower(t.name)) > 0
      OR position(lower(${name}::text) IN lower(t.display_name)) > 0)
    AND (${deprecated}::boolean IS NULL OR (t.deprecated <> '') = ${deprecated}::boolean)
    AND (${hasTask}::boolean IS NULL
      OR (SELECT has_ai_task FROM template_versions WHERE id = t.active_version_id) = ${hasTask}::boolean)
    ORDER BY lower(coalesce(nullif(t.display_name, ''), t.name)), t.id`;
}

/** Whether the active version of any template has AI tasks. */
export async function anyTemplateHasTasks(db: Db): Promise<boolean> {
  const [row] = await db<{ found: boolean }[]>`SELECT EXISTS (SELECT 1 FROM templates t
    JOIN template_versions v ON v.id = t.active_version_id WHERE NOT t.deleted AND v.has_ai_task) AS found`;
  return row!.found;
}

export interface BuildTimes {
  template_id: string;
  transition: 'start' | 'stop' | 'delete';
  p50: number;
  p95: number;
}

/** The durations of builds of the last 30 days, in ms. */
export async function buildTimes(db: Db, templateIds: string[]): Promise<BuildTimes[]> {
  return db<BuildTimes[]>`
    SELECT w.template_id, b.transition,
      percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM j.completed_at - j.started_at)) * 1000 AS p50,
      percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM j.completed_at - j.started_at)) * 1000 AS p95
    FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE w.template_id = ANY(${templateIds}) AND j.job_status = 'succeeded' AND b.created_at > now() - interval '30 days'
    GROUP BY w.template_id, b.transition`;
}

/** The number of people who have workspaces of each template. */
export async function templateUsers(db: Db, templateIds: string[]): Promise<{ template_id: string; users: number }[]> {
  return db<{ template_id: string; users: number }[]>`
    SELECT template_id, count(DISTINCT owner_id) AS users FROM workspaces
    WHERE template_id = ANY(${templateIds}) AND NOT deleted AND owner_id <> ${PREBUILDS_USER_ID} GROUP BY template_id`;
}

/** The number of people's workspaces of a template. Unclaimed prebuilt ones are deleted with it. */
export async function countWorkspacesOf(db: Db, templateId: string): Promise<number> {
  const [row] = await db<{ count: number }[]>`
    SELECT count(*) AS count FROM workspaces
    WHERE template_id = ${templateId} AND NOT deleted AND owner_id <> ${PREBUILDS_USER_ID}`;
  return row!.count;
}

/**
 * The number of people who used workspaces of a template in the last 60 days, by day of a time zone `offset` hours east
 * of UTC.
 */
export async function dailyActiveUsers(
  db: Db,
  templateId: string | null,
  offset: number,
): Promise<{ date: string; amount: number }[]> {
  return db<{ date: string; amount: number }[]>`
    SELECT to_char(u.start_time AT TIME ZONE 'UTC' + ${offset} * interval '1 hour', 'YYYY-MM-DD') AS date,
      count(DISTINCT w.owner_id) AS amount
    FROM (SELECT workspace_id, start_time FROM workspace_usage
      UNION ALL SELECT workspace_id, start_time FROM workspace_app_usage) u JOIN workspaces w ON w.id = u.workspace_id
    WHERE (${templateId}::uuid IS NULL OR w.template_id = ${templateId}) AND u.start_time > now() - interval '60 days'
    GROUP BY 1 ORDER BY 1`;
}

/** The settings of a new template. An absent one gets the default of its column. */
export type NewTemplate = Pick<TemplateRow, 'id' | 'name' | 'created_by' | 'group_acl'> &
  Partial<Omit<TemplateRow, 'organization_id' | 'active_version_id'>>;

/** Creates a template from a version, which then belongs to the template. */
export async function insertTemplate(
  tx: Tx,
  { organizationId }: Allowed<'create', { type: 'template'; organizationId: string }>,
  version: Allowed<'read', VersionRow>,
  template: NewTemplate,
): Promise<void> {
  const row = { ...template, group_acl: tx.json(template.group_acl) };
  await tx`INSERT INTO templates ${tx({ ...row, organization_id: organizationId, active_version_id: version.id } as never)}`;
  await tx`UPDATE templates SET provisioner = j.provisioner FROM provisioner_jobs j
    WHERE templates.id = ${template.id} AND j.id = ${version.job_id} AND templates.provisioner <> j.provisioner`;
  await tx`UPDATE template_versions SET template_id = ${template.id}, updated_at = now() WHERE id = ${version.id}`;
}

export async function updateTemplateRow(
  tx: Tx,
  template: Allowed<'update', TemplateRow>,
  changed: Partial<TemplateRow>,
): Promise<void> {
  await tx`UPDATE templates SET ${tx(changed as never)}, updated_at = now() WHERE id = ${template.id}`;
}

/** Removes the access that all members of the organization have to the template. */
export async function removeEveryone(tx: Tx, template: Allowed<'update', TemplateRow>): Promise<void> {
  await tx`UPDATE templates SET group_acl = group_acl - organization_id::text WHERE id = ${template.id}`;
}

/** Counts the template's workspaces as used now. */
export async function touchWorkspacesOf(tx: Tx, template: Allowed<'update', TemplateRow>): Promise<void> {
  await tx`UPDATE workspaces SET last_used_at = now() WHERE template_id = ${template.id} AND NOT deleted`;
}

/**
 * Sets when the template's dormant workspaces are deleted: a time after they became dormant, or after `since`. With 0,
 * never. Returns those with a time.
 */
export async function setDeletionOf(
  tx: Tx,
  template: Allowed<'update', TemplateRow>,
  { afterMs, since }: { afterMs: number; since: Date | null },
): Promise<DormantWorkspace[]> {
  return tx<DormantWorkspace[]>`WITH changed AS (
      UPDATE workspaces SET dormant_at = coalesce(${since}::timestamptz, dormant_at), deleting_at = CASE
        WHEN ${afterMs}::bigint > 0
        THEN coalesce(${since}::timestamptz, dormant_at) + ${afterMs}::bigint * interval '1 millisecond' END
      WHERE template_id = ${template.id} AND NOT deleted AND dormant_at IS NOT NULL RETURNING *)
    SELECT c.id, c.name, c.owner_id, u.username AS owner_name, c.organization_id, c.template_id, c.deleting_at
    FROM changed c JOIN users u ON u.id = c.owner_id WHERE c.deleting_at IS NOT NULL`;
}

/** A dormant workspace that is going to be deleted. */
export interface DormantWorkspace {
  id: string;
  name: string;
  owner_id: string;
  owner_name: string;
  organization_id: string;
  template_id: string;
  deleting_at: Date;
}

/** Makes a version the active one, which new workspaces get. */
export async function setActiveVersion(
  tx: Tx,
  template: Allowed<'update', TemplateRow>,
  versionId: string,
): Promise<void> {
  await tx`UPDATE templates SET active_version_id = ${versionId}, updated_at = now() WHERE id = ${template.id}`;
}

/** Marks the template as deleted. Its versions stay for the record of old builds. */
export async function markTemplateDeleted(tx: Tx, template: Allowed<'delete', TemplateRow>): Promise<void> {
  await tx`UPDATE templates SET deleted = true, updated_at = now() WHERE id = ${template.id}`;
}
