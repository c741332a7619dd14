/**
 * Makes a person's organizations, groups and roles those that the claims of the identity provider name. A kind without a
 * claim field changes nothing. A kind with one is decided by the claims alone: what they do not name is removed.
 */
import type { GroupSyncSettings } from '@ropewalk/contract';
import { isAppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { compile, type Expression } from '@ropewalk/kit/re2';
import { checkGroupName } from '@ropewalk/rules';
import { allow, authorize, authorizeOver } from '../../authz/authorize.ts';
import { siteRoles } from '../../authz/policy.ts';
import type { Tx } from '../../db/connect.ts';
import { addGroupMembers, groupById, insertGroup, listGroupRows, removeGroupMembers } from '../../db/queries/groups.ts';
import { deleteMember, insertMembers, setMemberRoles } from '../../db/queries/members.ts';
import { allOrganizations } from '../../db/queries/organizations.ts';
import { anotherOwner, lockUsers, setSiteRoles, userById } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { roomForGroups } from '../context/limits.ts';
import { groupObject, isEveryone } from '../find/group.ts';
import { rolesOfOrganization } from '../organization/roles.ts';
import { claimTexts } from './claims.ts';
import type { Claims } from './provider.ts';
import { syncSettings, textRecord } from './sync-settings.ts';

/** What a sync changed, for the audit log. */
type Changes = Record<string, string[]>;

const EVERYTHING = { all: true, organizationIds: [], ownerId: '', ids: null };

/** Applies the claims of a person who signs in. The context is the server's own. Whether anything changed. */
export async function syncIdentity(system: Ctx, tx: Tx, userId: string, claims: Claims): Promise<boolean> {
  const changes: Changes = {};
  await syncOrganizations(system, tx, userId, claims, changes);
  await syncGroups(system, tx, userId, claims, changes);
  await syncOrganizationRoles(system, tx, userId, claims, changes);
  await syncSiteRoles(system, tx, userId, claims, changes);
  if (Object.keys(changes).length === 0) return false;
  const user = (await userById(tx, userId))!;
  await audit(system, tx, {
    resourceType: 'user',
    resourceId: userId,
    target: user.username,
    action: 'write',
    fields: { identity_sync: changes },
    userId,
  });
  await system.events.publish(tx, 'revoked', { user_ids: [userId] });
  return true;
}

async function syncOrganizations(system: Ctx, tx: Tx, userId: string, claims: Claims, changes: Changes) {
  const all = await allOrganizations(tx);
  const main = all.find(({ is_default }) => is_default)!;
  const settings = await syncSettings(tx, system.config, 'organization', main);
  if (settings.field === '') return;
  const wanted = new Set(
    claimTexts(claims, settings.field).flatMap((claim) => ownValue(settings.mapping, claim) ?? []),
  );
  if (settings.organization_assign_default) wanted.add(main.id);
  const { organizations } = (await userById(tx, userId))!;
  // a mapping may name an organization that was deleted
  const missing = all.filter(({ id }) => wanted.has(id) && !(id in organizations));
  const surplus = all.filter(({ id }) => !wanted.has(id) && id in organizations);
  const places = missing.map(({ id }) =>
    authorize(system, 'create', { type: 'organization_member', organizationId: id }),
  );
  await insertMembers(tx, places, userId);
  for (const { id } of surplus) {
    await deleteMember(tx, authorize(system, 'delete', { type: 'organization_member', organizationId: id }), userId);
  }
  if (missing.length > 0) changes['organizations_added'] = missing.map(({ name }) => name);
  if (surplus.length > 0) changes['organizations_removed'] = surplus.map(({ name }) => name);
}

/** The ids and names of the groups that claims give. */
export function wantedGroups(claims: Claims, settings: GroupSyncSettings): { ids: Set<string>; names: string[] } {
  const filter = settings.regex_filter ? compile(settings.regex_filter) : undefined;
  const ids = new Set<string>();
  const names: string[] = [];
  for (const claim of claimTexts(claims, settings.field)) {
    const name = ownValue(settings.legacy_group_name_mapping ?? {}, claim) ?? claim;
    if (filter && !matches(filter, name)) continue;
    const given = ownValue(settings.mapping, name);
    if (given) for (const id of given) ids.add(id);
    else names.push(name);
  }
  return { ids, names };
}

/** A name that is too long for the expression matches nothing. */
function matches(expression: Expression, name: string): boolean {
  try {
    return expression.test(name);
  } catch {
    return false;
  }
}

/** The maximum number of groups that one sign-in may create. */
const MAX_NEW_GROUPS = 100;

const isGroupName = (name: string): boolean => {
  try {
    checkGroupName('name', name);
    return true;
  } catch (err) {
    if (isAppError(err)) return false;
    throw err;
  }
};

async function syncGroups(system: Ctx, tx: Tx, userId: string, claims: Claims, changes: Changes) {
  const user = (await userById(tx, userId))!;
  for (const organization of await allOrganizations(tx)) {
    if (!(organization.id in user.organizations)) continue;
    const settings = await syncSettings(tx, system.config, 'group', organization);
    if (settings.field === '') continue;
    const { ids, names } = wantedGroups(claims, settings);
    const wantedNames = new Set(names.map((name) => name.toLowerCase()));
    const filter = { scope: EVERYTHING, own: [], organizationId: organization.id };
    const groups = (await listGroupRows(tx, filter)).filter((group) => !isEveryone(group));
    if (settings.auto_create_missing_groups) {
      const known = new Set(groups.map(({ name }) => name.toLowerCase()));
      const fresh = names.filter(
        (name) => !known.has(name.toLowerCase()) && isGroupName(name) && !/^everyone$/i.test(name),
      );
      const missing = [...new Map(fresh.map((each) => [each.toLowerCase(), each])).values()];
      const room = missing.length === 0 ? 0 : await roomForGroups(system, tx, organization.id);
      const creatable = missing.slice(0, Math.min(MAX_NEW_GROUPS, room));
      if (creatable.length < missing.length) {
        system.log.warn('a sign-in creates fewer groups than its claims name: the limit of groups is reached', {
          organization: organization.name,
          named: missing.length,
          created: creatable.length,
        });
      }
      for (const name of creatable) {
        const place = authorize(system, 'create', { type: 'group', organizationId: organization.id });
        const fields = { name, display_name: '', avatar_url: '', quota_allowance: 0, source: 'oidc' as const };
        groups.push((await groupById(tx, await insertGroup(tx, place, fields)))!);
      }
    }
    const mine = new Set(
      (await listGroupRows(tx, { ...filter, userId })).filter((group) => !isEveryone(group)).map(({ id }) => id),
    );
    for (const group of groups) {
      const wanted = ids.has(group.id) || wantedNames.has(group.name.toLowerCase());
      if (wanted === mine.has(group.id)) continue;
      const writable = allow(system, 'update', group, groupObject(group));
      await (wanted ? addGroupMembers : removeGroupMembers)(tx, writable, [userId]);
      const kind = wanted ? 'groups_added' : 'groups_removed';
      changes[kind] = [...(changes[kind] ?? []), group.name];
    }
  }
}

async function syncOrganizationRoles(system: Ctx, tx: Tx, userId: string, claims: Claims, changes: Changes) {
  const user = (await userById(tx, userId))!;
  for (const organization of await allOrganizations(tx)) {
    const had = user.organizations[organization.id];
    if (!had) continue;
    const settings = await syncSettings(tx, system.config, 'role', organization);
    if (settings.field === '') continue;
    const known = new Set((await rolesOfOrganization(tx, organization.id)).map(({ name }) => name));
    const given = claimTexts(claims, settings.field).flatMap((claim) => ownValue(settings.mapping, claim) ?? [claim]);
    const wanted = [...new Set(given)].filter((name) => known.has(name) && name !== 'organization-member');
    if (sameNames(had, wanted)) continue;
    const place = authorize(system, 'assign', { type: 'assign_org_role', organizationId: organization.id });
    await setMemberRoles(tx, place, userId, wanted);
    changes[`roles_in_${organization.name}`] = wanted;
  }
}

/** The roles of the whole site, which options alone configure. */
async function syncSiteRoles(system: Ctx, tx: Tx, userId: string, claims: Claims, changes: Changes) {
  const { config } = system;
  const { oidcUserRoleField: field, oidcUserRoleMapping, oidcUserRoleDefault } = config;
  if (field === '') return;
  const user = (await userById(tx, userId))!;
  const mapping = oidcUserRoleMapping as Record<string, unknown> | null;
  const rolesOf = (claim: string): string[] => {
    const to = ownValue(mapping ?? {}, claim);
    if (to === undefined) return [claim];
    return Array.isArray(to) ? to.map(String) : [textRecord(mapping)[claim] ?? ''];
  };
  const given = [...claimTexts(claims, field).flatMap(rolesOf), ...oidcUserRoleDefault];
  const wanted = [...new Set(given)].filter((name) => Object.hasOwn(siteRoles, name) && name !== 'member');
  if (user.rbac_roles.includes('owner') && !wanted.includes('owner')) {
    await lockUsers(tx);
    if (!(await anotherOwner(tx, userId))) {
      system.log.warn('the last owner keeps the role, which the identity provider no longer gives', {
        user_id: userId,
      });
      wanted.push('owner');
    }
  }
  if (sameNames(user.rbac_roles, wanted)) return;
  const assignee = allow(system, 'assign', user, { type: 'assign_role' });
  await setSiteRoles(tx, authorizeOver(system, assignee), wanted);
  changes['site_roles'] = wanted;
}

const sameNames = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((name) => b.includes(name));
