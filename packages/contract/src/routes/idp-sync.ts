import { Type } from 'typebox';
import {
  GroupSyncInput,
  GroupSyncSettings,
  OrganizationSyncInput,
  OrganizationSyncSettings,
  PatchGroupIDPSyncConfigRequest,
  PatchGroupIDPSyncMappingRequest,
  PatchOrganizationIDPSyncConfigRequest,
  PatchOrganizationIDPSyncMappingRequest,
  PatchRoleIDPSyncConfigRequest,
  PatchRoleIDPSyncMappingRequest,
  RoleSyncInput,
  RoleSyncSettings,
} from '../schema/idp-sync.ts';
import { Line } from '../schema/kit.ts';
import { route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const common = { tag: 'Enterprise', auth: 'session' } as const;
const params = Type.Object({ organization: Type.String() });
const query = Type.Object({ claimField: Type.Optional(Line) });
const texts = { 200: Type.Array(Type.String()) };

export const idpSyncRoutes = {
  'GET /settings/idpsync/organization': route({ ...common, responses: { 200: OrganizationSyncSettings } }),
  'PATCH /settings/idpsync/organization': route({
    ...common,
    body: OrganizationSyncInput,
    unknownKeys: unknownKeys('access'),
    responses: { 200: OrganizationSyncSettings },
  }),
  'PATCH /settings/idpsync/organization/config': route({
    ...common,
    body: PatchOrganizationIDPSyncConfigRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: OrganizationSyncSettings },
  }),
  'PATCH /settings/idpsync/organization/mapping': route({
    ...common,
    body: PatchOrganizationIDPSyncMappingRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: OrganizationSyncSettings },
  }),
  'GET /settings/idpsync/available-fields': route({ ...common, responses: texts }),
  'GET /settings/idpsync/field-values': route({ ...common, query, responses: texts }),
  'GET /organizations/{organization}/settings/idpsync/available-fields': route({ ...common, params, responses: texts }),
  'GET /organizations/{organization}/settings/idpsync/field-values': route({
    ...common,
    params,
    query,
    responses: texts,
  }),
  'GET /organizations/{organization}/settings/idpsync/groups': route({
    ...common,
    params,
    responses: { 200: GroupSyncSettings },
  }),
  'PATCH /organizations/{organization}/settings/idpsync/groups': route({
    ...common,
    params,
    body: GroupSyncInput,
    unknownKeys: unknownKeys('access'),
    responses: { 200: GroupSyncSettings },
  }),
  'PATCH /organizations/{organization}/settings/idpsync/groups/config': route({
    ...common,
    params,
    body: PatchGroupIDPSyncConfigRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: GroupSyncSettings },
  }),
  'PATCH /organizations/{organization}/settings/idpsync/groups/mapping': route({
    ...common,
    params,
    body: PatchGroupIDPSyncMappingRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: GroupSyncSettings },
  }),
  'GET /organizations/{organization}/settings/idpsync/roles': route({
    ...common,
    params,
    responses: { 200: RoleSyncSettings },
  }),
  'PATCH /organizations/{organization}/settings/idpsync/roles': route({
    ...common,
    params,
    body: RoleSyncInput,
    unknownKeys: unknownKeys('access'),
    responses: { 200: RoleSyncSettings },
  }),
  'PATCH /organizations/{organization}/settings/idpsync/roles/config': route({
    ...common,
    params,
    body: PatchRoleIDPSyncConfigRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: RoleSyncSettings },
  }),
  'PATCH /organizations/{organization}/settings/idpsync/roles/mapping': route({
    ...common,
    params,
    body: PatchRoleIDPSyncMappingRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: RoleSyncSettings },
  }),
} as const;
