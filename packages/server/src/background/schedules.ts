import type { BackgroundTask } from '../app/background-task.ts';
import { type Services, systemContext } from '../app/context.ts';
import { actOn } from '../app/schedule/act.ts';
import { decide } from '../app/schedule/decide.ts';
import { systemTask } from '../authz/proofs.ts';
import { isUnreachable } from '../db/connect.ts';
import { type DueWorkspace, dueWorkspaces, type Look, storeLooks } from '../db/queries/schedules.ts';

/** Also the longest time until another server notices that the one with the lock has died. */
const PERIOD_MS = 1_000;
/** The most workspaces of one look. The next look follows at once. */
const AT_ONCE = 250;
/** The most builds that begin at the same time. */
const CONCURRENT = 4;
/** A run begins no further build after this time. The rest stays due. */
const LONGEST_RUN_MS = 20_000;

const NAME = 'schedules';

/**
 * Looks at the due workspaces: one query, and one statement that stores when to look again at those with nothing to do.
 * Returns the others.
 */
export async function lookAtDue(services: Services): Promise<{ seen: number; toDo: DueWorkspace[] }> {
  const { sql, clock, events } = services;
  const now = clock.now();
  const rows = await dueWorkspaces(sql, now, AT_ONCE);
  const toDo: DueWorkspace[] = [];
  const looks: Look[] = [];
  const moved: DueWorkspace[] = [];
  for (const row of rows) {
    const { action, until, nextStartAt } = decide(row, now);
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

/** Starts, stops and deletes workspaces by their schedules, and makes those dormant that nobody uses. */
export function schedulesTask(services: Services): BackgroundTask {
  const { clock } = services;
  return {
    name: NAME,
    periodMs: PERIOD_MS,
    needsLock: true,
    async run(signal) {
      const ctx = systemContext(services, NAME, signal);
      const end = clock.monotonic() + LONGEST_RUN_MS;
      const { seen, toDo } = await lookAtDue(services);
      const failures: unknown[] = [];
      const work = async () => {
        for (let row = toDo.shift(); row; row = toDo.shift()) {
          if (signal.aborted || clock.monotonic() > end || failures.some(isUnreachable)) return;
          await actOn(ctx, row.id).catch((err) => void failures.push(err));
        }
      };
      await Promise.all(Array.from({ length: CONCURRENT }, work));
      if (failures.length > 0) throw failures[0];
      return seen === AT_ONCE || toDo.length > 0 ? 0 : undefined;
    },
  };
}
