import type { BackgroundTask } from '../app/background-task.ts';
import { type Services, systemContext } from '../app/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { endLostConnections } from '../db/queries/connections.ts';

const PERIOD_MS = 30_000;
/** A little longer than a session waits for its next connection. */
const AWAY_MS = 2 * 60_000;
const AT_ONCE = 1_000;

/** Ends the entries of the connection log whose agent or workspace went away and cannot report the end. */
export function lostConnectionsTask(services: Services): BackgroundTask {
  const { sql, clock } = services;
  const name = 'lost connections';
  let lastRun = Number.NEGATIVE_INFINITY;
  return {
    name,
    periodMs: PERIOD_MS,
    needsLock: true,
    async run(signal) {
      // while the database was away, agents could not be marked as connected
      const wasAway = clock.monotonic() - lastRun > AWAY_MS / 2;
      lastRun = clock.monotonic();
      if (wasAway) return undefined;
      const task = systemTask(systemContext(services, name, signal));
      const ended = await endLostConnections(sql, task, { awayMs: AWAY_MS, most: AT_ONCE });
      return ended === AT_ONCE ? 0 : undefined;
    },
  };
}
