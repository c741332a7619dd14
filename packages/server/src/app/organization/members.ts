import type {
  OrganizationMember,
  OrganizationMemberWithUserData,
  PaginatedMembersResponse,
  UpdateRoles,
} from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize, may } from '../../authz/authorize.ts';
import type { Db } from '../../db/connect.ts';
import type { OrganizationRow } from '../../db/queries/organizations.ts';
import type { UserWithRoles } from '../../db/queries/users.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { pageOf } from '../search.ts';
import { slimRoles, time } from '../user/convert.ts';
import { locateUser } from '../user/find.ts';
import { checkRoles } from '../user/roles.ts';
import { findInOrganization, findOrganization } from './find.ts';

interface MemberRow {
  organization_id: string;
  user_id: string;
  roles: string[];
  created_at: Date;
  updated_at: Date;
}
type MemberWithUser = MemberRow & {
  username: string;
  name: string;
  email: string;
  avatar_url: string;
  rbac_roles: string[];
};

const toMember = (row: MemberRow): OrganizationMember => ({
  organization_id: row.organization_id,
  user_id: row.user_id,
  created_at: time(row.created_at),
  updated_at: time(row.updated_at),
  roles: slimRoles(row.roles, row.organization_id),
});

const toMemberWithUser = (row: MemberWithUser): OrganizationMemberWithUserData => ({
  ...toMember(row),
  username: row.username,
  name: row.name,
  email: row.email,
  avatar_url: row.avatar_url,
  global_roles: slimRoles(row.rbac_roles),
});

/** Members of an organization by name; who may not read them all sees himself. */
export async function listMembers(
  ctx: Ctx,
  organization: string,
  query: { limit?: number; offset?: number } = {},
): Promise<PaginatedMembersResponse> {
  const { lists: sql, actor } = ctx;
  const ownerId = actor.kind === 'user' ? actor.id : '';
  const place = { type: 'organization_member', ownerId } as const;
  const { organizationId } = await findInOrganization(ctx, 'read', place, organization);
  const { limit, offset } = pageOf(query);
  const all = may(actor, 'read', { type: 'organization_member', organizationId });
  const from = sql`FROM organization_members m JOIN users u ON u.id = m.user_id
    WHERE m.organization_id = ${organizationId} AND NOT u.deleted AND NOT u.is_system ${all ? sql`` : sql`AND u.id = ${ownerId}`}`;
  const [total] = await sql<{ count: number }[]>`SELECT count(*) AS count ${from}`;
  const rows = await sql<MemberWithUser[]>`SELECT m.*, u.username, u.name, u.email, u.avatar_url, u.rbac_roles ${from}
    ORDER BY lower(u.username) LIMIT ${limit} OFFSET ${offset}`;
  return { members: rows.map(toMemberWithUser), count: total!.count };
}

/** Found without asking whether the actor may read the account: who runs an organization may not read the site. */
async function target(ctx: Ctx, organization: string, user: string): Promise<[OrganizationRow, UserWithRoles]> {
  return [await findOrganization(ctx, 'read', organization), await locateUser(ctx, user)];
}

async function changed(ctx: Ctx, tx: Db, org: OrganizationRow, user: UserWithRoles, action: string): Promise<void> {
  await audit(ctx, tx, {
    resourceType: 'organization_member',
    resourceId: user.id,
    target: user.username,
    action,
    organizationId: org.id,
  });
  await ctx.events.publish(tx, 'revoked', { user_ids: [user.id] });
}

export async function addMember(ctx: Ctx, organization: string, user: string): Promise<OrganizationMember> {
  const [org, person] = await target(ctx, organization, user);
  authorize(ctx, 'create', { type: 'organization_member', organizationId: org.id });
  return ctx.sql.begin(async (tx) => {
    const [row] = await tx<MemberRow[]>`INSERT INTO organization_members (organization_id, user_id)
      VALUES (${org.id}, ${person.id}) ON CONFLICT DO NOTHING RETURNING *`;
    if (!row) throw new AppError('conflict', `${person.username} is already a member of ${org.name}.`);
    await changed(ctx, tx, org, person, 'create');
    return toMember(row);
  });
}

const notMember = (org: OrganizationRow, user: UserWithRoles) =>
  new AppError('not_found', `${user.username} is not a member of ${org.name}.`);

/** Takes somebody out of an organization. His workspaces there stay, for its administrators to see to. */
export async function removeMember(ctx: Ctx, organization: string, user: string): Promise<undefined> {
  const [org, person] = await target(ctx, organization, user);
  const roles = person.organizations[org.id];
  authorize(ctx, 'delete', { type: 'organization_member', organizationId: org.id });
  if (!roles) throw notMember(org, person);
  checkRoles(ctx, [], roles, org.id);
  if (ctx.actor.kind === 'user' && ctx.actor.id === person.id) {
    throw new AppError('invalid', 'You cannot remove yourself from an organization.');
  }
  await ctx.sql.begin(async (tx) => {
    await tx`DELETE FROM organization_members WHERE organization_id = ${org.id} AND user_id = ${person.id}`;
    await changed(ctx, tx, org, person, 'delete');
  });
}

export async function updateMemberRoles(
  ctx: Ctx,
  organization: string,
  user: string,
  input: UpdateRoles,
): Promise<OrganizationMember> {
  const [org, person] = await target(ctx, organization, user);
  authorize(ctx, 'assign', { type: 'assign_org_role', organizationId: org.id });
  const had = person.organizations[org.id];
  if (!had) throw notMember(org, person);
  if (ctx.actor.kind === 'user' && ctx.actor.id === person.id) {
    throw new AppError('invalid', 'You cannot change your own organization roles.');
  }
  const roles = checkRoles(ctx, input.roles ?? [], had, org.id);
  return ctx.sql.begin(async (tx) => {
    const [row] = await tx<MemberRow[]>`UPDATE organization_members SET roles = ${roles}, updated_at = now()
      WHERE organization_id = ${org.id} AND user_id = ${person.id} RETURNING *`;
    if (!row) throw notMember(org, person);
    await changed(ctx, tx, org, person, 'write');
    return toMember(row);
  });
}
