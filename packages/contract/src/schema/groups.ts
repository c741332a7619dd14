import { type Static, Type } from 'typebox';
import { LoginType, UserStatus } from './common.ts';
import { ImageAddress, Line, named, stringEnum, Timestamp, Uuid } from './kit.ts';

/** A person as members of groups and permissions show them. */
export const ReducedUser = named(
  'ReducedUser',
  Type.Object({
    avatar_url: Type.Optional(Type.String()),
    created_at: Timestamp,
    email: Type.String(),
    id: Uuid,
    /** Absent in the accounts of people. */
    is_service_account: Type.Optional(Type.Boolean()),
    last_seen_at: Type.Optional(Timestamp),
    login_type: LoginType,
    name: Type.Optional(Type.String()),
    status: UserStatus,
    theme_preference: Type.Optional(Type.String()),
    updated_at: Timestamp,
    username: Type.String(),
  }),
);
export type ReducedUser = Static<typeof ReducedUser>;

/** Who made a group: a person, or the sync with the identity provider. */
export const GroupSource = named('GroupSource', stringEnum(['user', 'oidc']));
export type GroupSource = Static<typeof GroupSource>;

export const Group = named(
  'Group',
  Type.Object({
    avatar_url: Type.String(),
    display_name: Type.String(),
    /** The group Everyone has the id of its organization. */
    id: Uuid,
    /** Those that the caller may read. */
    members: Type.Array(ReducedUser),
    name: Type.String(),
    organization_display_name: Type.String(),
    organization_id: Uuid,
    organization_name: Type.String(),
    quota_allowance: Type.Integer(),
    source: GroupSource,
    /** All of them, also those that `members` leaves out. */
    total_member_count: Type.Integer(),
  }),
);
export type Group = Static<typeof Group>;

/** A page of a group's members: those that the caller may read. */
export const GroupMembersResponse = named(
  'GroupMembersResponse',
  Type.Object({
    /** All that match, also on other pages. */
    count: Type.Integer(),
    users: Type.Array(ReducedUser),
  }),
);
export type GroupMembersResponse = Static<typeof GroupMembersResponse>;

/** As large as the column and the sum over many groups allow. */
const Allowance = Type.Integer({ minimum: 0, maximum: 2_147_483_647 });
const Users = Type.Array(Uuid, { maxItems: 10_000 });

export const CreateGroupRequest = named(
  'CreateGroupRequest',
  Type.Object({
    avatar_url: Type.Optional(ImageAddress),
    display_name: Type.Optional(Line),
    name: Line,
    quota_allowance: Type.Optional(Allowance),
  }),
);
export type CreateGroupRequest = Static<typeof CreateGroupRequest>;

export const PatchGroupRequest = named(
  'PatchGroupRequest',
  Type.Object({
    add_users: Type.Optional(Users),
    avatar_url: Type.Optional(ImageAddress),
    display_name: Type.Optional(Line),
    name: Type.Optional(Line),
    quota_allowance: Type.Optional(Allowance),
    remove_users: Type.Optional(Users),
  }),
);
export type PatchGroupRequest = Static<typeof PatchGroupRequest>;
