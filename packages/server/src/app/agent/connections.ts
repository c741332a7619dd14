import { AppError } from '@platform/kit';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { type ReportedConnection, upsertConnection } from '../../db/queries/agent-reports.ts';
import type { AgentIdentity } from '../../db/queries/agents.ts';
import type { Services } from '../context.ts';
import { NIL_UUID } from '../ids.ts';

/**
 * Stores that a connection to a workspace began or ended, as its agent reports. A time in the future is stored as now:
 * the purge would never reach it.
 * @throws AppError `invalid` if the connection has no id
 */
export async function recordConnection(
  { sql, clock }: Services,
  agent: ConnectedAgent<AgentIdentity>,
  reported: ReportedConnection,
): Promise<void> {
  if (reported.id === NIL_UUID) throw new AppError('invalid', 'The id of the connection is missing.');
  const now = clock.now();
  await upsertConnection(sql, agent, {
    ...reported,
    // an invalid date compares as false
    at: reported.at <= now ? reported.at : now,
    ip: reported.ip.slice(0, 100).replaceAll('\0', ''),
    reason: reported.reason.slice(0, 1_024).replaceAll('\0', ''),
  });
}
