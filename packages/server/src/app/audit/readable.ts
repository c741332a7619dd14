import { AppError } from '@ropewalk/kit';
import { readScope } from '../../authz/authorize.ts';
import { userIdsNamed } from '../../db/queries/users.ts';
import type { Ctx } from '../context/context.ts';
import { locateOrganization, maySeeOrganization } from '../find/organization.ts';
import { badQuery, type Search } from '../lists/search.ts';
import { isUuid, NIL_UUID } from '../values/ids.ts';

/**
 * The organizations whose records the actor may read. Undefined: all records. Auditors of organizations see those of
 * their organizations, without the records of accounts and of the deployment.
 * @throws AppError `forbidden` if the actor may read none
 */
export function readableRecords(ctx: Ctx): string[] | undefined {
  const { all, organizationIds, ids } = readScope(ctx.actor, 'audit_log');
  // records have no id that an allow list contains
  if (ids === null && all) return undefined;
  if (ids === null && organizationIds.length > 0) return organizationIds;
  throw new AppError('forbidden', 'Forbidden.', {
    detail: 'Only owners and auditors may read the audit and connection logs.',
  });
}

/** The organization that a search names by id or name. The nil id if there is none, so that nothing matches. */
export async function searchedOrganization(ctx: Ctx, search: Search): Promise<string | undefined> {
  const text = search.terms.get('organization');
  if (text === undefined) return undefined;
  if (isUuid(text)) return text;
  const found = await locateOrganization(ctx, text).catch(() => undefined);
  if (!found || !maySeeOrganization(ctx.actor, found.organizationId))
    throw badQuery('organization', `Organization "${text}" either does not exist, or you are unauthorized to view it`);
  return found.organizationId;
}

/** The people that a search names with the given keys. The nil id if there is none, so that nothing matches. */
export async function searchedPeople(
  ctx: Ctx,
  search: Search,
  keys: { username: string; email: string },
): Promise<string[] | undefined> {
  const { actor } = ctx;
  const username = search.terms.get(keys.username);
  const email = search.terms.get(keys.email);
  if (username === undefined && email === undefined) return undefined;
  const byName = async (): Promise<string[] | undefined> => {
    if (username === undefined) return undefined;
    if (username === 'me' && actor.kind === 'user') return [actor.id];
    return userIdsNamed(ctx.lists, { username });
  };
  const named = await byName();
  const addressed = email === undefined ? undefined : await userIdsNamed(ctx.lists, { email });
  const both = named && addressed ? named.filter((id) => addressed.includes(id)) : (named ?? addressed ?? []);
  return both.length > 0 ? both : [NIL_UUID];
}
