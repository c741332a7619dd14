import type { CreateOrganizationRequest, Organization, Response, UpdateOrganizationRequest } from '@platform/contract';
import { AppError, checkDisplayName, checkName } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { isPgError, UNIQUE_VIOLATION } from '../../db/connect.ts';
import type { OrganizationRow } from '../../db/queries/organizations.ts';
import { audit } from '../audit.ts';
import type { Ctx } from '../context.ts';
import { findOrganization } from './find.ts';
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

/** Makes an organization, with its maker as a member who administers it. */
export async function createOrganization(ctx: Ctx, input: CreateOrganizationRequest): Promise<Organization> {
  const { actor } = ctx;
  authorize(ctx, 'create', { type: 'organization' });
  checkFields(input);
  try {
    return await ctx.sql.begin(async (tx) => {
      const [row] = await tx<OrganizationRow[]>`INSERT INTO organizations (name, display_name, description, icon)
        VALUES (${input.name}, ${input.display_name || input.name}, ${input.description ?? ''}, ${input.icon ?? ''})
        RETURNING *`;
      if (actor.kind === 'user') {
        await tx`INSERT INTO organization_members (organization_id, user_id, roles)
          VALUES (${row!.id}, ${actor.id}, '{organization-admin}')`;
        await ctx.events.publish(tx, 'revoked', { user_ids: [actor.id] });
      }
      await audit(ctx, tx, entry(row!, 'create', 201));
      return toOrganization(row!);
    });
  } catch (err) {
    throw taken(err);
  }
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
      const [row] = await tx<OrganizationRow[]>`UPDATE organizations SET name = ${input.name || old.name},
        display_name = ${input.display_name || old.display_name}, description = ${input.description ?? old.description},
        icon = ${input.icon ?? old.icon}, updated_at = now() WHERE id = ${old.id} RETURNING *`;
      await audit(ctx, tx, entry(row!, 'write'));
      return toOrganization(row!);
    });
  } catch (err) {
    throw taken(err);
  }
}

/** Ends an organization that holds nothing any more; the default one stays. */
export async function deleteOrganization(ctx: Ctx, organization: string): Promise<Response> {
  const row = await findOrganization(ctx, 'delete', organization);
  if (row.is_default) throw new AppError('invalid', 'Default organization cannot be deleted.');
  return ctx.sql.begin(async (tx) => {
    const [left] = await tx<{ workspaces: number; templates: number }[]>`SELECT
      (SELECT count(*) FROM workspaces WHERE organization_id = ${row.id} AND NOT deleted) AS workspaces,
      (SELECT count(*) FROM templates WHERE organization_id = ${row.id} AND NOT deleted) AS templates`;
    const { workspaces, templates } = left!;
    if (workspaces + templates > 0) {
      throw new AppError('conflict', 'This organization is not empty: delete what it holds first.', {
        detail: `It has ${workspaces} workspaces and ${templates} templates.`,
      });
    }
    const members = await tx<{ user_id: string }[]>`DELETE FROM organization_members
      WHERE organization_id = ${row.id} RETURNING user_id`;
    const keys = await tx<
      { id: string }[]
    >`DELETE FROM provisioner_keys WHERE organization_id = ${row.id} RETURNING id`;
    await tx`UPDATE organizations SET deleted = true, updated_at = now() WHERE id = ${row.id}`;
    await audit(ctx, tx, entry(row, 'delete'));
    await ctx.events.publish(tx, 'revoked', {
      user_ids: members.map(({ user_id }) => user_id),
      provisioner_key_ids: keys.map(({ id }) => id),
    });
    return { message: 'Organization has been deleted.' };
  });
}
