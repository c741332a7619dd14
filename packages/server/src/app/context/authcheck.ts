import type { AuthorizationCheck, AuthorizationRequest, AuthorizationResponse } from '@ropewalk/contract';
import { PERMISSIONS } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import { type AuthzObject, may, mayAnywhere } from '../../authz/authorize.ts';
import type { Action, Resource } from '../../authz/policy.ts';
import { isPlacedType, placeOf } from '../../db/queries/places.ts';
import { isUuid } from '../values/ids.ts';
import type { Ctx } from './context.ts';

const ACTIONS: ReadonlySet<string> = new Set(Object.values(PERMISSIONS).flat());
const isAction = (name: string): name is Action => ACTIONS.has(name);
const isResource = (name: string): name is Resource => name === '*' || Object.hasOwn(PERMISSIONS, name);

async function allowed(ctx: Ctx, name: string, { action, object }: AuthorizationCheck): Promise<boolean> {
  const { actor } = ctx;
  const type = object.resource_type;
  // nobody may do what this server does not have: newer dashboards ask about all that they know, in one request
  if (!isAction(action) || !isResource(type)) return false;
  const invalid = (detail: string) =>
    new AppError('invalid', `Object cannot be checked: ${name}.`, { validations: [{ field: name, detail }] });
  let organizationId = object.organization_id;
  const owner = object.owner_id;
  let ownerId = owner === 'me' && actor.kind === 'user' ? actor.id : owner;
  let acl: AuthzObject['acl'];
  const id = object.resource_id;
  if (id !== undefined) {
    if (!isPlacedType(type)) throw invalid(`${object.resource_type} cannot be named by id`);
    if (!isUuid(id)) throw invalid('resource_id must be a valid UUID');
    const row = await placeOf(ctx.sql, type, id);
    if (!row) return false;
    organizationId = row.organization_id;
    ownerId = row.owner_id;
    if (row.user_acl) acl = { users: row.user_acl, groups: row.group_acl ?? {} };
  }
  const asked: AuthzObject = {
    type,
    ...(id !== undefined ? { id } : {}),
    ...(ownerId ? { ownerId } : {}),
    ...(acl ? { acl } : {}),
  };
  if (object.any_org && actor.kind === 'user') return mayAnywhere(actor, action, asked);
  return may(actor, action, { ...asked, ...(organizationId ? { organizationId } : {}) });
}

/** Answers the checks in the request, by their names. A page uses this to decide which buttons to show. */
export async function authCheck(ctx: Ctx, input: AuthorizationRequest): Promise<AuthorizationResponse> {
  const checks = Object.entries(input.checks ?? {});
  if (checks.length > 100) throw new AppError('invalid', 'A request can have at most 100 checks.');
  return Object.fromEntries(
    await Promise.all(checks.map(async ([name, check]) => [name, await allowed(ctx, name, check)] as const)),
  );
}
