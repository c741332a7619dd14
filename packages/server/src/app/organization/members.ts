import type {
  OrganizationMember,
  OrganizationMemberWithUserData,
  PaginatedMembersResponse,
  UpdateRoles,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { authorize, may } from '../../authz/authorize.ts';
import { type Action, organizationRoles, type Role } from '../../authz/policy.ts';
import type { Db, Tx } from '../../db/connect.ts';
import { holdCustomRoles } from '../../db/queries/custom-roles.ts';
import {
  deleteMember,
  insertMembers,
  type MemberRow,
  type MemberWithUser,
  memberById,
  membersOf,
  setMemberRoles,
} from '../../db/queries/members.ts';
import type { PeoplePage, PeopleSearch } from '../../db/queries/users.ts';
import type { OrganizationRow, UserWithRoles } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findInOrganization, findOrganization } from '../find/organization.ts';
import { locateUser } from '../find/user.ts';
import { seen, serviceAccount, slimRoles } from '../user/convert.ts';
import { peopleQuery, type UserListQuery } from '../user/list.ts';
import { checkRoles, requireDefaultRoles } from '../user/roles.ts';
import { NEVER, time } from '../values/time.ts';
import { rolesOfOrganization } from './roles.ts';

const toMember = (row: MemberRow, roles: readonly Role[]): OrganizationMember => ({
  organization_id: row.organization_id,
  user_id: row.user_id,
  created_at: time(row.created_at),
  updated_at: time(row.updated_at),
  roles: slimRoles(row.roles, row.organization_id, roles),
});

const toMemberWithUser = (row: MemberWithUser, roles: readonly Role[]): OrganizationMemberWithUserData => ({
  ...toMember(row, roles),
  username: row.username,
  name: row.name,
  email: row.email,
  avatar_url: row.avatar_url,
  global_roles: slimRoles(row.rbac_roles),
  status: row.status,
  login_type: row.login_type,
  ...serviceAccount(row),
  has_ai_seat: false,
  last_seen_at: seen(row),
  user_created_at: time(row.user_created_at),
  user_updated_at: time(row.user_updated_at),
});

/** A member as other members see one, to share workspaces: without the account. */
const toFellow = (row: MemberWithUser): OrganizationMemberWithUserData => ({
  ...toMember(row, []),
  roles: [],
  username: row.username,
  name: row.name,
  email: '',
  avatar_url: row.avatar_url,
  global_roles: [],
  status: row.status,
  login_type: '',
  ...serviceAccount(row),
  has_ai_seat: false,
  last_seen_at: NEVER,
  user_created_at: time(row.created_at),
  user_updated_at: time(row.updated_at),
});

/** A search of members by fields that their fellows do not see finds nothing else than the text in names. */
const fellowsQuery = (query: UserListQuery): PeopleSearch & PeoplePage => ({
  ...peopleQuery(query),
  githubId: undefined,
  statuses: [],
  logins: [],
  roles: [],
  times: {},
  withoutEmail: true,
});

/**
 * Lists the members of an organization by name. Actors who may not read all members see only their own membership. Members
 * see the names of the others where they can share workspaces with them.
 */
export async function listMembers(
  ctx: Ctx,
  organization: string,
  query: UserListQuery = {},
): Promise<PaginatedMembersResponse> {
  const { actor } = ctx;
  const ownerId = actor.kind === 'user' ? actor.id : '';
  const place = { type: 'organization_member', ownerId } as const;
  const { organizationId } = await findInOrganization(ctx, 'read', place, organization);
  const all = may(actor, 'read', { type: 'organization_member', organizationId });
  const only = all ? undefined : [ownerId].filter((id) => id !== '');
  const fellows = seesFellows(ctx, organizationId);
  const wanted = fellows ? fellowsQuery(query) : peopleQuery(query);
  const { members, count } = await membersOf(ctx.lists, organizationId, { ...wanted, only });
  const roles = await rolesOfOrganization(ctx.lists, organizationId);
  const show = (member: MemberWithUser) =>
    fellows && member.user_id !== ownerId ? toFellow(member) : toMemberWithUser(member, roles);
  return { members: members.map(show), count };
}

/**
 * Whether the actor sees other members only to share workspaces with them. Who may read all members for another reason may
 * also read those of groups.
 */
const seesFellows = ({ actor }: Ctx, organizationId: string): boolean =>
  may(actor, 'read', { type: 'organization_member', organizationId }) &&
  !may(actor, 'read', { type: 'group_member', organizationId });

/**
 * One membership. Members who see others only to share workspaces with them find these in the list.
 * @throws AppError `not_found` if the person is not a member, or the actor may not see that
 */
