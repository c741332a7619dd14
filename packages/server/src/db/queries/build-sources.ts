// The parts of a template and a template version that a new workspace or build uses.

import type { Db, Tx } from '../connect.ts';
import type { JobStatus, TemplateRow } from '../rows.ts';

/** The columns of a template for creating workspaces. */
export type SourceTemplate = Pick<
  TemplateRow,
  | 'id'
  | 'organization_id'
  | 'name'
  | 'active_version_id'
  | 'require_active_version'
  | 'use_classic_parameter_flow'
  | 'deprecated'
  | 'default_ttl_ms'
  | 'allow_user_autostop'
  | 'allow_user_autostart'
  | 'autostart_days'
  | 'user_acl'
  | 'group_acl'
>;

/** A template by its id or by the id of one of its versions. */
export async function sourceTemplate(
  db: Db,
  by: { templateId: string } | { versionId: string },
): Promise<SourceTemplate | undefined> {
  const [row] = await db<SourceTemplate[]>`
    SELECT t.* FROM templates t WHERE NOT t.deleted AND
      ${'templateId' in by ? db`t.id = ${by.templateId}` : db`t.id = (SELECT template_id FROM template_versions WHERE id = ${by.versionId})`}`;
  return row;
}

/**
 * Prevents the deletion of a template until the transaction ends, or waits for a running deletion. False: it is
 * deleted.
 */
export async function holdTemplate(tx: Tx, id: string): Promise<boolean> {
  const held = await tx`SELECT 1 FROM templates WHERE id = ${id} AND NOT deleted FOR SHARE`;
  return held.length > 0;
}

export type VersionRules = Pick<
  TemplateRow,
  | 'id'
  | 'organization_id'
  | 'active_version_id'
  | 'require_active_version'
  | 'use_classic_parameter_flow'
  | 'user_acl'
  | 'group_acl'
>;

/** The versions of a template that its workspaces may use, and who may change the template. */
export async function versionRules(db: Db, templateId: string): Promise<VersionRules> {
  const [template] = await db<VersionRules[]>`
    SELECT id, organization_id, active_version_id, require_active_version, use_classic_parameter_flow, user_acl, group_acl
    FROM templates WHERE id = ${templateId}`;
  return template!;
}

export type ScheduleRights = Pick<TemplateRow, 'allow_user_autostart' | 'allow_user_autostop' | 'autostart_days'>;

/** The schedules that people may set for workspaces of a template. */
export async function scheduleRights(db: Db, templateId: string): Promise<ScheduleRights> {
  const [template] = await db<ScheduleRights[]>`
    SELECT allow_user_autostart, allow_user_autostop, autostart_days FROM templates WHERE id = ${templateId}`;
  return template!;
}

export interface SourceVersion {
  id: string;
  name: string;
  template_id: string | null;
  job_status: JobStatus;
  error: string | null;
  archived: boolean;
  file_id: string;
  provisioner: string;
}

/** A version with the result of its import. */
export async function sourceVersion(db: Db, id: string): Promise<SourceVersion | undefined> {
  const [version] = await db<SourceVersion[]>`
    SELECT tv.id, tv.name, tv.template_id, j.job_status, j.error, tv.archived, j.file_id, j.provisioner
    FROM template_versions tv JOIN provisioner_jobs j ON j.id = tv.job_id WHERE tv.id = ${id}`;
  return version;
}

/** The parameters of a preset, if it belongs to this version. */
export async function presetParameters(
  db: Db,
  versionId: string,
  presetId: string,
): Promise<Record<string, string> | undefined> {
  const [preset] = await db<{ parameters: Record<string, string> }[]>`
    SELECT parameters FROM template_version_presets WHERE id = ${presetId} AND template_version_id = ${versionId}`;
  return preset?.parameters;
}
