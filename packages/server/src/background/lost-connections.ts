import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { ping } from '../db/connect.ts';
import { endLostConnections } from '../db/queries/connections.ts';

const PERIOD_MS = 30_000;
/** A little longer than a session waits for its next connection. */
const AWAY_MS = 2 * 60_000;
const AT_ONCE = 1_000;

/** Ends the entries of the connection log whose agent or workspace went away and cannot report the end. */
export function lostConnectionsTask(services: Services): BackgroundTask {
  const { sql, clock } = services;
  const name = 'lost connections';
  /** When the last run succeeded. */
  let lastRun = Number.NEGATIVE_INFINITY;
  return {
    name,
    periodMs: PERIOD_MS,
    needsLock: true,
    async run(signal) {
      const task = systemTask(systemContext(services, name, signal));
      let ended = 0;
      // while the database was away, agents could not be marked as connected
      if (clock.monotonic() - lastRun > AWAY_MS / 2) await ping(sql);
      else ended = await endLostConnections(sql, task, { awayMs: AWAY_MS, most: AT_ONCE });
      lastRun = clock.monotonic();
      return ended === AT_ONCE ? 0 : undefined;
    },
  };
}
