import type { AuthorizationCheck, AuthorizationRequest, AuthorizationResponse } from '@platform/contract';
import { AppError } from '@platform/kit';
import { type AuthzObject, may } from '../authz/authorize.ts';
import type { Resource } from '../authz/policy.ts';
import type { Ctx } from './context.ts';
import { isUuid } from './ids.ts';

/** Where a thing named by id belongs; types without a row here are asked for without one. */
const TABLES: Partial<Record<Resource, string>> = {
  workspace: 'SELECT organization_id, owner_id FROM workspaces WHERE id = $1',
  template: 'SELECT organization_id, user_acl, group_acl FROM templates WHERE id = $1',
  user: 'SELECT id AS owner_id FROM users WHERE id = $1',
  organization: 'SELECT id AS organization_id FROM organizations WHERE id = $1',
  file: 'SELECT created_by AS owner_id FROM files WHERE id = $1',
};

interface Found {
  organization_id?: string;
  owner_id?: string;
  user_acl?: Record<string, string>;
  group_acl?: Record<string, string>;
}

async function allowed(ctx: Ctx, name: string, { action, object }: AuthorizationCheck): Promise<boolean> {
  const { actor } = ctx;
  const type = object.resource_type as Resource;
  const refuse = (detail: string) =>
    new AppError('invalid', `Object can not be checked: ${name}.`, { validations: [{ field: name, detail }] });
  let organizationId = object.organization_id;
  const owner = object.owner_id;
  let ownerId = owner === 'me' && actor.kind === 'user' ? actor.id : owner;
  let acl: AuthzObject['acl'];
  const id = object.resource_id;
  if (id !== undefined) {
    const query = TABLES[type];
    if (!query) throw refuse(`${object.resource_type} can not be named by id`);
    if (!isUuid(id)) throw refuse('resource_id must be a valid UUID');
    const [row] = await ctx.sql.unsafe<Found[]>(query, [id]);
    if (!row) return false;
    organizationId = row.organization_id;
    ownerId = row.owner_id;
    if (row.user_acl) acl = { users: row.user_acl, groups: row.group_acl ?? {} };
  }
  const ask = (organization: string | undefined) =>
    may(actor, action, {
      type,
      ...(organization ? { organizationId: organization } : {}),
      ...(ownerId ? { ownerId } : {}),
      ...(acl ? { acl } : {}),
    });
  if (object.any_org && actor.kind === 'user') return ask(undefined) || [...actor.organizations.keys()].some(ask);
  return ask(organizationId);
}

/** What the asker may do, by the names he gave his questions; a page asks this to know which buttons to show. */
export async function authCheck(ctx: Ctx, input: AuthorizationRequest): Promise<AuthorizationResponse> {
  const checks = Object.entries(input.checks ?? {});
  if (checks.length > 100) throw new AppError('invalid', 'At most 100 checks can be asked at once.');
  return Object.fromEntries(
    await Promise.all(checks.map(async ([name, check]) => [name, await allowed(ctx, name, check)] as const)),
  );
}
