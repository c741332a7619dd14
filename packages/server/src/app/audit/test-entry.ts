import type { CreateTestAuditLogRequest } from '@ropewalk/contract';
import { authorize } from '../../authz/authorize.ts';
import { verifiedToken } from '../../authz/proofs.ts';
import { insertAudit } from '../../db/queries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { isZeroTime, NIL_UUID } from '../values/ids.ts';

/** Adds an entry that nothing caused, for people who try out their tools. It is in the name of the caller. */
export async function createTestEntry(ctx: Ctx, input: CreateTestAuditLogRequest): Promise<undefined> {
  authorize(ctx, 'create', { type: 'audit_log' });
  const { actor } = ctx;
  if (actor.kind !== 'user') return;
  const organization = input.organization_id;
  await insertAudit(ctx.sql, verifiedToken(actor), {
    time: input.time && !isZeroTime(input.time) ? new Date(input.time) : ctx.clock.now(),
    organization_id: organization && organization !== NIL_UUID ? organization : null,
    resource_type: input.resource_type ?? 'user',
    resource_id: input.resource_id ?? crypto.randomUUID(),
    resource_target: actor.username,
    resource_icon: '',
    action: input.action ?? 'write',
    status_code: 200,
    ip: ctx.ip,
    user_agent: ctx.userAgent.replaceAll('\0', '').slice(0, 256),
    request_id: input.request_id ?? '',
    additional_fields: {
      ...input.additional_fields,
      ...(input.build_reason ? { build_reason: input.build_reason } : {}),
    },
    diff: { example: { old: 'before', new: 'after', secret: false } },
  });
}
