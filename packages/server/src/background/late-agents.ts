import { errorText } from '@platform/kit';
import type { Services } from '../app/context.ts';

/** Looked at without being told of a build that ended, for what another server's event did not say. */
const LOOK_ANYWAY_MS = 60_000;
/** After the deadline, so that whoever is told sees the agent as late for certain. */
const AFTER_MS = 100;

/**
 * Tells watchers of a workspace that its agent's first connection is late. The rows say who is awaited until when, so
 * that a restart forgets nobody; of several servers one tells. Gives back how long until the next is late, in ms.
 */
export async function tellLateAgents({ sql, events }: Pick<Services, 'sql' | 'events'>): Promise<number> {
  const late = await sql<{ workspace_id: string; owner_id: string }[]>`
    WITH late AS (UPDATE workspace_agents SET connect_deadline = NULL WHERE connect_deadline <= now()
      RETURNING resource_id)
    SELECT w.id AS workspace_id, w.owner_id FROM late JOIN workspace_resources r ON r.id = late.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id`;
  for (const workspace of late) events.publishSoon('workspace_changed', { ...workspace });
  const [next] = await sql<{ ms: number | null }[]>`
    SELECT extract(epoch FROM min(connect_deadline) - now())::float8 * 1000 AS ms FROM workspace_agents
    WHERE connect_deadline IS NOT NULL`;
  return Math.min(LOOK_ANYWAY_MS, Math.max(0, next?.ms ?? LOOK_ANYWAY_MS) + AFTER_MS);
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
        wait = await tellLateAgents(services);
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
