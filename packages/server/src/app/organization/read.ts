import type { Organization } from '@ropewalk/contract';
import { may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { allOrganizations } from '../../db/queries/organizations.ts';
import type { OrganizationRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { findOrganization } from '../find/organization.ts';
import { findUser } from '../find/user.ts';
import { readOnce } from '../lists/read-once.ts';
import { time } from '../values/time.ts';

export function toOrganization(row: OrganizationRow): Organization {
  return {
    id: row.id,
    name: row.name,
    display_name: row.display_name,
    description: row.description,
    icon: row.icon,
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
    is_default: row.is_default,
    default_org_member_roles: row.default_org_member_roles,
  };
}

/** Lists the organizations that the actor may read. */
export function listOrganizations(ctx: Ctx): Promise<Organization[]> {
  return readOnce(ctx, ['organizations'], () => readOrganizations(ctx));
}

async function readOrganizations(ctx: Ctx): Promise<Organization[]> {
  const rows = await allOrganizations(ctx.sql);
  return rows
    .filter((row) => may(ctx.actor, 'read', { type: 'organization', organizationId: row.id }))
    .map(toOrganization);
}

export async function getOrganization(ctx: Ctx, organization: string): Promise<Organization> {
  return toOrganization(await findOrganization(ctx, 'read', organization));
}

/** Lists the organizations that a user is a member of. */
export async function organizationsOfUser(ctx: Ctx, user: string): Promise<Organization[]> {
  const { organizations } = await findUser(ctx, 'read', user);
  return (await listOrganizations(ctx)).filter((organization) => organization.id in organizations);
}

export async function organizationOfUser(ctx: Ctx, user: string, name: string): Promise<Organization> {
  const found = (await organizationsOfUser(ctx, user)).find(
    (organization) => organization.id === name || organization.name.toLowerCase() === name.toLowerCase(),
  );
  if (!found) throw notFound();
  return found;
}
