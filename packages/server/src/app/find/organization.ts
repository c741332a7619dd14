import type { Actor } from '../../authz/actor.ts';
import { type Allowed, type AuthzObject, allow, authorize, may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { defaultOrganization, organizationById, organizationByName } from '../../db/queries/organizations.ts';
import type { OrganizationRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { isUuid, NIL_UUID } from '../values/ids.ts';

/** Finds the organization of a path segment: an id, a name, `default` or the nil id. Authorizes nothing. */
async function organizationOf({ sql }: Pick<Ctx, 'sql'>, text: string): Promise<OrganizationRow> {
  const isDefault = text === 'default' || text === NIL_UUID;
  const row = await (isDefault
    ? defaultOrganization(sql)
    : isUuid(text)
      ? organizationById(sql, text)
      : organizationByName(sql, text));
  if (!row) throw notFound();
  return row;
}

/** Finds an organization on which the actor may do this. */
export async function findOrganization<A extends Action>(
  ctx: Ctx,
  action: A,
  text: string,
): Promise<Allowed<A, OrganizationRow>> {
  const row = await organizationOf(ctx, text);
  return allow(ctx, action, row, { type: 'organization', organizationId: row.id });
}

export const maySeeOrganization = (actor: Actor, organizationId: string): boolean =>
  may(actor, 'read', { type: 'organization', organizationId });

/** Authorizes an action in an organization. One that the actor may not see looks like one that does not exist. */
export function authorizeInOrganization<A extends Action, const O extends AuthzObject & { organizationId: string }>(
  ctx: Ctx,
  action: A,
  object: O,
): Allowed<A, O> {
  if (!may(ctx.actor, action, object) && !maySeeOrganization(ctx.actor, object.organizationId)) throw notFound();
  return authorize(ctx, action, object);
}

/**
 * Finds an organization in which the actor may do this to objects of a type: `findInOrganization(ctx, 'create', { type:
 * 'template' }, name)`.
 */
export async function findInOrganization<A extends Action, const O extends AuthzObject>(
  ctx: Ctx,
  action: A,
  object: O,
  text: string,
): Promise<Allowed<A, O & { organizationId: string; organization: OrganizationRow }>> {
  const organization = await organizationOf(ctx, text);
  return authorizeInOrganization(ctx, action, { ...object, organizationId: organization.id, organization });
}

/**
 * Finds the organization of a path, to look up an object in it that has its own permission. The result proves nothing
 * and reveals only an id.
 */
export async function locateOrganization(ctx: Ctx, text: string): Promise<{ organizationId: string }> {
  return { organizationId: (await organizationOf(ctx, text)).id };
}
