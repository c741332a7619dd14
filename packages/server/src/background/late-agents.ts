import { errorText } from '@platform/kit';
import { type Services, systemContext } from '../app/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { nextLateAgentMs, takeLateAgents } from '../db/queries/agents.ts';

/** How often to look without the event of a build that ended: an event of another server may be lost. */
const LOOK_ANYWAY_MS = 60_000;
/** After the deadline, so that those who watch see the agent as late for certain. */
const AFTER_MS = 100;

/**
 * Wakes those who watch a workspace whose agent's first connection is late. The deadlines are in the agents' rows, so
 * that they survive a restart, and one of several servers finds each. Gives back the milliseconds until the next one.
 */
export async function announceLateAgents(services: Services): Promise<number> {
  const { sql, events } = services;
  for (const workspace of await takeLateAgents(sql, systemTask(systemContext(services, 'late agents'))))
    events.publishSoon('workspace_changed', { ...workspace });
  const next = await nextLateAgentMs(sql);
  return Math.min(LOOK_ANYWAY_MS, Math.max(0, next ?? LOOK_ANYWAY_MS) + AFTER_MS);
}

/** Watches for agents that do not connect in time. */
export function startLateAgents(services: Services): { close(): void } {
  const { events, log } = services;
  let timer: NodeJS.Timeout | undefined;
  let running = false;
  let again = false;
  let closed = false;
  async function look(): Promise<void> {
    again = true;
    if (running) return;
    running = true;
    let wait = LOOK_ANYWAY_MS;
    while (again && !closed) {
      again = false;
      try {
        wait = await announceLateAgents(services);
      } catch (err) {
        log.warn('could not look for agents that do not connect', { err: errorText(err) });
      }
    }
    running = false;
    clearTimeout(timer);
    if (!closed) timer = setTimeout(() => void look(), wait).unref();
  }
  void look();
  // a build that ended may have made agents; their deadlines are in its rows
  const off = events.on('workspace_changed', ({ agents_outdated: ended }) => {
    if (ended) void look();
  });
  return {
    close() {
      closed = true;
      clearTimeout(timer);
      off();
    },
  };
}
