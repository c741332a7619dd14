import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { notifyStopsSoon } from '../app/notification/schedules.ts';
import { decide } from '../app/schedule/decide.ts';
import { TemplateTurns } from '../app/schedule/template-turns.ts';
import { actOn } from '../app/workspace/scheduled.ts';
import { systemTask } from '../authz/proofs.ts';
import { isTransient } from '../db/connect.ts';
import { type DueWorkspace, dueWorkspaces, type Look, storeLooks } from '../db/queries/schedules.ts';

/**
 * The time between two looks, also within a run. Also the longest time until another server notices that the one with
 * the lock has died.
 */
const PERIOD_MS = 1_000;
/** The maximum number of workspaces of one look. The next look follows immediately. */
const AT_ONCE = 250;
/** The maximum number of builds that begin at the same time. */
const CONCURRENT = 4;
/** A run begins no further build after this time. The rest stays due. */
const LONGEST_RUN_MS = 20_000;

const NAME = 'schedules';

/**
 * Looks at the due workspaces: one query, and one statement that stores when to look again at those with nothing to do.
 * Returns the others. Leaves out the workspaces of some templates.
 */
export async function lookAtDue(
  services: Services,
  withoutTemplates: readonly string[] = [],
): Promise<{ seen: number; toDo: DueWorkspace[] }> {
  const { sql, clock, events } = services;
  const now = clock.now();
  const rows = await dueWorkspaces(sql, now, AT_ONCE, withoutTemplates);
  const toDo: DueWorkspace[] = [];
  const looks: Look[] = [];
  const moved: DueWorkspace[] = [];
  for (const row of rows) {
    const { action, remind, until, nextStartAt } = decide(row, now);
    // before the look is stored: the message of a deadline is sent once, whatever ends this process
    if (remind) await notifyStopsSoon(services, sql, { ...row, deadline: row.deadline! });
    if (action) {
      toDo.push(row);
      continue;
    }
    looks.push({ ...row, until, nextStartAt });
    if (row.next_start_at?.getTime() !== nextStartAt?.getTime()) moved.push(row);
  }
  if (looks.length > 0) await storeLooks(sql, systemTask(systemContext(services, NAME)), looks);
  for (const { id, owner_id } of moved) events.publishSoon('workspace_changed', { workspace_id: id, owner_id });
  return { seen: rows.length, toDo };
}

/**
 * Starts, stops and deletes workspaces by their schedules, and makes those dormant that nobody uses. While workspaces of
 * some templates wait or are acted on, it goes on looking for those of other templates, which then share the turns.
 * So a template with slow builds, or with more due workspaces than one look finds, delays no other template.
 */
export function schedulesTask(services: Services): BackgroundTask {
  const { clock } = services;
  return {
    name: NAME,
    periodMs: PERIOD_MS,
    needsLock: true,
    async run(signal) {
      const ctx = systemContext(services, NAME, signal);
      const end = clock.monotonic() + LONGEST_RUN_MS;
      const failures: unknown[] = [];
      const turns = new TemplateTurns<DueWorkspace>({ most: CONCURRENT }, async (row) => {
        await actOn(ctx, row).catch((err) => void failures.push(err));
      });
      const isOver = () => signal.aborted || clock.monotonic() > end || failures.some(isTransient);
      let nextLook = clock.monotonic();
      let maybeMore = false;
      try {
        for (;;) {
          while (clock.monotonic() >= nextLook && !isOver()) {
            const without = turns.templates;
            const { seen, toDo } = await lookAtDue(services, without);
            turns.add(toDo);
            const isFull = seen === AT_ONCE;
            maybeMore ||= isFull || without.length > 0;
            // other templates may be behind those of a full look
            const again = isFull && without.length === 0 && toDo.length > 0;
            nextLook = clock.monotonic() + (again ? 0 : PERIOD_MS);
          }
          if (isOver()) break;
          turns.begin();
          if (turns.running === 0) break;
          await turns.oneEnded(clock, nextLook - clock.monotonic());
        }
      } finally {
        await turns.allEnded();
      }
      if (failures.length > 0) throw failures[0];
      return maybeMore || turns.waiting > 0 ? 0 : undefined;
    },
  };
}
