import { systemTask, verifiedToken } from '../authz/proofs.ts';
import type { Db } from '../db/connect.ts';
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

/** Records who did what, in the same transaction. Fields contain ids and names, never secrets. */
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
}
