import { AppError } from '@platform/kit';
import { type AuthzObject, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Db } from '../../db/connect.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';

/** A workspace with what its published shape takes from template, owner and organization. */
export interface WorkspaceRow {
  id: string;
  owner_id: string;
  organization_id: string;
  template_id: string;
  name: string;
  autostart_schedule: string | null;
  ttl_ms: number | null;
  automatic_updates: 'always' | 'never';
  dormant_at: Date | null;
  deleting_at: Date | null;
  next_start_at: Date | null;
  last_used_at: Date | null;
  deleted: boolean;
  created_at: Date;
  updated_at: Date;
  owner_name: string;
  owner_avatar_url: string;
  organization_name: string;
  template_name: string;
  template_display_name: string;
  template_icon: string;
  template_active_version_id: string;
  allow_user_cancel_workspace_jobs: boolean;
  require_active_version: boolean;
  use_classic_parameter_flow: boolean;
  latest_build_id: string;
  latest_job_id: string;
  /** Of the actor. */
  favorite: boolean;
}

/** Whether `w` is one of the actor's favorites. */
export const isFavorite = (db: Db, { actor }: Pick<Ctx, 'actor'>) => db`EXISTS (SELECT 1 FROM workspace_favorites f
  WHERE f.workspace_id = w.id AND f.user_id = ${actor.kind === 'user' ? actor.id : null})`;

export const workspaceColumns = (db: Db, ctx: Pick<Ctx, 'actor'>) => db`
  w.*, u.username AS owner_name, u.avatar_url AS owner_avatar_url, o.name AS organization_name, t.name AS template_name,
  t.display_name AS template_display_name, t.icon AS template_icon, t.active_version_id AS template_active_version_id,
  t.allow_user_cancel_workspace_jobs, t.require_active_version, t.use_classic_parameter_flow,
  b.id AS latest_build_id, b.job_id AS latest_job_id, ${isFavorite(db, ctx)} AS favorite
  FROM workspaces w JOIN users u ON u.id = w.owner_id JOIN organizations o ON o.id = w.organization_id
  JOIN templates t ON t.id = w.template_id
  JOIN LATERAL (SELECT id, job_id, template_version_id, transition, has_ai_task FROM workspace_builds n WHERE n.workspace_id = w.id ORDER BY n.build_number DESC LIMIT 1) b
    ON true`;

export function workspaceObject(workspace: { owner_id: string; organization_id: string }): AuthzObject {
  return { type: 'workspace', ownerId: workspace.owner_id, organizationId: workspace.organization_id };
}

/** A workspace by id, that the actor may read. */
export async function findWorkspace(ctx: Ctx, id: string, { deleted = false } = {}): Promise<WorkspaceRow> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const [row] = await ctx.sql<WorkspaceRow[]>`SELECT ${workspaceColumns(ctx.sql, ctx)} WHERE w.id = ${id}`;
  if (!row) throw notFound();
  authorize(ctx, 'read', workspaceObject(row));
  if (row.deleted && !deleted) {
    throw new AppError(
      'gone',
      `Workspace ${JSON.stringify(row.name)} was deleted, you can view this workspace by specifying '?deleted=true' and trying again.`,
    );
  }
  return row;
}

/** A workspace by its owner and name (or id); the newest of those of this name where deleted ones are wanted. */
export async function findWorkspaceByName(
  ctx: Ctx,
  ownerId: string,
  name: string,
  { deleted = false } = {},
): Promise<WorkspaceRow> {
  const [row] = await ctx.sql<WorkspaceRow[]>`SELECT ${workspaceColumns(ctx.sql, ctx)}
    WHERE w.owner_id = ${ownerId} AND (lower(w.name) = lower(${name}) OR w.id::text = ${name}) AND (NOT w.deleted OR ${deleted})
    ORDER BY w.deleted, w.created_at DESC LIMIT 1`;
  if (!row) throw notFound();
  authorize(ctx, 'read', workspaceObject(row));
  return row;
}
