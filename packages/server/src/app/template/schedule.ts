import type { Allowed } from '../../authz/authorize.ts';
import type { Tx } from '../../db/connect.ts';
import { type RunningBuild, runningBuildsOf, type StopRules, storeStopTimes } from '../../db/queries/deadlines.ts';
import { setDeletionOf } from '../../db/queries/templates.ts';
import type { TemplateRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { notifyMarkedForDeletion } from '../notification/schedules.ts';
import { quietHoursOf } from '../schedule/quiet-hours.ts';
import { stopTimes } from '../schedule/times.ts';

/** A required stop that a change of the template brings forward leaves people this time. */
const NOTICE_MS = 2 * 3_600_000;

/** Applies changed times of a template to its workspaces: when running ones must stop, and when dormant ones are deleted. */
export async function applySchedule(
  ctx: Ctx,
  tx: Tx,
  template: Allowed<'update', TemplateRow>,
  changed: Partial<TemplateRow>,
  { restartDormancy }: { restartDormancy: boolean },
): Promise<void> {
  if (restartDormancy || changed.time_til_dormant_autodelete_ms !== undefined) {
    const afterMs = changed.time_til_dormant_autodelete_ms ?? template.time_til_dormant_autodelete_ms;
    const marked = await setDeletionOf(tx, template, { afterMs, since: restartDormancy ? ctx.clock.now() : null });
    for (const workspace of marked) await notifyMarkedForDeletion(ctx, tx, workspace);
  }
  if (changed.autostop_requirement_days !== undefined || changed.autostop_requirement_weeks !== undefined) {
    const builds = await runningBuildsOf(tx, template);
    const moved = builds.map((build) => movedStop(ctx, build)).filter((build) => build !== undefined);
    if (moved.length > 0) await storeStopTimes(tx, template, moved);
  }
}

/** The new stop times of a running build. Undefined if its required stop is too near to be moved. */
function movedStop({ config, clock }: Ctx, build: RunningBuild): RunningBuild | undefined {
  const soon = new Date(clock.now().getTime() + NOTICE_MS);
  const { deadline, max_deadline: before, completed_at: started } = build;
  if (before && before < soon) return undefined;
  const notBeforeSoon = (at: Date | null) => (at && at < soon ? soon : at);
  const times = (rules: StopRules) => stopTimes(rules, quietHoursOf(config, rules).schedule, started);
  const after = notBeforeSoon(times(build).maxDeadline);
  // a deadline that the template required goes back to the one that the workspace has without it
  const wasRequired = deadline !== null && before !== null && deadline >= before;
  const own = wasRequired ? notBeforeSoon(times({ ...build, autostop_requirement_days: [] }).deadline) : deadline;
  return { ...build, deadline: after && (!own || own > after) ? after : own, max_deadline: after };
}
