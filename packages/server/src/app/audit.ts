import type { Db } from '../db/connect.ts';
import type { Ctx } from './context.ts';

export interface AuditEntry {
  resourceType: string;
  resourceId: string;
  /** The name a person knows the resource by. */
  target: string;
  action: string;
  organizationId?: string;
  /** As HTTP would say it; 200 unless told. */
  status?: number;
  fields?: Record<string, unknown>;
}

/** Writes down who did what, in the transaction that did it. Fields hold ids and names, never secrets. */
export async function audit(ctx: Ctx, db: Db, entry: AuditEntry): Promise<void> {
  await db`INSERT INTO audit_logs (user_id, organization_id, resource_type, resource_id, resource_target, action, status_code,
      ip, user_agent, request_id, additional_fields)
    VALUES (${ctx.actor.kind === 'user' ? ctx.actor.id : null}, ${entry.organizationId ?? null}, ${entry.resourceType},
      ${entry.resourceId}, ${entry.target}, ${entry.action}, ${entry.status ?? 200}, ${ctx.ip}, ${ctx.userAgent.slice(0, 256)},
      ${ctx.requestId}, ${db.json((entry.fields ?? {}) as never)})`;
}
