import { AppError } from '@platform/kit';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { type ReportedConnection, upsertConnection } from '../../db/queries/agent-reports.ts';
import type { AgentIdentity } from '../../db/queries/agents.ts';
import type { Services } from '../context.ts';
import { NIL_UUID } from '../ids.ts';

/**
 * Stores that a connection into a workspace began or ended, as its agent reports.
 * @throws AppError `invalid` where the connection has no id
 */
export async function recordConnection(
  { sql }: Services,
  agent: ConnectedAgent<AgentIdentity>,
  reported: ReportedConnection,
): Promise<void> {
  if (reported.id === NIL_UUID) throw new AppError('invalid', 'A connection needs an id.');
  await upsertConnection(sql, agent, {
    ...reported,
    ip: reported.ip.slice(0, 100).replaceAll('\0', ''),
    reason: reported.reason.slice(0, 1_024).replaceAll('\0', ''),
  });
}
