import { AppError } from '@platform/kit';
import type { AgentIdentity } from '../../db/queries/agents.ts';
import type { Services } from '../context.ts';
import { NIL_UUID } from '../ids.ts';

export interface ReportedConnection {
  id: string;
  ended: boolean;
  type: string;
  at: Date;
  ip: string;
  statusCode: number;
  reason: string;
}

/** Writes down that a connection into a workspace has begun or ended, as its agent tells. Throws `invalid` without an id. */
export async function noteConnection({ sql }: Services, agent: AgentIdentity, told: ReportedConnection): Promise<void> {
  if (told.id === NIL_UUID) throw new AppError('invalid', 'A connection needs an id.');
  const code = told.ended ? told.statusCode : null;
  const reason = told.ended ? told.reason.slice(0, 1_024).replaceAll('\0', '') : null;
  await sql`INSERT INTO connection_logs ${sql({
    id: crypto.randomUUID(),
    connect_time: told.at,
    organization_id: agent.organization_id,
    workspace_owner_id: agent.owner_id,
    workspace_id: agent.workspace_id,
    workspace_name: agent.workspace_name,
    agent_name: agent.name,
    type: told.type,
    ip: told.ip.slice(0, 100).replaceAll('\0', ''),
    code,
    connection_id: told.id,
    disconnect_time: told.ended ? told.at : null,
    disconnect_reason: reason,
  })} ON CONFLICT (connection_id, workspace_id, agent_name) WHERE connection_id IS NOT NULL DO UPDATE SET
    disconnect_time = coalesce(connection_logs.disconnect_time, excluded.disconnect_time),
    disconnect_reason = coalesce(connection_logs.disconnect_reason, excluded.disconnect_reason),
    code = coalesce(connection_logs.code, excluded.code)`;
}
