import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { nextLateAgentMs, takeLateAgents } from '../db/queries/agents.ts';

/** How often to look without the event of a build that ended: an event of another server may be lost. */
const PERIOD_MS = 60_000;
/** The deadline of a new agent is at least a second away, so a run for each of many builds that end would find nothing. */
const GATHER_MS = 500;
/** After the deadline, so that those who watch see the agent as late for certain. */
const AFTER_MS = 100;

/**
 * Wakes those who watch a workspace whose agent's first connection is late. The deadlines are in the agents' rows, so
 * that they survive a restart, and one of several servers takes each.
 */
export function lateAgentsTask(services: Services): BackgroundTask {
  const { sql, events } = services;
  const name = 'late agents';
  return {
    name,
    periodMs: PERIOD_MS,
    needsLock: false,
    gatherMs: GATHER_MS,
    // a build that ended may have made agents; their deadlines are in its rows
    wakeOn: (wake) => [events.on('workspace_changed', ({ agents_outdated: ended }) => void (ended && wake()))],
    async run() {
      for (const workspace of await takeLateAgents(sql, systemTask(systemContext(services, name)))) {
        events.publishSoon('workspace_changed', { ...workspace });
      }
      const next = await nextLateAgentMs(sql);
      return next === undefined ? undefined : Math.max(0, next) + AFTER_MS;
    },
  };
}
