import type { WorkspaceACL, WorkspaceSharingSettings } from '@ropewalk/contract';
import type { Ctx } from '../context/context.ts';
import { findOrganization } from '../find/organization.ts';
import { findWorkspace } from '../find/workspace.ts';

/** Whether people may share workspaces: not in any organization. */
export async function sharingSettings(ctx: Ctx, organization: string): Promise<WorkspaceSharingSettings> {
  await findOrganization(ctx, 'read', organization);
  return { sharing_globally_disabled: true, sharing_disabled: true, shareable_workspace_owners: 'none' };
}

/** The people and groups that a workspace is shared with: none. */
export async function workspaceAcl(ctx: Ctx, id: string): Promise<WorkspaceACL> {
  await findWorkspace(ctx, 'read', id);
  return { users: [], group: [] };
}
