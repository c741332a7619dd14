import { type Static, Type } from 'typebox';
import { MinimalUser } from './common.ts';
import { Group } from './groups.ts';
import { Line, named, stringEnum, Uuid } from './kit.ts';

const OWNERS = ['none', 'everyone', 'service_accounts'] as const;

/** Whose workspaces the members of an organization can share. */
export const WorkspaceSharingSettings = named(
  'WorkspaceSharingSettings',
  Type.Object({
    shareable_workspace_owners: stringEnum(OWNERS),
    /** Whether nobody's can. */
    sharing_disabled: Type.Boolean(),
    /** Whether no organization can change it. */
    sharing_globally_disabled: Type.Boolean(),
  }),
);
export type WorkspaceSharingSettings = Static<typeof WorkspaceSharingSettings>;

export const UpdateWorkspaceSharingSettingsRequest = named(
  'UpdateWorkspaceSharingSettingsRequest',
  Type.Object({
    /** "" stands for none: older clients send only `sharing_disabled`. */
    shareable_workspace_owners: Type.Optional(stringEnum([...OWNERS, ''])),
    sharing_disabled: Type.Optional(Type.Boolean()),
  }),
);
export type UpdateWorkspaceSharingSettingsRequest = Static<typeof UpdateWorkspaceSharingSettingsRequest>;

/** `use` connects, starts and stops. `admin` also changes the workspace and shares it. "" takes it back. */
export const WorkspaceRole = named('WorkspaceRole', stringEnum(['admin', 'use', '']));
export type WorkspaceRole = Static<typeof WorkspaceRole>;

/** People and groups that a workspace is shared with. */
export const WorkspaceACL = named(
  'WorkspaceACL',
  Type.Object({
    group: Type.Array(named('WorkspaceGroup', Type.Object({ ...Group.properties, role: WorkspaceRole }))),
    users: Type.Array(
      named(
        'WorkspaceUser',
        Type.Object({ ...MinimalUser.properties, name: Type.Optional(Type.String()), role: WorkspaceRole }),
      ),
    ),
  }),
);
export type WorkspaceACL = Static<typeof WorkspaceACL>;

const Roles = Type.Record(Line, WorkspaceRole, { maxProperties: 1_000 });

export const UpdateWorkspaceACL = named(
  'UpdateWorkspaceACL',
  Type.Object({
    /** Group id → role. */
    group_roles: Type.Optional(Roles),
    /** User id → role. */
    user_roles: Type.Optional(Roles),
  }),
);
export type UpdateWorkspaceACL = Static<typeof UpdateWorkspaceACL>;

/** A person or group that a workspace is shared with. */
export const SharedWorkspaceActor = named(
  'SharedWorkspaceActor',
  Type.Object({
    actor_type: named('SharedWorkspaceActorType', stringEnum(['group', 'user'])),
    avatar_url: Type.Optional(Type.String()),
    id: Uuid,
    name: Type.String(),
    roles: Type.Array(WorkspaceRole),
  }),
);
export type SharedWorkspaceActor = Static<typeof SharedWorkspaceActor>;
