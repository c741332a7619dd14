import type { ReducedUser, SlimRole, User } from '@ropewalk/contract';
import { may } from '../../authz/authorize.ts';
import { organizationRoles, type Role, siteRoles } from '../../authz/policy.ts';
import type { UserRow, UserWithRoles } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { NEVER, time } from '../values/time.ts';

/** Roles by name, with the display names of the built-in and of these custom ones. */
export function slimRoles(names: string[], organizationId?: string, custom: readonly Role[] = []): SlimRole[] {
  const find = (name: string) =>
    siteRoles[name] ?? organizationRoles[name] ?? custom.find((role) => role.name === name);
  return names.map((name) => ({
    name,
    display_name: find(name)?.displayName ?? '',
    ...(organizationId ? { organization_id: organizationId } : {}),
  }));
}

/** When a person used the server last. */
export const seen = ({ last_seen_at: at }: Pick<UserRow, 'last_seen_at'>): string => (at ? time(at) : NEVER);

/** Upstream's programs leave it out for the accounts of people. */
export const serviceAccount = ({ is_service_account: is }: Pick<UserRow, 'is_service_account'>) =>
  is ? { is_service_account: true } : {};

/** A person without organizations and roles. */
export function toReducedUser(user: UserRow): ReducedUser {
  return {
    id: user.id,
    username: user.username,
    name: user.name,
    avatar_url: user.avatar_url,
    email: user.email,
    created_at: time(user.created_at),
    updated_at: time(user.updated_at),
    last_seen_at: seen(user),
    status: user.status,
    login_type: user.login_type,
    ...serviceAccount(user),
    theme_preference: user.theme_preference,
  };
}

export function toUser(user: UserRow, organizationIds: string[]): User {
  return {
    ...toReducedUser(user),
    organization_ids: organizationIds,
    roles: slimRoles(user.rbac_roles),
    has_ai_seat: false,
  };
}

/** The organizations of a person that the actor may see, with the person's roles in each. */
export function visibleOrganizations({ actor }: Pick<Ctx, 'actor'>, user: UserWithRoles): Record<string, string[]> {
  const visible = Object.entries(user.organizations).filter(([organizationId]) =>
    may(actor, 'read', { type: 'organization_member', organizationId, ownerId: user.id }),
  );
  return Object.fromEntries(visible);
}

export function toUserWithRoles(ctx: Pick<Ctx, 'actor'>, user: UserWithRoles): User {
  return toUser(user, Object.keys(visibleOrganizations(ctx, user)));
}
