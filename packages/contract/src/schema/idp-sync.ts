import { type Static, Type } from 'typebox';
import { Line, Nullable, named } from './kit.ts';

/** The values of a claim that a mapping may have, and what the people with one of them may get. */
export const MAX_MAPPED_VALUES = 10_000;
export const MAX_GIVEN_FOR_VALUE = 1_000;

/** Claim value → what its people get. Go programs send null for an empty mapping. */
const Mapping = Type.Record(Line, Type.Array(Line, { maxItems: MAX_GIVEN_FOR_VALUE }), {
  maxProperties: MAX_MAPPED_VALUES,
});

/** A regular expression in RE2 syntax. */
const Filter = Nullable(Line);

const organization = {
  field: Type.String(),
  mapping: Mapping,
  organization_assign_default: Type.Boolean(),
};
const group = {
  auto_create_missing_groups: Type.Boolean(),
  field: Type.String(),
  legacy_group_name_mapping: Type.Optional(Type.Record(Line, Line, { maxProperties: 10_000 })),
  mapping: Mapping,
  regex_filter: Filter,
};
const role = { field: Type.String(), mapping: Mapping };

export const OrganizationSyncSettings = named('OrganizationSyncSettings', Type.Object(organization));
export type OrganizationSyncSettings = Static<typeof OrganizationSyncSettings>;
export const GroupSyncSettings = named('GroupSyncSettings', Type.Object(group));
export type GroupSyncSettings = Static<typeof GroupSyncSettings>;
export const RoleSyncSettings = named('RoleSyncSettings', Type.Object(role));
export type RoleSyncSettings = Static<typeof RoleSyncSettings>;

/** The same in a request, where an absent field is empty. */
export const OrganizationSyncInput = Type.Partial(Type.Object({ ...organization, field: Line }));
export const GroupSyncInput = Type.Partial(Type.Object({ ...group, field: Line }));
export const RoleSyncInput = Type.Partial(Type.Object({ ...role, field: Line }));

export const PatchOrganizationIDPSyncConfigRequest = named(
  'PatchOrganizationIDPSyncConfigRequest',
  Type.Object({ assign_default: Type.Optional(Type.Boolean()), field: Type.Optional(Line) }),
);
export const PatchGroupIDPSyncConfigRequest = named(
  'PatchGroupIDPSyncConfigRequest',
  Type.Object({
    auto_create_missing_groups: Type.Optional(Type.Boolean()),
    field: Type.Optional(Line),
    regex_filter: Type.Optional(Filter),
  }),
);
export const PatchRoleIDPSyncConfigRequest = named(
  'PatchRoleIDPSyncConfigRequest',
  Type.Object({ field: Type.Optional(Line) }),
);

/** With the names of Go's fields, because upstream's structs give them no other. Any case is accepted. */
const pairs = Type.Optional(
  Type.Array(Type.Object({ Given: Type.Optional(Line), Gets: Type.Optional(Line) }), { maxItems: 10_000 }),
);
const mappingChange = () => Type.Object({ Add: pairs, Remove: pairs });
export const PatchOrganizationIDPSyncMappingRequest = named('PatchOrganizationIDPSyncMappingRequest', mappingChange());
export const PatchGroupIDPSyncMappingRequest = named('PatchGroupIDPSyncMappingRequest', mappingChange());
export const PatchRoleIDPSyncMappingRequest = named('PatchRoleIDPSyncMappingRequest', mappingChange());
