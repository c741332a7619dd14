import { isIP } from 'node:net';
import { AppError } from '@ropewalk/kit';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { type ReportedConnection, upsertConnection } from '../../db/queries/agent-reports.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { NIL_UUID } from '../values/ids.ts';

/** The reports that an agent can send in one go, and how many it can send a second in the long run. */
const MAX_BURST = 600;
const PER_SECOND = 1;
/** How often the log says that an agent sends too many, in ms. */
const WARN_EVERY_MS = 60_000;

/**
 * Stores that a connection to a workspace began or ended, as its agent reports.
 * @throws AppError `invalid` if the connection has no id
 */
export type ConnectionReports = (agent: ConnectedAgent<AgentIdentity>, reported: ReportedConnection) => Promise<void>;

/**
 * What an agent reports is not verified, since people control what runs in their workspaces. The log marks such entries.
 * Their time lies between the agent's creation and now: the purge would never reach a later one, and an earlier one would
 * change a finished day. An agent that reports too many loses the excess, so that it cannot hide others' entries.
 */
export function createConnectionReports({ sql, clock, log }: Services): ConnectionReports {
  const senders = new Map<string, { left: number; at: number; warnedAt: number }>();

  function allows(agentId: string): boolean {
    const now = clock.monotonic();
    const sender = senders.get(agentId) ?? { left: MAX_BURST, at: now, warnedAt: Number.NEGATIVE_INFINITY };
    sender.left = Math.min(MAX_BURST, sender.left + ((now - sender.at) / 1_000) * PER_SECOND);
    sender.at = now;
    // the map is in the order of the last report: those at its start are likely to have a full burst again
    senders.delete(agentId);
    senders.set(agentId, sender);
    for (const [id, { at }] of senders) {
      if (now - at < (MAX_BURST / PER_SECOND) * 1_000) break;
      senders.delete(id);
    }
    if (sender.left >= 1) {
      sender.left -= 1;
      return true;
    }
    if (now - sender.warnedAt >= WARN_EVERY_MS) {
      sender.warnedAt = now;
      log.warn('an agent reports too many connections: the log of connections lacks some', { agent_id: agentId });
    }
    return false;
  }

  return async (agent, reported) => {
    if (reported.id === NIL_UUID) throw new AppError('invalid', 'The id of the connection is missing.');
    if (!allows(agent.id)) return;
    const now = clock.now();
    // an invalid date compares as false
    const past = reported.at <= now ? reported.at : now;
    await upsertConnection(sql, agent, {
      ...reported,
      at: past < agent.created_at ? agent.created_at : past,
      ip: isIP(reported.ip) === 0 ? '' : reported.ip,
      reason: reported.reason.slice(0, 1_024).replaceAll('\0', ''),
    });
  };
}
