import type { CreateGroupRequest, Group, PatchGroupRequest, Response } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkDisplayName, checkGroupName } from '@ropewalk/rules';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import {
  addGroupMembers,
  deleteGroupRow,
  type GroupRow,
  groupById,
  insertGroup,
  memberIds,
  removeGroupMembers,
  updateGroupRow,
} from '../../db/queries/groups.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireGroupRoom } from '../context/limits.ts';
import { findGroup, isEveryone } from '../find/group.ts';
import { findInOrganization } from '../find/organization.ts';
import { toGroups } from './read.ts';

const EVERYONE = 'Everyone';

function checkFields(input: { name?: string; display_name?: string }): void {
  if (input.name !== undefined) {
    checkGroupName('name', input.name);
    if (input.name.toLowerCase() === EVERYONE.toLowerCase()) {
      const detail = `"${EVERYONE}" is reserved for the group of all members`;
      throw new AppError('invalid', `Invalid name: ${detail}`, { validations: [{ field: 'name', detail }] });
    }
  }
  if (input.display_name !== undefined) checkDisplayName('display_name', input.display_name);
}

function taken(err: unknown, name: string | undefined): unknown {
  if (!isPgError(err, UNIQUE_VIOLATION)) return err;
  return new AppError('conflict', `A group with name ${JSON.stringify(name)} already exists.`, {
    validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
  });
}

const entry = (row: GroupRow, action: string, status = 200) => ({
  resourceType: 'group',
  resourceId: row.id,
  target: row.name,
  organizationId: row.organization_id,
  action,
  status,
});

export async function createGroup(ctx: Ctx, organization: string, input: CreateGroupRequest): Promise<Group> {
  const place = await findInOrganization(ctx, 'create', { type: 'group' }, organization);
  checkFields(input);
  try {
    return await ctx.sql.begin(async (tx) => {
      await requireGroupRoom(ctx, tx, place.organizationId);
      const id = await insertGroup(tx, place, {
        name: input.name,
        display_name: input.display_name ?? '',
        avatar_url: input.avatar_url ?? '',
        quota_allowance: input.quota_allowance ?? 0,
        source: 'user',
      });
      const row = (await groupById(tx, id))!;
      await audit(ctx, tx, { ...entry(row, 'create', 201), after: row });
      return (await toGroups(ctx, tx, [row]))[0]!;
    });
  } catch (err) {
    throw taken(err, input.name);
  }
}

/** Rejects changes that the group of all members cannot have. */
function checkEveryone(old: GroupRow, input: PatchGroupRequest): void {
  if (!isEveryone(old)) return;
  const renamed = input.name && input.name !== old.name;
  const moved = (input.add_users?.length ?? 0) + (input.remove_users?.length ?? 0) > 0;
  if (renamed) throw new AppError('invalid', `The group "${EVERYONE}" cannot be renamed.`);
  if (moved) {
    throw new AppError(
      'invalid',
      `You cannot change the members of "${EVERYONE}": it contains all members of the organization.`,
      {
        detail: 'Add people to the organization, or remove them from it.',
      },
    );
  }
}

function unchanged(asked: readonly string[], done: readonly string[], message: string, detail: string): void {
  const missed = [...new Set(asked)].filter((id) => !done.includes(id));
  if (missed.length > 0) throw new AppError('precondition', message, { detail: `${detail}: ${missed.join(', ')}` });
}

/** Changes the fields that are present, and adds and removes members. */
export async function updateGroup(ctx: Ctx, id: string, input: PatchGroupRequest): Promise<Group> {
  const old = await findGroup(ctx, 'update', id);
  checkEveryone(old, input);
  const { display_name } = input;
  checkFields({
    ...(input.name && input.name !== old.name ? { name: input.name } : {}),
    ...(display_name === undefined ? {} : { display_name }),
  });
  const { add_users: added = [], remove_users: removed = [] } = input;
  try {
    return await ctx.sql.begin(async (tx) => {
      const before = { ...old, members: await memberIds(tx, id) };
      await updateGroupRow(tx, old, {
        name: input.name || old.name,
        display_name: display_name ?? old.display_name,
        avatar_url: input.avatar_url ?? old.avatar_url,
        quota_allowance: input.quota_allowance ?? old.quota_allowance,
      });
      if (added.length > 0) {
        unchanged(
          added,
          await addGroupMembers(tx, old, added),
          'Cannot add these users to the group.',
          `Each must be a member of ${old.organization_name} and not of the group yet`,
        );
      }
      if (removed.length > 0) {
        const message = 'Cannot remove these users from the group.';
        unchanged(removed, await removeGroupMembers(tx, old, removed), message, 'They are not its members');
      }
      const row = (await groupById(tx, id))!;
      await audit(ctx, tx, {
        ...entry(row, 'write'),
        fields: { added, removed },
        before,
        after: { ...row, members: await memberIds(tx, id) },
      });
      await announce(ctx, tx, [...added, ...removed]);
      return (await toGroups(ctx, tx, [row]))[0]!;
    });
  } catch (err) {
    throw taken(err, input.name);
  }
}

/** Makes sessions and open streams of these people apply their new groups. */
async function announce(ctx: Ctx, tx: Tx, userIds: string[]): Promise<void> {
  if (userIds.length > 0) await ctx.events.publish(tx, 'revoked', { user_ids: userIds });
}

export async function deleteGroup(ctx: Ctx, id: string): Promise<Response> {
  const group = await findGroup(ctx, 'delete', id);
  if (isEveryone(group)) throw new AppError('invalid', `The group "${EVERYONE}" cannot be deleted.`);
  return ctx.sql.begin(async (tx) => {
    const members = await memberIds(tx, id);
    await deleteGroupRow(tx, group);
    await audit(ctx, tx, { ...entry(group, 'delete'), before: { ...group, members } });
    await announce(ctx, tx, members);
    return { message: 'The group has been deleted.' };
  });
}
