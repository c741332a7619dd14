import { AppError } from '@ropewalk/kit';
import { type Allowed, type AuthzObject, allow, authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { type GroupRow, groupById, groupByName } from '../../db/queries/groups.ts';
import type { Ctx } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';
import { findOrganization } from './organization.ts';

/** The members of a group may read it. */
export function groupObject(group: { id: string; organization_id: string }): AuthzObject {
  const { id, organization_id } = group;
  return { type: 'group', id, organizationId: organization_id, acl: { users: {}, groups: { [id]: 'use' } } };
}

/** Whether this is an organization's group of all members. */
export const isEveryone = (group: Pick<GroupRow, 'id' | 'organization_id'>) => group.id === group.organization_id;

/** Finds a group on which the actor may do this. */
export async function findGroup<A extends Action>(ctx: Ctx, action: A, id: string): Promise<Allowed<A, GroupRow>> {
  if (!isUuid(id)) throw new AppError('invalid', `Invalid UUID "${id}".`);
  const row = await groupById(ctx.sql, id);
  if (!row) throw notFound();
  const object = groupObject(row);
  authorize(ctx, 'read', object);
  return allow(ctx, action, row, object);
}

export async function findGroupByName(
  ctx: Ctx,
  organization: string,
  name: string,
): Promise<Allowed<'read', GroupRow>> {
  const { id } = await findOrganization(ctx, 'read', organization);
  const row = await groupByName(ctx.sql, id, name);
  if (!row) throw notFound();
  return allow(ctx, 'read', row, groupObject(row));
}
