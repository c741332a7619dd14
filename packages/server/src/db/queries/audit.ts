import type { AuditDiff } from '@ropewalk/contract';
import type { SystemTask, VerifiedToken } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import { oneOf } from '../one-of.ts';

export interface NewAuditRow {
  /** Default: now. */
  time?: Date;
  /** The person of an action without a session, such as a sign-in. */
  user_id?: string | undefined;
  organization_id: string | null;
  resource_type: string;
  resource_id: string;
  resource_target: string;
  resource_icon: string;
  action: string;
  status_code: number;
  ip: string;
  user_agent: string;
  request_id: string;
  additional_fields: Record<string, unknown>;
  diff: AuditDiff;
}

/** Records an action of a person or of the server itself. */
export async function insertAudit(
  db: Db,
  by: VerifiedToken | SystemTask,
  { user_id, ...row }: NewAuditRow,
): Promise<void> {
  const values = {
    ...row,
    user_id: 'userId' in by ? by.userId : (user_id ?? null),
    additional_fields: db.json(row.additional_fields as never),
    diff: db.json(row.diff as never),
  };
  await db`INSERT INTO audit_logs ${db(values as never)}`;
}

export interface AuditRow extends Required<Omit<NewAuditRow, 'user_id'>> {
  id: string;
  user_id: string | null;
  /** The exact time, which a `Date` does not hold, to continue a list after this entry. */
  cursor: string;
}

/** The conditions of a search. Undefined: no condition. */
export interface AuditFilter {
  /** The organizations whose entries the actor may read. Undefined: all entries. */
  readable: string[] | undefined;
  requestId: string | undefined;
  resourceId: string | undefined;
  resourceTarget: string | undefined;
  resourceType: string | undefined;
  action: string | undefined;
  /** The people with the name or address that was searched. */
  userIds: string[] | undefined;
  organizationId: string | undefined;
  buildReason: string | undefined;
  from: Date | undefined;
  /** Exclusive. */
  before: Date | undefined;
}

function conditions(db: Db, filter: AuditFilter) {
  const { readable, userIds, requestId, resourceId, resourceTarget, resourceType, action } = filter;
  const { organizationId, buildReason, from, before } = filter;
  return db`true
    ${readable ? db`AND organization_id ${oneOf(db, readable)}` : db``}
    ${userIds ? db`AND user_id ${oneOf(db, userIds)}` : db``}
    ${organizationId ? db`AND organization_id = ${organizationId}` : db``}
    ${requestId ? db`AND request_id = ${requestId} AND request_id <> ''` : db``}
    ${resourceId ? db`AND resource_id = ${resourceId}` : db``}
    ${resourceTarget ? db`AND lower(resource_target) = ${resourceTarget.toLowerCase()}` : db``}
    ${resourceType ? db`AND resource_type = ${resourceType}` : db``}
    ${action ? db`AND action = ${action}` : db``}
    ${buildReason ? db`AND resource_type = 'workspace_build' AND additional_fields ->> 'build_reason' = ${buildReason}` : db``}
    ${from ? db`AND time >= ${from}` : db``}
    ${before ? db`AND time < ${before}` : db``}`;
}

const COLUMNS = (db: Db) => db`*, time::text AS cursor`;

/** One page of the matching entries, newest first. */
export async function auditPage(
  db: Db,
  filter: AuditFilter,
  { limit, offset }: { limit: number; offset: number },
): Promise<AuditRow[]> {
  return db<AuditRow[]>`SELECT ${COLUMNS(db)} FROM audit_logs WHERE ${conditions(db, filter)}
    ORDER BY time DESC, id DESC LIMIT ${limit} OFFSET ${offset}`;
}

/** The number of matching entries, counted up to `cap`. */
export async function countAudit(db: Db, filter: AuditFilter, cap: number): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*) AS count
    FROM (SELECT FROM audit_logs WHERE ${conditions(db, filter)} LIMIT ${cap}) AS found`;
  return row!.count;
}

/** The matching entries after one of them, newest first. */
export async function auditAfter(
  db: Db,
  filter: AuditFilter,
  last: Pick<AuditRow, 'cursor' | 'id'> | undefined,
  limit: number,
): Promise<AuditRow[]> {
  return db<AuditRow[]>`SELECT ${COLUMNS(db)} FROM audit_logs WHERE ${conditions(db, filter)}
    ${last ? db`AND (time, id) < (${last.cursor}::text::timestamptz, ${last.id}::uuid)` : db``}
    ORDER BY time DESC, id DESC LIMIT ${limit}`;
}

/** A resource that entries name: whether it was deleted, and the parts of the path of its page. */
export interface AuditedResource {
  type: string;
  id: string;
  deleted: boolean;
  /** The organization's name, or the owner's for workspaces and builds. */
  place: string;
  name: string;
  build_number: number;
}

/** Reads what became of the resources of entries. Those that do not exist are absent. */
export async function auditedResources(db: Db, ids: Readonly<Record<string, string[]>>): Promise<AuditedResource[]> {
  const of = (type: string) => db`${ids[type] ?? []}::text[]::uuid[]`;
  return db<AuditedResource[]>`
    SELECT 'template' AS type, t.id, t.deleted, o.name AS place, t.name, 0 AS build_number
      FROM templates t JOIN organizations o ON o.id = t.organization_id WHERE t.id = ANY (${of('template')})
    UNION ALL SELECT 'template_version', v.id, t.deleted, o.name, t.name || '/versions/' || v.name, 0
      FROM template_versions v JOIN templates t ON t.id = v.template_id JOIN organizations o ON o.id = t.organization_id
      WHERE v.id = ANY (${of('template_version')})
    UNION ALL SELECT 'user', id, deleted, '', username, 0 FROM users WHERE id = ANY (${of('user')})
    UNION ALL SELECT 'organization', id, deleted, '', name, 0 FROM organizations WHERE id = ANY (${of('organization')})
    UNION ALL SELECT 'workspace', w.id, w.deleted, u.username, w.name, 0
      FROM workspaces w JOIN users u ON u.id = w.owner_id WHERE w.id = ANY (${of('workspace')})
    UNION ALL SELECT 'workspace_build', b.id, w.deleted, u.username, w.name, b.build_number
      FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.owner_id
      WHERE b.id = ANY (${of('workspace_build')})`;
}

/** Deletes at most this many entries that are older. Returns how many it deleted. */
export async function purgeAudit(
  db: Db,
  _task: SystemTask,
  { before, most }: { before: Date; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM audit_logs WHERE id = ANY (ARRAY(SELECT id FROM audit_logs
    WHERE time < ${before} ORDER BY time LIMIT ${most} FOR UPDATE SKIP LOCKED))`;
  return count;
}
