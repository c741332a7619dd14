// Sharing of workspaces: docs/sharing.md, docs/decisions/0073-sharing.md.

import type {
  UpdateWorkspaceACL,
  UpdateWorkspaceSharingSettingsRequest,
  WorkspaceACL,
  WorkspaceRole,
  WorkspaceSharingSettings,
} from '@ropewalk/contract';
import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import { type Allowed, allow, may } from '../../authz/authorize.ts';
import { type Action, listed, type ShareableOwners } from '../../authz/policy.ts';
import type { Tx } from '../../db/connect.ts';
import {
  clearWorkspaceAcl,
  lockShareableOwners,
  permittedUsers,
  setShareableOwners,
  sharingOf,
  updateWorkspaceAcl,
} from '../../db/queries/acls.ts';
import type { Acls, OrganizationRow, WorkspaceRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findOrganization } from '../find/organization.ts';
import { findWorkspace, workspaceObject } from '../find/workspace.ts';
import { type AclChanges, checkAcl, groupsOf, splitAcl } from '../group/acl.ts';
import { toGroup } from '../group/read.ts';
import { inForce } from './shares.ts';
import { changeWorkspace } from './update.ts';

/** People and groups that one workspace can be shared with. */
export const MAX_SHARES_PER_WORKSPACE = 500;

function toSettings(
  { config }: Pick<Ctx, 'config'>,
  { shareable_workspace_owners: stored }: Pick<OrganizationRow, 'shareable_workspace_owners'>,
): WorkspaceSharingSettings {
  const owners = config.disableWorkspaceSharing ? 'none' : stored;
  return {
    sharing_globally_disabled: config.disableWorkspaceSharing,
    sharing_disabled: owners === 'none',
    shareable_workspace_owners: owners,
  };
}

/** Whose workspaces can be shared in an organization. */
export async function sharingSettings(ctx: Ctx, organization: string): Promise<WorkspaceSharingSettings> {
  return toSettings(ctx, await findOrganization(ctx, 'read', organization));
}

/** Sets whose workspaces can be shared. The lists of the others are emptied, as upstream does. */
export async function setSharingSettings(
  ctx: Ctx,
  organization: string,
  input: UpdateWorkspaceSharingSettingsRequest,
): Promise<WorkspaceSharingSettings> {
  const before = await findOrganization(ctx, 'update', organization);
  const owners: ShareableOwners = input.shareable_workspace_owners || (input.sharing_disabled ? 'none' : 'everyone');
  const after = await ctx.sql.begin(async (tx) => {
    const { row, cleared } = await setShareableOwners(tx, before, owners);
    await audit(ctx, tx, {
      resourceType: 'organization',
      resourceId: row.id,
      target: row.name,
      action: 'write',
      organizationId: row.id,
      fields: { unshared_workspaces: cleared.length },
      before,
      after: row,
    });
    for (const workspace of cleared) {
      await announce(ctx, tx, workspace);
      const { id, owner_id } = workspace;
      await ctx.events.publish(tx, 'workspace_changed', { workspace_id: id, owner_id });
    }
    return row;
  });
  return toSettings(ctx, after);
}

/** Announces a change to the streams of those who had or get access. */
async function announce(
  ctx: Ctx,
  tx: Tx,
  { id, user_acl, group_acl }: Pick<WorkspaceRow, 'id' | keyof Acls>,
): Promise<void> {
  await ctx.events.publish(tx, 'app_access_changed', { workspace_id: id });
  await ctx.events.publish(tx, 'shares_changed', {
    user_ids: Object.keys(user_acl),
    group_ids: Object.keys(group_acl),
  });
}

/** The people and groups that a workspace is shared with, for everyone who may read it. Members of groups are not listed. */
export async function workspaceAcl(ctx: Ctx, id: string): Promise<WorkspaceACL> {
  const { user_acl, group_acl, organization_id } = inForce(ctx, await findWorkspace(ctx, 'read', id));
  const users = await permittedUsers(ctx.lists, Object.keys(user_acl));
  const groups = await groupsOf(ctx, organization_id, Object.keys(group_acl));
  return {
    users: users
      .filter(({ organization_ids: ids }) => ids.includes(organization_id))
      .map(({ id: userId, username, name, avatar_url }) => ({
        id: userId,
        username,
        name,
        avatar_url,
        role: user_acl[userId] as WorkspaceRole,
      })),
    group: groups.map((group) => ({ ...toGroup(group, []), role: group_acl[group.id] as WorkspaceRole })),
  };
}

