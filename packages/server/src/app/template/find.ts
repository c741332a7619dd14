import { AppError } from '@platform/kit';
import { type AuthzObject, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Db } from '../../db/connect.ts';
import type { JobStatus } from '../../db/queries/jobs.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';

export interface TemplateRow {
  id: string;
  organization_id: string;
  name: string;
  display_name: string;
  description: string;
  icon: string;
  deprecated: string;
  provisioner: 'terraform';
  active_version_id: string;
  created_by: string;
  default_ttl_ms: number;
  activity_bump_ms: number;
  failure_ttl_ms: number;
  time_til_dormant_ms: number;
  time_til_dormant_autodelete_ms: number;
  autostop_requirement_days: string[];
  autostop_requirement_weeks: number;
  autostart_days: string[];
  allow_user_cancel_workspace_jobs: boolean;
  allow_user_autostart: boolean;
  allow_user_autostop: boolean;
  require_active_version: boolean;
  use_classic_parameter_flow: boolean;
  max_port_share_level: string;
  user_acl: Record<string, string>;
  group_acl: Record<string, string>;
  deleted: boolean;
  created_at: Date;
  updated_at: Date;
  organization_name: string;
  organization_display_name: string;
  organization_icon: string;
  created_by_name: string;
}

export const templateColumns = (db: Db) => db`
  t.*, o.name AS organization_name, o.display_name AS organization_display_name, o.icon AS organization_icon,
  c.username AS created_by_name
  FROM templates t JOIN organizations o ON o.id = t.organization_id JOIN users c ON c.id = t.created_by`;

export function templateObject(template: Pick<TemplateRow, 'organization_id' | 'user_acl' | 'group_acl'>): AuthzObject {
  return {
    type: 'template',
    organizationId: template.organization_id,
    acl: { users: template.user_acl, groups: template.group_acl },
  };
}

/** A template by id, that the actor may read. */
export async function findTemplate(ctx: Ctx, id: string): Promise<TemplateRow> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const [row] = await ctx.sql<TemplateRow[]>`SELECT ${templateColumns(ctx.sql)} WHERE t.id = ${id} AND NOT t.deleted`;
  if (!row) throw notFound();
  authorize(ctx, 'read', templateObject(row));
  return row;
}

export async function findTemplateByName(ctx: Ctx, organizationId: string, name: string): Promise<TemplateRow> {
  const [row] = await ctx.sql<TemplateRow[]>`SELECT ${templateColumns(ctx.sql)}
    WHERE t.organization_id = ${organizationId} AND lower(t.name) = lower(${name}) AND NOT t.deleted`;
  if (!row) throw notFound();
  authorize(ctx, 'read', templateObject(row));
  return row;
}

export interface VersionRow {
  id: string;
  template_id: string | null;
  organization_id: string;
  name: string;
  message: string;
  readme: string;
  job_id: string;
  created_by: string;
  archived: boolean;
  has_ai_task: boolean;
  created_at: Date;
  updated_at: Date;
  created_by_name: string;
  created_by_avatar_url: string;
  job_status: JobStatus;
  user_acl: Record<string, string> | null;
  group_acl: Record<string, string> | null;
}

export const versionColumns = (db: Db) => db`
  v.*, c.username AS created_by_name, c.avatar_url AS created_by_avatar_url, j.job_status, t.user_acl, t.group_acl
  FROM template_versions v JOIN users c ON c.id = v.created_by JOIN provisioner_jobs j ON j.id = v.job_id
  LEFT JOIN templates t ON t.id = v.template_id`;

/** A version is read and changed by who may do so with its template; one without a template, by template admins. */
export function versionObject(version: VersionRow): AuthzObject {
  return templateObject({
    organization_id: version.organization_id,
    user_acl: version.user_acl ?? {},
    group_acl: version.group_acl ?? {},
  });
}

export async function findVersion(ctx: Ctx, id: string): Promise<VersionRow> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const [row] = await ctx.sql<VersionRow[]>`SELECT ${versionColumns(ctx.sql)} WHERE v.id = ${id}`;
  if (!row) throw notFound();
  authorize(ctx, 'read', versionObject(row));
  return row;
}
