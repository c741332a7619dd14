import type { BackgroundTask } from '../app/background-task.ts';
import { type Services, systemContext } from '../app/context.ts';
import { startAgain } from '../app/workspace-build/restart.ts';
import { systemTask } from '../authz/proofs.ts';
import { isUnreachable } from '../db/connect.ts';
import { anyRestarts, dropRestarts, dueRestarts } from '../db/queries/restarts.ts';

/** How often to look without an event, which may be lost. */
const PERIOD_MS = 15_000;
/** How often to look while a restart waits for the end of its stop, and after a start that failed. */
const WAITING_MS = 1_000;
/** The most starts of one look. The next look follows at once. */
const AT_ONCE = 250;
/** The most starts that are made at the same time. */
const CONCURRENT = 4;

/** Makes the starts of restarted workspaces once they have stopped. Each of several servers may: one takes each. */
export function restartsTask(services: Services): BackgroundTask {
  const { sql, events } = services;
  const name = 'restarts';
  return {
    name,
    periodMs: PERIOD_MS,
    // one start that keeps failing must not delay the others
    retryMs: WAITING_MS,
    needsLock: false,
    wakeOn: (wake) => [
      events.on(
        'workspace_changed',
        ({ agents_outdated: ended, restarting }) => void ((ended || restarting) && wake()),
      ),
    ],
    async run(signal) {
      if (!(await anyRestarts(sql))) return undefined;
      const ctx = systemContext(services, name, signal);
      await dropRestarts(sql, systemTask(ctx));
      const due = await dueRestarts(sql, AT_ONCE);
      const full = due.length === AT_ONCE;
      const failures: unknown[] = [];
      const work = async () => {
        for (let next = due.shift(); next; next = due.shift()) {
          if (signal.aborted || failures.some(isUnreachable)) return;
          await startAgain(ctx, next).catch((err) => void failures.push(err));
        }
      };
      await Promise.all(Array.from({ length: CONCURRENT }, work));
      if (failures.length > 0) throw failures[0];
      return full ? 0 : WAITING_MS;
    },
  };
}