export async function getMember(ctx: Ctx, organization: string, user: string): Promise<OrganizationMemberWithUserData> {
  const person = await locateUser(ctx, user);
  const place = { type: 'organization_member', ownerId: person.id } as const;
  const { organizationId } = await findInOrganization(ctx, 'read', place, organization);
  const isOwn = ctx.actor.kind === 'user' && ctx.actor.id === person.id;
  const visible = isOwn || !seesFellows(ctx, organizationId);
  const row = visible ? await memberById(ctx.sql, organizationId, person.id) : undefined;
  if (!row) throw new AppError('not_found', 'Resource not found or you do not have access to this resource');
  return toMemberWithUser(row, await rolesOfOrganization(ctx.sql, organizationId));
}

/**
 * Finds a person for a change of their membership. The account itself is not authorized: an organization's administrators may
 * not read the accounts of the site. So others must not learn from the answer whether it exists.
 */
async function target<A extends Action, const T extends 'organization_member' | 'assign_org_role'>(
  ctx: Ctx,
  [action, type]: [A, T],
  organization: string,
  user: string,
) {
  const org: OrganizationRow = await findOrganization(ctx, 'read', organization);
  const place = authorize(ctx, action, { type, organizationId: org.id });
  return { org, place, person: await locateUser(ctx, user) };
}

/** A membership as the audit log compares it. */
type Membership = Pick<MemberRow, 'roles'> & Partial<MemberRow>;

async function changed(
  ctx: Ctx,
  tx: Db,
  { org, user, before, after }: { org: OrganizationRow; user: UserWithRoles; before?: Membership; after?: Membership },
): Promise<void> {
  const { username } = user;
  const action = !before ? 'create' : after ? 'write' : 'delete';
  await audit(ctx, tx, {
    resourceType: 'organization_member',
    resourceId: user.id,
    target: username,
    action,
    organizationId: org.id,
    before: before && { username, user_id: user.id, ...before },
    after: after && { username, ...after },
  });
  await ctx.events.publish(tx, 'revoked', { user_ids: [user.id] });
}

export async function addMember(ctx: Ctx, organization: string, user: string): Promise<OrganizationMember> {
  const { org, place, person } = await target(ctx, ['create', 'organization_member'], organization, user);
  return ctx.sql.begin(async (tx) => {
    await requireDefaultRoles(ctx, tx, [org.id]);
    const [row] = await insertMembers(tx, [place], person.id);
    if (!row) throw new AppError('conflict', `${person.username} is already a member of ${org.name}.`);
    await changed(ctx, tx, { org, user: person, after: row });
    return toMember(row, []);
  });
}

const notMember = (org: OrganizationRow, user: UserWithRoles) =>
  new AppError('not_found', `${user.username} is not a member of ${org.name}.`);

/** Removes a user from an organization. Their workspaces there stay, and its administrators can manage them. */
export async function removeMember(ctx: Ctx, organization: string, user: string): Promise<undefined> {
  const { org, place, person } = await target(ctx, ['delete', 'organization_member'], organization, user);
  const roles = person.organizations[org.id];
  if (!roles) throw notMember(org, person);
  const known = await rolesOfOrganization(ctx.sql, org.id);
  checkRoles(ctx, { asked: [], had: roles, known, organizationId: org.id });
  if (ctx.actor.kind === 'user' && ctx.actor.id === person.id) {
    throw new AppError('invalid', 'You cannot remove yourself from an organization.');
  }
  await ctx.sql.begin(async (tx) => {
    await deleteMember(tx, place, person.id);
    await changed(ctx, tx, { org, user: person, before: { roles } });
  });
}

/** Keeps custom roles from being deleted before they are assigned. */
async function holdRoles(tx: Tx, organizationId: string, names: string[]): Promise<void> {
  const custom = names.filter((name) => !Object.hasOwn(organizationRoles, name));
  if (custom.length === 0) return;
  const held = await holdCustomRoles(tx, organizationId, custom);
  if (held.length < custom.length) throw new AppError('conflict', 'A role was deleted meanwhile. Try again.');
}

export async function updateMemberRoles(
  ctx: Ctx,
  organization: string,
  user: string,
  input: UpdateRoles,
): Promise<OrganizationMember> {
  const { org, place, person } = await target(ctx, ['assign', 'assign_org_role'], organization, user);
  const had = person.organizations[org.id];
  if (!had) throw notMember(org, person);
  if (ctx.actor.kind === 'user' && ctx.actor.id === person.id) {
    throw new AppError('invalid', 'You cannot change your own organization roles.');
  }
  const known = await rolesOfOrganization(ctx.sql, org.id);
  const roles = checkRoles(ctx, { asked: input.roles ?? [], had, known, organizationId: org.id });
  return ctx.sql.begin(async (tx) => {
    await holdRoles(tx, org.id, roles);
    const row = await setMemberRoles(tx, place, person.id, roles);
    if (!row) throw notMember(org, person);
    const { updated_at, created_at } = row;
    await changed(ctx, tx, { org, user: person, before: { roles: had, updated_at, created_at }, after: row });
    return toMember(row, known);
  });
}
