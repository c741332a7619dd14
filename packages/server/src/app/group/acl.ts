// What the lists of people and groups of templates and workspaces have in common.

import { AppError } from '@ropewalk/kit';
import { type AclChange, knownIn } from '../../db/queries/acls.ts';
import { type GroupRow, listGroupRows } from '../../db/queries/groups.ts';
import type { Ctx } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';

/** A change of an object's lists. */
export interface AclChanges {
  users: AclChange;
  groups: AclChange;
}

/** Splits entries of a request, id → role, into those to set and those to remove, which have the role "". */
export function splitAcl(entries: Record<string, string> = {}): AclChange {
  const list = Object.entries(entries).map(([id, role]) => [id.toLowerCase(), role] as const);
  return {
    set: Object.fromEntries(list.filter(([, role]) => role !== '')),
    remove: list.filter(([, role]) => role === '').map(([id]) => id),
  };
}

/**
 * Checks that each entry to set names a member or a group of the organization.
 * @param fields the names of the request's fields for people and for groups
 * @throws AppError `invalid`
 */
export async function checkAcl(
  ctx: Ctx,
  organizationId: string,
  { users, groups }: AclChanges,
  { message, fields }: { message: string; fields: readonly [string, string] },
): Promise<void> {
  const asked = { users: Object.keys(users.set), groups: Object.keys(groups.set) };
  const known = await knownIn(ctx.sql, organizationId, {
    users: asked.users.filter(isUuid),
    groups: asked.groups.filter(isUuid),
  });
  const wrong = (field: string, ids: string[], found: string[], what: string) =>
    ids
      .filter((id) => !found.includes(id))
      .map((id) => ({ field, detail: `${JSON.stringify(id)} is not the id of ${what} of this organization` }));
  const validations = [
    ...wrong(fields[0], asked.users, known.users, 'a member'),
    ...wrong(fields[1], asked.groups, known.groups, 'a group'),
  ];
  if (validations.length > 0) throw new AppError('invalid', message, { validations });
}

/** The groups of an organization, or those with these ids, whatever the actor may read: they are in a list that it may. */
export const groupsOf = (ctx: Ctx, organizationId: string, ids?: string[]): Promise<GroupRow[]> =>
  listGroupRows(ctx.lists, {
    scope: { all: true, organizationIds: [], ownerId: '', ids: null },
    own: [],
    organizationId,
    ids,
  });