/** @throws AppError `forbidden` if the owner's workspaces cannot be shared */
function requireSharing(
  ctx: Ctx,
  organization: Pick<OrganizationRow, 'shareable_workspace_owners'>,
  ofServiceAccount: boolean,
): void {
  const { shareable_workspace_owners: owners } = toSettings(ctx, organization);
  if (owners === 'none') throw new AppError('forbidden', 'Workspace sharing is disabled for this organization.');
  if (owners === 'service_accounts' && !ofServiceAccount)
    throw new AppError('forbidden', 'Only workspaces of service accounts can be shared in this organization.');
}

/**
 * Shares a workspace with people and groups, and takes it back from others. Nobody gives what they may not do themselves: an
 * administrator who may not open shells could otherwise let someone in.
 * @throws AppError `forbidden` if sharing is off or the actor may not share, `invalid`, `conflict` for too many entries
 */
export async function updateAcl(ctx: Ctx, id: string, input: UpdateWorkspaceACL): Promise<void> {
  const changes = { users: splitAcl(input.user_roles), groups: splitAcl(input.group_roles) };
  await changeAcl(ctx, id, {
    async check(workspace) {
      requireRights(ctx, workspace, changes);
      await checkAcl(ctx, workspace.organization_id, changes, {
        message: 'Invalid request to update workspace ACL',
        fields: ['user_roles', 'group_roles'],
      });
    },
    async change(tx, workspace) {
      const entries = await updateWorkspaceAcl(tx, workspace, changes);
      if (entries > MAX_SHARES_PER_WORKSPACE)
        throw new AppError(
          'conflict',
          `A workspace can be shared with at most ${MAX_SHARES_PER_WORKSPACE} people and groups.`,
          {
            detail: 'Share it with a group instead.',
          },
        );
    },
    concerned: (workspace) => ({ ...workspace, ...concerned(changes) }),
  });
}

/**
 * Checks that the actor may do what these levels permit, and does not change their own level, unless they may share all
 * workspaces of the organization.
 */
function requireRights(ctx: Ctx, workspace: SharedWorkspace, { users, groups }: AclChanges): void {
  const { actor } = ctx;
  const { organization_id: organizationId, owner_id: ownerId } = workspace;
  const self = actor.kind === 'user' ? actor.id : '';
  if ((self in users.set || users.remove.includes(self)) && !may(actor, 'share', { type: 'workspace', organizationId }))
    throw new AppError('invalid', 'You cannot change your own workspace sharing role.');
  if (ownerId in users.set) {
    const detail = `${workspace.owner_name} owns the workspace`;
    throw new AppError('invalid', 'Invalid request to update workspace ACL', {
      validations: [{ field: 'user_roles', detail }],
    });
  }
  for (const role of new Set([...Object.values(users.set), ...Object.values(groups.set)])) {
    const actions = listed.workspace?.[role] ?? [];
    for (const action of actions) {
      if (may(actor, action as Action, workspaceObject(workspace))) continue;
      throw new AppError('forbidden', 'Forbidden.', {
        detail: `You cannot give the role "${role}": you do not have its permission "${action}" on this workspace.`,
      });
    }
  }
}

/** Takes a workspace back from everyone. */
export async function clearAcl(ctx: Ctx, id: string): Promise<void> {
  await changeAcl(ctx, id, { change: clearWorkspaceAcl, concerned: (workspace) => workspace });
}

const concerned = ({ users, groups }: AclChanges): Acls => ({
  user_acl: Object.fromEntries([...Object.keys(users.set), ...users.remove].map((id) => [id, ''])),
  group_acl: Object.fromEntries([...Object.keys(groups.set), ...groups.remove].map((id) => [id, ''])),
});

type SharedWorkspace = Allowed<'share', WorkspaceRow>;

interface AclOperation {
  check?(workspace: SharedWorkspace): Promise<void>;
  change(tx: Tx, workspace: SharedWorkspace): Promise<void>;
  /** Whose access may differ afterwards. */
  concerned(workspace: SharedWorkspace): Pick<WorkspaceRow, 'id' | keyof Acls>;
}

async function changeAcl(ctx: Ctx, id: string, operation: AclOperation): Promise<void> {
  const row = await findWorkspace(ctx, 'read', id);
  if (row.owner_id === PREBUILDS_USER_ID)
    throw new AppError('conflict', 'An unclaimed prebuilt workspace cannot be shared.');
  const { of_service_account: ofServiceAccount, ...organization } = await sharingOf(ctx.sql, row);
  requireSharing(ctx, organization, ofServiceAccount);
  const workspace = allow(ctx, 'share', row, workspaceObject(row));
  await operation.check?.(workspace);
  await changeWorkspace(ctx, workspace, async (tx) => {
    // the setting may have changed meanwhile, which would have emptied the lists
    requireSharing(ctx, await lockShareableOwners(tx, workspace), ofServiceAccount);
    await operation.change(tx, workspace);
    await announce(ctx, tx, operation.concerned(workspace));
  });
}
