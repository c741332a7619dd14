import {
  type GroupSyncSettings,
  MAX_GIVEN_FOR_VALUE,
  MAX_MAPPED_VALUES,
  type OrganizationSyncSettings,
  type RoleSyncSettings,
} from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { compile } from '@ropewalk/kit/re2';
import { authorize, mayAssign } from '../../authz/authorize.ts';
import type { Config } from '../../config/options.ts';
import type { Db } from '../../db/connect.ts';
import {
  claimFields,
  claimValues,
  lockSyncSettings,
  type SyncKind,
  saveSyncSettings,
  syncSettingsRow,
} from '../../db/queries/idp-sync.ts';
import { defaultOrganization } from '../../db/queries/organizations.ts';
import type { OrganizationRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findInOrganization } from '../find/organization.ts';
import { rolesOfOrganization } from '../organization/roles.ts';
import { isUuid } from '../values/ids.ts';

export interface SyncSettings {
  organization: OrganizationSyncSettings;
  group: GroupSyncSettings;
  role: RoleSyncSettings;
}

/** The texts of an option that is a JSON object. */
export const textRecord = (value: unknown): Record<string, string> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).filter((pair): pair is [string, string] => typeof pair[1] === 'string'))
    : {};

/** What applies until somebody changes it. The options for groups are about the default organization. */
function defaults<K extends SyncKind>(kind: K, organization: OrganizationRow, config: Config): SyncSettings[K] {
  const all: SyncSettings = {
    organization: { field: '', mapping: {}, organization_assign_default: true },
    group: {
      field: organization.is_default ? config.oidcGroupField : '',
      mapping: {},
      regex_filter: organization.is_default ? config.oidcGroupRegexFilter || null : null,
      auto_create_missing_groups: organization.is_default && config.oidcGroupAutoCreate,
      ...(organization.is_default ? { legacy_group_name_mapping: textRecord(config.oidcGroupMapping) } : {}),
    },
    role: { field: '', mapping: {} },
  };
  return all[kind];
}

/** The settings in force. Those of organizations belong to the default organization. */
export async function syncSettings<K extends SyncKind>(
  db: Db,
  config: Config,
  kind: K,
  organization: OrganizationRow,
): Promise<SyncSettings[K]> {
  const stored = await syncSettingsRow(db, kind, organization.id);
  return { ...defaults(kind, organization, config), ...(stored as SyncSettings[K] | undefined) };
}

/** Finds the settings of a kind for an action: of an organization, or of the deployment. */
async function find<K extends SyncKind, A extends 'read' | 'update'>(
  ctx: Ctx,
  action: A,
  kind: K,
  organization?: string,
) {
  if (organization !== undefined) {
    const place = await findInOrganization(ctx, action, { type: 'idpsync_settings' }, organization);
    return { kind, place, organization: place.organization };
  }
  const place = authorize(ctx, action, { type: 'idpsync_settings' });
  return { kind, place, organization: await defaultOrganization(ctx.sql) };
}

export async function getSyncSettings<K extends SyncKind>(
  ctx: Ctx,
  kind: K,
  organization?: string,
): Promise<SyncSettings[K]> {
  const found = await find(ctx, 'read', kind, organization);
  return syncSettings(ctx.sql, ctx.config, kind, found.organization);
}

/**
 * The longest filter, in characters, and the largest, in instructions. This process compiles it and applies it to each claim
 * of each sign-in, and the administrators of an organization set it.
 */
const MAX_FILTER_LENGTH = 1_000;
const MAX_FILTER_SIZE = 1_000;

/** @throws Error that says why the server does not use this expression */
function checkFilter(filter: string): void {
  if (filter.length > MAX_FILTER_LENGTH) throw new Error(`it is longer than ${MAX_FILTER_LENGTH} characters`);
  const { size } = compile(filter);
  if (size > MAX_FILTER_SIZE)
    throw new Error(`it has ${size} instructions, but may have ${MAX_FILTER_SIZE}: use fewer or smaller repetitions`);
}

function check(settings: Partial<GroupSyncSettings & OrganizationSyncSettings>, kind: SyncKind): void {
  const invalid = (field: string, detail: string) =>
    new AppError('invalid', 'Invalid sync settings.', { validations: [{ field, detail }] });
  if (settings.regex_filter) {
    try {
      checkFilter(settings.regex_filter);
    } catch (err) {
      throw invalid('regex_filter', errorText(err));
    }
  }
  // one request has a bound. Many add up
  const mapping = Object.entries(settings.mapping ?? {});
  if (mapping.length > MAX_MAPPED_VALUES || mapping.some(([, gets]) => gets.length > MAX_GIVEN_FOR_VALUE))
    throw invalid(
      'mapping',
      `has more than ${MAX_MAPPED_VALUES} values of the claim, or ${MAX_GIVEN_FOR_VALUE} ${kind}s for one`,
    );
  if (kind === 'role') return;
  const ids = Object.values(settings.mapping ?? {}).flat();
  const wrong = ids.find((id) => !isUuid(id));
  if (wrong !== undefined) throw invalid('mapping', `${JSON.stringify(wrong)} is not the ID of a ${kind}`);
}

