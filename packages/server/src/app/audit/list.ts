import {
  AuditAction,
  type AuditLog,
  type AuditLogResponse,
  BuildReason,
  type MinimalOrganization,
  ResourceType,
} from '@ropewalk/contract';
import {
  type AuditedResource,
  type AuditFilter,
  type AuditRow,
  auditAfter,
  auditedResources,
  auditPage,
  countAudit,
} from '../../db/queries/audit.ts';
import { organizationsOfRecords } from '../../db/queries/organizations.ts';
import { usersOfRecords } from '../../db/queries/users.ts';
import type { OrganizationRow, UserRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { exportParts } from '../lists/export-parts.ts';
import { badQuery, pageOf, parseSearch, type Search, searchOneOf, searchUuid } from '../lists/search.ts';
import { toUser } from '../user/convert.ts';
import { NIL_UUID } from '../values/ids.ts';
import { time } from '../values/time.ts';
import { describeAction } from './describe.ts';
import { readableRecords, searchedOrganization, searchedPeople } from './readable.ts';

const KEYS = [
  'request_id',
  'resource_id',
  'resource_target',
  'resource_type',
  'username',
  'email',
  'date_from',
  'date_to',
  'organization',
  'action',
  'build_reason',
];
/** Counting stops here: a page shows "10000+" instead of waiting for the exact number. */
export const COUNT_CAP = 10_000;
const DAY_MS = 86_400_000;

const valuesOf = (schema: object) => (schema as { enum: readonly string[] }).enum;

function searchDay(search: Search, key: string): Date | undefined {
  const text = search.terms.get(key);
  if (text === undefined) return undefined;
  const day = new Date(`${text}T00:00:00Z`);
  if (/^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(day.getTime()) && day.getUTCFullYear() > 0) return day;
  throw badQuery(key, 'must be a date like 2026-01-31');
}

/** Reads upstream's query of the audit log. A word without a key is a resource type. */
async function filterOf(ctx: Ctx, q: string | undefined): Promise<AuditFilter> {
  const readable = readableRecords(ctx);
  const search = parseSearch(q, KEYS);
  const [word] = search.words;
  if (word !== undefined && !search.terms.has('resource_type')) search.terms.set('resource_type', word);
  const to = searchDay(search, 'date_to');
  return {
    readable,
    requestId: searchUuid(search, 'request_id'),
    resourceId: searchUuid(search, 'resource_id'),
    resourceTarget: search.terms.get('resource_target'),
    resourceType: searchOneOf(search, 'resource_type', valuesOf(ResourceType)),
    action: searchOneOf(search, 'action', valuesOf(AuditAction)),
    buildReason: searchOneOf(search, 'build_reason', valuesOf(BuildReason)),
    from: searchDay(search, 'date_from'),
    before: to && new Date(to.getTime() + DAY_MS),
    userIds: await searchedPeople(ctx, search, { username: 'username', email: 'email' }),
    organizationId: await searchedOrganization(ctx, search),
  };
}

export interface RecordQuery {
  q?: string;
  limit?: number;
  offset?: number;
}

/** A page of the audit log, newest first, with the number of matching entries. */
export async function listAudit(ctx: Ctx, query: RecordQuery): Promise<AuditLogResponse> {
  const filter = await filterOf(ctx, query.q);
  const [rows, count] = await Promise.all([
    auditPage(ctx.lists, filter, pageOf(query)),
    countAudit(ctx.lists, filter, COUNT_CAP),
  ]);
  return { audit_logs: await toAuditLogs(ctx, rows), count, count_cap: COUNT_CAP };
}

/** All matching entries, newest first, in parts. Checks the permission and the query before the first part. */
export async function exportAudit(ctx: Ctx, q: string | undefined): Promise<AsyncIterable<AuditLog[]>> {
  const filter = await filterOf(ctx, q);
  return exportParts<AuditRow, AuditLog>(
    ctx,
    (last, count) => auditAfter(ctx.lists, filter, last, count),
    (rows) => toAuditLogs(ctx, rows),
  );
}

export const toMinimalOrganization = (id: string, row: OrganizationRow | undefined): MinimalOrganization => ({
  id,
  name: row?.name ?? '',
  display_name: row?.display_name ?? '',
  icon: row?.icon ?? '',
});

const unique = (ids: (string | null)[]) => [...new Set(ids.filter((id) => id !== null))];

async function toAuditLogs(ctx: Ctx, rows: readonly AuditRow[]): Promise<AuditLog[]> {
  if (rows.length === 0) return [];
  const ids = Object.fromEntries(
    Object.entries(Object.groupBy(rows, (row) => row.resource_type)).map(([type, of]) => [
      type,
      unique(of!.map((row) => row.resource_id)),
    ]),
  );
  const [users, organizations, resources] = await Promise.all([
    usersOfRecords(ctx.lists, unique(rows.map((row) => row.user_id))),
    organizationsOfRecords(ctx.lists, unique(rows.map((row) => row.organization_id))),
    auditedResources(ctx.lists, ids),
  ]);
  const found = new Map(resources.map((each) => [`${each.type} ${each.id}`, each]));
  return rows.map((row) =>
    toAuditLog(row, {
      user: row.user_id === null ? undefined : users.get(row.user_id),
      organization: row.organization_id === null ? undefined : organizations.get(row.organization_id),
      resource: found.get(`${row.resource_type} ${row.resource_id}`),
    }),
  );
}

/** The types whose deletion is known. */
const DELETABLE = new Set(['template', 'user', 'organization', 'workspace', 'workspace_build']);

function linkOf({ type, place, name, build_number }: AuditedResource): string {
  const e = encodeURIComponent;
  switch (type) {
    case 'template':
      return `/templates/${e(place)}/${e(name)}`;
    case 'template_version':
      return `/templates/${e(place)}/${name.split('/versions/').map(e).join('/versions/')}`;
    case 'user':
      return `/deployment/users?filter=${e(name)}`;
    case 'organization':
      return `/organizations/${e(name)}`;
    case 'workspace':
      return `/@${e(place)}/${e(name)}`;
    default:
      return `/@${e(place)}/${e(name)}/builds/${build_number}`;
  }
}

function toAuditLog(
  row: AuditRow,
  {
    user,
    organization,
    resource,
  }: { user: UserRow | undefined; organization: OrganizationRow | undefined; resource: AuditedResource | undefined },
): AuditLog {
  const isDeleted = DELETABLE.has(row.resource_type) && (resource?.deleted ?? row.resource_id !== NIL_UUID);
  return {
    id: row.id,
    request_id: row.request_id || NIL_UUID,
    time: time(row.time),
    organization_id: row.organization_id ?? NIL_UUID,
    ...(row.organization_id === null ? {} : { organization: toMinimalOrganization(row.organization_id, organization) }),
    ip: row.ip,
    user_agent: row.user_agent,
    resource_type: row.resource_type,
    resource_id: row.resource_id,
    resource_target: row.resource_target,
    resource_icon: row.resource_icon,
    action: row.action,
    diff: row.diff,
    status_code: row.status_code,
    additional_fields: row.additional_fields,
    description: describeAction(row),
    resource_link: resource && !isDeleted ? linkOf(resource) : '',
    is_deleted: isDeleted,
    ...(user ? { user: toUser(user, []) } : {}),
  };
}
