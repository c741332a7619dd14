import type { SystemTask, VerifiedToken } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';

export interface AuditRow {
  organization_id: string | null;
  resource_type: string;
  resource_id: string;
  resource_target: string;
  action: string;
  status_code: number;
  ip: string;
  user_agent: string;
  request_id: string;
  additional_fields: Record<string, unknown>;
}

/** Records an action of a person or of the server itself. */
export async function insertAudit(db: Db, by: VerifiedToken | SystemTask, row: AuditRow): Promise<void> {
  const values = { ...row, additional_fields: db.json(row.additional_fields as never) };
  await db`INSERT INTO audit_logs ${db({ ...values, user_id: 'userId' in by ? by.userId : null } as never)}`;
}
