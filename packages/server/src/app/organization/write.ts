import type { CreateOrganizationRequest, Organization, Response, UpdateOrganizationRequest } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkDisplayName, checkName } from '@ropewalk/rules';
import { allow, authorize } from '../../authz/authorize.ts';
import { organizationRoles } from '../../authz/policy.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { deleteCustomRolesOf } from '../../db/queries/custom-roles.ts';
import { deleteGroupsOf } from '../../db/queries/groups.ts';
import { deleteMembersOf, insertFounder, memberIdsOf } from '../../db/queries/members.ts';
import {
  contentsOf,
  insertOrganization,
  lockDefaultRoles,
  markOrganizationDeleted,
  updateOrganizationRow,
} from '../../db/queries/organizations.ts';
import { deleteProvisionerKeysOf } from '../../db/queries/provisioner-keys.ts';
import type { OrganizationRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireOrganizationRoom } from '../context/limits.ts';
import { findOrganization } from '../find/organization.ts';
import { checkRoles } from '../user/roles.ts';
import { toOrganization } from './read.ts';

function checkFields(input: UpdateOrganizationRequest): void {
  if (input.name !== undefined) {
    checkName('name', input.name);
    if (input.name.toLowerCase() === 'default') {
      const detail = '"default" is reserved';
      throw new AppError('invalid', `Invalid name: ${detail}`, { validations: [{ field: 'name', detail }] });
    }
  }
  if (input.display_name !== undefined) checkDisplayName('display_name', input.display_name);
  for (const [field, most] of [
    ['description', 128],
    ['icon', 1024],
  ] as const) {
    if ((input[field]?.length ?? 0) > most) {
      const detail = `must be at most ${most} characters long`;
      throw new AppError('invalid', `Invalid ${field}.`, { validations: [{ field, detail }] });
    }
  }
}

function taken(err: unknown): unknown {
  if (!isPgError(err, UNIQUE_VIOLATION)) return err;
  return new AppError('conflict', 'Organization already exists with that name.', {
    validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
  });
}

const entry = (row: OrganizationRow, action: string, status = 200) => ({
  resourceType: 'organization',
  resourceId: row.id,
  target: row.name,
  organizationId: row.id,
  action,
  status,
});

/** Creates an organization. Its creator becomes its first administrator. */
export async function createOrganization(ctx: Ctx, input: CreateOrganizationRequest): Promise<Organization> {
  const { actor } = ctx;
  const object = { type: 'organization' } as const;
  const allowed = authorize(ctx, 'create', object);
  checkFields(input);
  try {
    return await ctx.sql.begin(async (tx) => {
      await requireOrganizationRoom(tx);
      const row = await insertOrganization(tx, allowed, {
        name: input.name,
        display_name: input.display_name || input.name,
        description: input.description ?? '',
        icon: input.icon ?? '',
      });
      if (actor.kind === 'user') {
        await insertFounder(tx, allow(ctx, 'create', row, object), actor.id, ['organization-admin']);
        await ctx.events.publish(tx, 'revoked', { user_ids: [actor.id] });
      }
      await audit(ctx, tx, { ...entry(row, 'create', 201), after: row });
      return toOrganization(row);
    });
  } catch (err) {
    throw taken(err);
  }
}

/**
 * The new default roles of an organization. To change them means to assign and remove them for all members, so the actor
 * must be permitted to do that for one.
 */
async function defaultRoles(ctx: Ctx, tx: Tx, { id }: OrganizationRow, asked: string[]): Promise<string[]> {
  const known = Object.values(organizationRoles);
  const field = 'default_org_member_roles';
  const custom = asked.find((name) => !Object.hasOwn(organizationRoles, name));
  if (custom !== undefined) {
    const detail = `${JSON.stringify(custom)} is not a built-in role of an organization`;
    throw new AppError('invalid', `Invalid ${field}: ${detail}.`, { validations: [{ field, detail }] });
  }
  return checkRoles(ctx, { asked, had: await lockDefaultRoles(tx, id), known, organizationId: id });
}

export async function updateOrganization(
  ctx: Ctx,
  organization: string,
  input: UpdateOrganizationRequest,
): Promise<Organization> {
  const old = await findOrganization(ctx, 'update', organization);
  checkFields({ ...input, ...(input.name === old.name ? { name: undefined as never } : {}) });
  try {
    return await ctx.sql.begin(async (tx) => {
      const roles = input.default_org_member_roles;
      const row = await updateOrganizationRow(tx, old, {
        name: input.name || old.name,
        display_name: input.display_name || old.display_name,
        description: input.description ?? old.description,
        icon: input.icon ?? old.icon,
        default_org_member_roles: roles ? await defaultRoles(ctx, tx, old, roles) : old.default_org_member_roles,
      });
      await audit(ctx, tx, { ...entry(row, 'write'), before: old, after: row });
      if (roles) await ctx.events.publish(tx, 'revoked', { user_ids: await memberIdsOf(tx, row.id) });
      return toOrganization(row);
    });
  } catch (err) {
    throw taken(err);
  }
}

/** Deletes an empty organization, but never the default one. */
export async function deleteOrganization(ctx: Ctx, organization: string): Promise<Response> {
  const row = await findOrganization(ctx, 'delete', organization);
  if (row.is_default) throw new AppError('invalid', 'Default organization cannot be deleted.');
  return ctx.sql.begin(async (tx) => {
    const { workspaces, templates } = await contentsOf(tx, row.id);
    if (workspaces + templates > 0) {
      throw new AppError('conflict', 'This organization is not empty. Delete its workspaces and templates first.', {
        detail: `It has ${workspaces} workspaces and ${templates} templates.`,
      });
    }
    const members = await deleteMembersOf(tx, row);
    const keys = await deleteProvisionerKeysOf(tx, row);
    await deleteGroupsOf(tx, row);
    await deleteCustomRolesOf(tx, row);
    await markOrganizationDeleted(tx, row);
    await audit(ctx, tx, { ...entry(row, 'delete'), before: row });
    await ctx.events.publish(tx, 'revoked', {
      user_ids: members,
      provisioner_key_ids: keys,
    });
    return { message: 'Organization has been deleted.' };
  });
}
