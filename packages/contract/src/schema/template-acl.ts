import { type Static, Type } from 'typebox';
import { SlimRole } from './common.ts';
import { Group, ReducedUser } from './groups.ts';
import { Line, named, stringEnum, Uuid } from './kit.ts';

/** What a person or group may do with a template: `use` also reads it, `admin` does everything. "" takes it back. */
export const TemplateRole = named('TemplateRole', stringEnum(['admin', 'use', '']));
export type TemplateRole = Static<typeof TemplateRole>;

export const TemplateUser = named(
  'TemplateUser',
  Type.Object({
    ...ReducedUser.properties,
    has_ai_seat: Type.Boolean(),
    organization_ids: Type.Array(Uuid),
    role: TemplateRole,
    roles: Type.Array(SlimRole),
  }),
);
export type TemplateUser = Static<typeof TemplateUser>;

export const TemplateGroup = named('TemplateGroup', Type.Object({ ...Group.properties, role: TemplateRole }));
export type TemplateGroup = Static<typeof TemplateGroup>;

export const TemplateACL = named(
  'TemplateACL',
  Type.Object({ group: Type.Array(TemplateGroup), users: Type.Array(TemplateUser) }),
);
export type TemplateACL = Static<typeof TemplateACL>;

/** People and groups of the template's organization. */
export const ACLAvailable = named(
  'ACLAvailable',
  Type.Object({ groups: Type.Array(Group), users: Type.Array(ReducedUser) }),
);
export type ACLAvailable = Static<typeof ACLAvailable>;

const Permissions = Type.Record(Line, TemplateRole, { maxProperties: 10_000 });

export const UpdateTemplateACL = named(
  'UpdateTemplateACL',
  Type.Object({
    /** Group id → role. */
    group_perms: Type.Optional(Permissions),
    /** User id → role. */
    user_perms: Type.Optional(Permissions),
  }),
);
export type UpdateTemplateACL = Static<typeof UpdateTemplateACL>;
