import { AppError } from '@ropewalk/kit';
import { type Allowed, type AuthzObject, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { versionById } from '../../db/queries/template-versions.ts';
import { templateById, templateByName } from '../../db/queries/templates.ts';
import type { TemplateRow, VersionRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';

/** The object of a template. The id is null for a version without a template. */
export function templateObject(
  template: Pick<TemplateRow, 'organization_id' | 'user_acl' | 'group_acl'> & { id: string | null },
): AuthzObject {
  return {
    type: 'template',
    ...(template.id ? { id: template.id } : {}),
    organizationId: template.organization_id,
    acl: { users: template.user_acl, groups: template.group_acl },
  };
}

/** Finds a template on which the actor may do this. */
export async function findTemplate<A extends Action>(
  ctx: Ctx,
  action: A,
  id: string,
): Promise<Allowed<A, TemplateRow>> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const row = await templateById(ctx.sql, id);
  if (!row) throw notFound();
  const object = templateObject(row);
  authorize(ctx, 'read', object);
  return allow(ctx, action, row, object);
}

export async function findTemplateByName(
  ctx: Ctx,
  organizationId: string,
  name: string,
): Promise<Allowed<'read', TemplateRow>> {
  const row = await templateByName(ctx.sql, organizationId, name);
  if (!row) throw notFound();
  return allow(ctx, 'read', row, templateObject(row));
}

/**
 * The object of a version for authorization. A version of a template has the template's permissions. Template admins
 * manage a version without a template.
 */
export function versionObject(version: VersionRow): AuthzObject {
  return templateObject({
    id: version.template_id,
    organization_id: version.organization_id,
    user_acl: version.user_acl ?? {},
    group_acl: version.group_acl ?? {},
  });
}

/** Finds a template version on which the actor may do this. */
export async function findVersion<A extends Action>(ctx: Ctx, action: A, id: string): Promise<Allowed<A, VersionRow>> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const row = await versionById(ctx.sql, id);
  if (!row) throw notFound();
  const object = versionObject(row);
  authorize(ctx, 'read', object);
  return allow(ctx, action, row, object);
}
