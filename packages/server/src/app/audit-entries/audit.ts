import { systemTask, verifiedToken } from '../../authz/proofs.ts';
import type { Db } from '../../db/connect.ts';
import type { ObjectKind } from '../../db/events.ts';
import { insertAudit } from '../../db/queries/audit.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { isUuid, NIL_UUID } from '../values/ids.ts';
import { auditDiff } from './diff.ts';

export interface AuditEntry {
  resourceType: string;
  resourceId: string;
  /** The name of the resource, for people. */
  target: string;
  action: string;
  organizationId?: string;
  /** Of the response. 200 by default. */
  status?: number;
  fields?: Record<string, unknown>;
  icon?: string;
  /**
   * The resource before and after the change: rows of the database. The entry contains the difference of the tracked
   * fields (tracked.ts). Without `before` the resource was created, without `after` it was deleted.
   */
  before?: object | undefined;
  after?: object | undefined;
  /** The account of an action without a session: of a sign-in, or of the pools. Ignored if the context has a person. */
  userId?: string | undefined;
}

/** The resource types whose entries announce a change of the object. Roles are a part of their organization. */
const ANNOUNCED: readonly string[] = [
  'template',
  'template_version',
  'provisioner_key',
  'organization',
  'organization_member',
  'group',
  'user',
] satisfies ObjectKind[];
const isAnnounced = (type: string): type is ObjectKind => ANNOUNCED.includes(type);

/**
 * Records who did what, in the same transaction, and announces the change of the object. Fields contain ids and names,
 * never secrets. Entries of rejected requests announce nothing.
 */
export async function audit(ctx: Ctx, db: Db, entry: AuditEntry): Promise<void> {
  const { actor } = ctx;
  // a request without a session is recorded by the server
  const by = actor.kind === 'user' ? verifiedToken(actor) : systemTask(systemContext(ctx, 'audit'));
  const status = entry.status ?? 200;
  const diff = auditDiff(entry.resourceType, entry.before, entry.after);
  // for --log-filter. A line may stand for a change that was undone with its transaction
  ctx.log.debug('audit', {
    request_id: ctx.requestId,
    user: actor.kind === 'user' ? actor.username : undefined,
    user_id: actor.kind === 'user' ? actor.id : entry.userId,
    ip: ctx.ip,
    action: entry.action,
    resource_type: entry.resourceType,
    resource_id: entry.resourceId,
    resource_target: entry.target,
    organization_id: entry.organizationId,
    status,
    fields: entry.fields,
    diff,
  });
  await insertAudit(db, by, {
    user_id: entry.userId,
    organization_id: entry.organizationId ?? null,
    resource_type: entry.resourceType,
    resource_id: isUuid(entry.resourceId) ? entry.resourceId : NIL_UUID,
    resource_target: entry.target.replaceAll('\0', '').slice(0, 1_024),
    resource_icon: entry.icon ?? '',
    action: entry.action,
    status_code: status,
    ip: ctx.ip,
    user_agent: ctx.userAgent.replaceAll('\0', '').slice(0, 256),
    request_id: ctx.requestId,
    additional_fields: { ...entry.fields, ...(actor.kind === 'operator' ? { actor: 'operator' } : {}) },
    diff,
  });
  const { resourceType } = entry;
  const ofOrganization = resourceType === 'custom_role' && entry.organizationId;
  const kind = ofOrganization ? 'organization' : resourceType;
  if (!isAnnounced(kind) || status >= 400) return;
  await ctx.events.publish(db, 'object_changed', {
    kind,
    id: ofOrganization || entry.resourceId,
    ...(entry.organizationId ? { organization_id: entry.organizationId } : {}),
  });
}