/**
 * Rejects settings that give people roles which the actor may not assign. A claim's value that has no mapping stands for
 * the role of this name, so another claim can give every role. A mapping counts without a claim, too: it would act as soon
 * as somebody else sets one.
 */
async function checkGranted(
  ctx: Ctx,
  db: Db,
  organizationId: string,
  before: RoleSyncSettings,
  after: RoleSyncSettings,
): Promise<void> {
  const roles = await rolesOfOrganization(db, organizationId);
  const given = Object.entries(after.mapping).flatMap(([value, names]) =>
    names.filter((name) => !ownValue(before.mapping, value)?.includes(name)),
  );
  const bare = Object.keys(before.mapping).filter((value) => !Object.hasOwn(after.mapping, value));
  const acts = after.field !== '';
  const affected =
    acts && after.field !== before.field
      ? roles
      : roles.filter(({ name }) => given.includes(name) || (acts && bare.includes(name)));
  const above = affected.find((role) => !mayAssign(ctx.actor, role, organizationId));
  if (!above) return;
  throw new AppError('forbidden', 'You cannot give people roles that you may not assign.', {
    detail: `You may not assign the role "${above.name}". Ask an administrator of the organization to change the sync.`,
  });
}

/** Changes the settings that are stored now, so that two people can change different parts at the same time. */
export async function changeSyncSettings<K extends SyncKind>(
  ctx: Ctx,
  kind: K,
  change: (now: SyncSettings[K]) => SyncSettings[K],
  organization?: string,
): Promise<SyncSettings[K]> {
  const { place, organization: row } = await find(ctx, 'update', kind, organization);
  let changed!: SyncSettings[K];
  await ctx.sql.begin(async (tx) => {
    await lockSyncSettings(tx, kind, row.id);
    const before = await syncSettings(tx, ctx.config, kind, row);
    const after = change(before);
    check(after as GroupSyncSettings & OrganizationSyncSettings, kind);
    if (kind === 'role') await checkGranted(ctx, tx, row.id, before as RoleSyncSettings, after as RoleSyncSettings);
    await saveSyncSettings(tx, place, { kind, organizationId: row.id }, after);
    await audit(ctx, tx, {
      resourceType: `idp_sync_settings_${kind}`,
      resourceId: row.id,
      target: kind === 'organization' ? 'Organization sync' : row.name,
      action: 'write',
      ...(kind === 'organization' ? {} : { organizationId: row.id }),
      before: tracked(before),
      after: tracked(after),
    });
    changed = after;
  });
  return changed;
}

/** The fields under the names of the audit log. */
const tracked = (settings: object): object => ({
  ...settings,
  ...('organization_assign_default' in settings ? { assign_default: settings.organization_assign_default } : {}),
});

export interface MappingChange {
  Add?: { Given?: string; Gets?: string }[] | undefined;
  Remove?: { Given?: string; Gets?: string }[] | undefined;
}

/** A mapping without the removed pairs and with the added ones. */
export function changedMapping(mapping: Record<string, string[]>, change: MappingChange): Record<string, string[]> {
  const changed = new Map(Object.entries(mapping).map(([given, gets]) => [given, [...gets]]));
  for (const { Given: given = '', Gets: gets = '' } of change.Remove ?? []) {
    const left = changed.get(given)?.filter((each) => each !== gets) ?? [];
    if (left.length > 0) changed.set(given, left);
    else changed.delete(given);
  }
  for (const { Given: given = '', Gets: gets = '' } of change.Add ?? []) {
    if (given === '' || gets === '') {
      throw new AppError('invalid', 'A mapping needs both "Given" and "Gets".', {
        validations: [{ field: 'Add', detail: 'both texts must not be empty' }],
      });
    }
    changed.set(given, [...new Set([...(changed.get(given) ?? []), gets])]);
  }
  return Object.fromEntries(changed);
}

export async function listClaimFields(ctx: Ctx, organization?: string): Promise<string[]> {
  const found = await find(ctx, 'read', 'organization', organization);
  return claimFields(ctx.lists, organization === undefined ? undefined : found.organization.id);
}

export async function listClaimValues(ctx: Ctx, field: string | undefined, organization?: string): Promise<string[]> {
  const found = await find(ctx, 'read', 'organization', organization);
  if (!field) {
    throw new AppError('invalid', 'Name a claim with the query parameter claimField.', {
      validations: [{ field: 'claimField', detail: 'must not be empty' }],
    });
  }
  return claimValues(ctx.lists, field, organization === undefined ? undefined : found.organization.id);
}
