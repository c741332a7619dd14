import { type Static, Type } from 'typebox';
import { Group } from './groups.ts';
import { named, stringEnum, Uuid } from './kit.ts';

// Workspaces cannot be shared with other people yet. These are the answers that upstream's clients get where an
// administrator has switched sharing off.

/** Whether people may share the workspaces of an organization. */
export const WorkspaceSharingSettings = named(
  'WorkspaceSharingSettings',
  Type.Object({
    /** Whose workspaces can be shared. */
    shareable_workspace_owners: stringEnum(['none', 'everyone', 'service_accounts']),
    sharing_disabled: Type.Boolean(),
    /** Whether no organization can change it. */
    sharing_globally_disabled: Type.Boolean(),
  }),
);
export type WorkspaceSharingSettings = Static<typeof WorkspaceSharingSettings>;

const WorkspaceRole = named('WorkspaceRole', stringEnum(['admin', 'use', '']));

/** People and groups that a workspace is shared with. */
export const WorkspaceACL = named(
  'WorkspaceACL',
  Type.Object({
    group: Type.Array(named('WorkspaceGroup', Type.Object({ ...Group.properties, role: WorkspaceRole }))),
    users: Type.Array(
      named(
        'WorkspaceUser',
        Type.Object({
          avatar_url: Type.Optional(Type.String()),
          id: Uuid,
          name: Type.Optional(Type.String()),
          role: WorkspaceRole,
          username: Type.String(),
        }),
      ),
    ),
  }),
);
export type WorkspaceACL = Static<typeof WorkspaceACL>;
