import { systemTask, verifiedToken } from '../authz/proofs.ts';
import type { Db } from '../db/connect.ts';
import type { ObjectKind } from '../db/events.ts';
import { insertAudit } from '../db/queries/audit.ts';
import type { Ctx } from './context.ts';

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
}

/** The resource types whose entries announce a change of the object. */
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
 * never secrets.
 */
export async function audit(ctx: Ctx, db: Db, entry: AuditEntry): Promise<void> {
  const by = ctx.actor.kind === 'user' ? verifiedToken(ctx.actor) : systemTask(ctx);
  await insertAudit(db, by, {
    organization_id: entry.organizationId ?? null,
    resource_type: entry.resourceType,
    resource_id: entry.resourceId,
    resource_target: entry.target,
    action: entry.action,
    status_code: entry.status ?? 200,
    ip: ctx.ip,
    user_agent: ctx.userAgent.slice(0, 256),
    request_id: ctx.requestId,
    additional_fields: entry.fields ?? {},
  });
  const { resourceType: kind } = entry;
  if (!isAnnounced(kind)) return;
  await ctx.events.publish(db, 'object_changed', {
    kind,
    id: entry.resourceId,
    ...(entry.organizationId ? { organization_id: entry.organizationId } : {}),
  });
}
