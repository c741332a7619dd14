import { AppError } from '@ropewalk/kit';
import { type Allowed, type AuthzObject, allow, authorize, may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { type ViewerId, workspaceById, workspaceByName } from '../../db/queries/workspaces.ts';
import type { Acls, WorkspaceRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';
import { locateUser } from './user.ts';

/**
 * The object that permissions on a workspace are checked on. A dormant workspace has a separate type, because nobody may
 * start it or connect to it, and the people it is shared with do not see it. Rows of parts, such as of builds and agents, name their workspace in `workspace_id`.
 */
export function workspaceObject(
  workspace: Pick<WorkspaceRow, 'owner_id' | 'organization_id' | 'dormant_at' | keyof Acls> &
    ({ workspace_id: string } | { id: string }),
): AuthzObject {
  const id = 'workspace_id' in workspace ? workspace.workspace_id : workspace.id;
  const { owner_id: ownerId, organization_id: organizationId, dormant_at: dormantAt } = workspace;
  const acl = { users: workspace.user_acl, groups: workspace.group_acl };
  if (dormantAt === null) return { type: 'workspace', id, ownerId, organizationId, acl };
  const name = 'workspace while it is dormant. Activate it first';
  return { type: 'workspace_dormant', id, ownerId, organizationId, name };
}

/** The user whose favorites a list marks. */
export const viewerOf = ({ actor }: Pick<Ctx, 'actor'>): ViewerId => (actor.kind === 'user' ? actor.id : null);

interface FindOptions {
  /** Whether to find deleted workspaces, too. */
  deleted?: boolean;
}

/**
 * Finds a workspace by id, for an action that the actor may perform on it.
 * @throws AppError `not_found` if the actor may not read it, `gone` for a deleted one, otherwise `forbidden`
 */
export async function findWorkspace<A extends Action>(
  ctx: Ctx,
  action: A,
  id: string,
  { deleted = false }: FindOptions = {},
): Promise<Allowed<A, WorkspaceRow>> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const row = await workspaceById(ctx.sql, id, viewerOf(ctx));
  if (!row) throw notFound();
  authorize(ctx, 'read', workspaceObject(row));
  if (row.deleted && !deleted) throw deletedWorkspace(row);
  return allow(ctx, action, row, workspaceObject(row));
}

export const deletedWorkspace = ({ name }: Pick<WorkspaceRow, 'name'>) =>
  new AppError(
    'gone',
    `Workspace ${JSON.stringify(name)} was deleted, you can view this workspace by specifying '?deleted=true' and trying again.`,
  );

/**
 * The id of the owner that a path names. The account is not authorized: people find workspaces that are shared with them
 * whether or not they may read its owner. The workspace's own permission decides.
 */
export const ownerIdOf = async (ctx: Ctx, user: string): Promise<string> => (await locateUser(ctx, user)).id;

/** Whether the actor may do this without the lists of people and groups that the workspace is shared with. */
export function mayUnshared(
  { actor }: Pick<Ctx, 'actor'>,
  action: Action,
  workspace: Parameters<typeof workspaceObject>[0],
): boolean {
  const { acl: _, ...object } = workspaceObject(workspace);
  return may(actor, action, object);
}

/** Finds a workspace by its owner and its name or id. With `deleted`, the newest one of that name. */
export async function findWorkspaceByName<A extends Action>(
  ctx: Ctx,
  action: A,
  { ownerId, name }: { ownerId: string; name: string },
  { deleted = false }: FindOptions = {},
): Promise<Allowed<A, WorkspaceRow>> {
  const row = await workspaceByName(ctx.sql, { ownerId, name, deleted }, viewerOf(ctx));
  if (!row) throw notFound();
  return allow(ctx, action, row, workspaceObject(row));
}
