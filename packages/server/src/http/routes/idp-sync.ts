import {
  changedMapping,
  changeSyncSettings,
  getSyncSettings,
  listClaimFields,
  listClaimValues,
} from '../../app/sign-in/sync-settings.ts';
import { defineHandlers } from '../exchange.ts';

export const idpSyncHandlers = defineHandlers({
  'GET /settings/idpsync/organization': (ctx) => getSyncSettings(ctx, 'organization'),
  'PATCH /settings/idpsync/organization': (ctx, { body }) =>
    changeSyncSettings(ctx, 'organization', () => ({
      field: body.field ?? '',
      mapping: body.mapping ?? {},
      organization_assign_default: body.organization_assign_default ?? false,
    })),
  'PATCH /settings/idpsync/organization/config': (ctx, { body }) =>
    changeSyncSettings(ctx, 'organization', (now) => ({
      ...now,
      field: body.field ?? '',
      organization_assign_default: body.assign_default ?? false,
    })),
  'PATCH /settings/idpsync/organization/mapping': (ctx, { body }) =>
    changeSyncSettings(ctx, 'organization', (now) => ({ ...now, mapping: changedMapping(now.mapping, body) })),
  'GET /settings/idpsync/available-fields': (ctx) => listClaimFields(ctx),
  'GET /settings/idpsync/field-values': (ctx, { query }) => listClaimValues(ctx, query.claimField),
  'GET /organizations/{organization}/settings/idpsync/available-fields': (ctx, { params }) =>
    listClaimFields(ctx, params.organization),
  'GET /organizations/{organization}/settings/idpsync/field-values': (ctx, { params, query }) =>
    listClaimValues(ctx, query.claimField, params.organization),
  'GET /organizations/{organization}/settings/idpsync/groups': (ctx, { params }) =>
    getSyncSettings(ctx, 'group', params.organization),
  'PATCH /organizations/{organization}/settings/idpsync/groups': (ctx, { params, body }) =>
    changeSyncSettings(
      ctx,
      'group',
      () => ({
        field: body.field ?? '',
        mapping: body.mapping ?? {},
        regex_filter: body.regex_filter ?? null,
        auto_create_missing_groups: body.auto_create_missing_groups ?? false,
        ...(body.legacy_group_name_mapping ? { legacy_group_name_mapping: body.legacy_group_name_mapping } : {}),
      }),
      params.organization,
    ),
  'PATCH /organizations/{organization}/settings/idpsync/groups/config': (ctx, { params, body }) =>
    changeSyncSettings(
      ctx,
      'group',
      (now) => ({
        ...now,
        field: body.field ?? '',
        regex_filter: body.regex_filter ?? null,
        auto_create_missing_groups: body.auto_create_missing_groups ?? false,
      }),
      params.organization,
    ),
  'PATCH /organizations/{organization}/settings/idpsync/groups/mapping': (ctx, { params, body }) =>
    changeSyncSettings(
      ctx,
      'group',
      (now) => ({ ...now, mapping: changedMapping(now.mapping, body) }),
      params.organization,
    ),
  'GET /organizations/{organization}/settings/idpsync/roles': (ctx, { params }) =>
    getSyncSettings(ctx, 'role', params.organization),
  'PATCH /organizations/{organization}/settings/idpsync/roles': (ctx, { params, body }) =>
    changeSyncSettings(
      ctx,
      'role',
      () => ({ field: body.field ?? '', mapping: body.mapping ?? {} }),
      params.organization,
    ),
  'PATCH /organizations/{organization}/settings/idpsync/roles/config': (ctx, { params, body }) =>
    changeSyncSettings(ctx, 'role', (now) => ({ ...now, field: body.field ?? '' }), params.organization),
  'PATCH /organizations/{organization}/settings/idpsync/roles/mapping': (ctx, { params, body }) =>
    changeSyncSettings(
      ctx,
      'role',
      (now) => ({ ...now, mapping: changedMapping(now.mapping, body) }),
      params.organization,
    ),
});
