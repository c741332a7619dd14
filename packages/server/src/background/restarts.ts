import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { TemplateTurns } from '../app/schedule/template-turns.ts';
import { startAgain } from '../app/workspace/build/restart.ts';
import { systemTask } from '../authz/proofs.ts';
import { isTransient } from '../db/connect.ts';
import { anyRestarts, type DueRestart, dropRestarts, dueRestarts } from '../db/queries/restarts.ts';

/** How often to look without an event, which may be lost. */
const PERIOD_MS = 15_000;
/** How often to look for restarts of other templates while starts are made. */
const LOOK_MS = 250;
/** How often to look while a restart waits for the end of its stop, and after a start that failed. */
const WAITING_MS = 1_000;
/** After this time a run makes no further starts. The next run follows immediately. */
const LONGEST_RUN_MS = 15_000;
/** The maximum number of starts of one look. The next look follows immediately. */
const AT_ONCE = 250;
/** The maximum number of starts that are made at the same time. */
const CONCURRENT = 4;

/**
 * Makes the starts of restarted workspaces once they have stopped. Each of several servers may: one takes each. A template
 * with slow builds delays no other template.
 */
export function restartsTask(services: Services): BackgroundTask {
  const { sql, events, clock } = services;
  const name = 'restarts';
  return {
    name,
    periodMs: PERIOD_MS,
    // one start that keeps failing must not delay the others
    retryMs: WAITING_MS,
    needsLock: false,
    wakeOn: (wake) => [events.on('workspace_changed', ({ restarting }) => void (restarting && wake()))],
    async run(signal) {
      if (!(await anyRestarts(sql))) return undefined;
      const ctx = systemContext(services, name, signal);
      await dropRestarts(sql, systemTask(ctx));
      const failures: unknown[] = [];
      const turns = new TemplateTurns<DueRestart>({ most: CONCURRENT }, async (due) => {
        await startAgain(ctx, due).catch((err) => void failures.push(err));
      });
      const end = clock.monotonic() + LONGEST_RUN_MS;
      let maybeMore = false;
      try {
        while (!signal.aborted && !failures.some(isTransient)) {
          const late = clock.monotonic() > end;
          const without = turns.templates;
          const due = late ? [] : await dueRestarts(sql, AT_ONCE, without);
          maybeMore ||= late || due.length === AT_ONCE || without.length > 0;
          turns.add(due);
          if (!late) turns.begin();
          if (turns.running === 0) break;
          await turns.oneEnded(clock, LOOK_MS);
        }
      } finally {
        await turns.allEnded();
      }
      if (failures.length > 0) throw failures[0];
      return maybeMore ? 0 : WAITING_MS;
    },
  };
}
