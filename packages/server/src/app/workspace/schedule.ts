import type {
  PutExtendWorkspaceRequest,
  UpdateWorkspaceAutomaticUpdatesRequest,
  UpdateWorkspaceAutostartRequest,
  UpdateWorkspaceTTLRequest,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { cronError } from '@ropewalk/kit/cron';
import { allow } from '../../authz/authorize.ts';
import { type ScheduleRights, scheduleRights } from '../../db/queries/build-sources.ts';
import { latestBuild } from '../../db/queries/builds.ts';
import { clearDeadline, setDeadline } from '../../db/queries/deadlines.ts';
import { setAutomaticUpdatesTo, setAutostartSchedule, setTtlMs } from '../../db/queries/workspaces.ts';
import type { Ctx } from '../context/context.ts';
import { findWorkspace, workspaceObject } from '../find/workspace.ts';
import { nextStart } from '../schedule/times.ts';
import { changeWorkspace } from './update.ts';

const MINUTE_MS = 60_000;
const LONGEST_TTL_MS = 30 * 24 * 60 * MINUTE_MS;
const LEAST_DEADLINE_MS = 30 * MINUTE_MS;

const invalid = (field: string, detail: string) =>
  new AppError('invalid', `Invalid ${field}.`, { validations: [{ field, detail }] });

/** Checks a weekly schedule, `[CRON_TZ=Area/City ]minute hour * * days`. Null for an empty one. */
export function checkAutostart(schedule: string | undefined, template: ScheduleRights): string | null {
  const text = schedule?.trim() ?? '';
  if (text === '') return null;
  if (!template.allow_user_autostart)
    throw invalid('schedule', 'Autostart is not allowed for workspaces of this template.');
  const detail = cronError(text, 'weekly');
  if (detail !== undefined) throw invalid('schedule', detail);
  return text;
}

/** Checks the time after which a started workspace is stopped, in ms. Null means never. */
export function checkTtl(ttlMs: number | undefined, template: ScheduleRights): number | null {
  if (ttlMs === undefined || ttlMs === 0) return null;
  if (!template.allow_user_autostop)
    throw invalid('ttl_ms', 'Custom autostop is not allowed for workspaces of this template.');
  if (ttlMs < MINUTE_MS) throw invalid('ttl_ms', 'must be at least one minute');
  if (ttlMs > LONGEST_TTL_MS) throw invalid('ttl_ms', 'must be at most 30 days');
  return ttlMs;
}

export async function setAutostart(ctx: Ctx, id: string, input: UpdateWorkspaceAutostartRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, 'update', id);
  const template = await scheduleRights(ctx.sql, workspace.template_id);
  const schedule = checkAutostart(input.schedule, template);
  const next = nextStart({ autostart_schedule: schedule, ...template }, ctx.clock.now());
  await changeWorkspace(ctx, workspace, (tx) => setAutostartSchedule(tx, workspace, schedule, next));
}

export async function setTtl(ctx: Ctx, id: string, input: UpdateWorkspaceTTLRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, 'update', id);
  const ttl = checkTtl(input.ttl_ms, await scheduleRights(ctx.sql, workspace.template_id));
  await changeWorkspace(ctx, workspace, async (tx) => {
    await setTtlMs(tx, workspace, ttl);
    // without a time to live, the running build has only the deadline that its template requires
    if (ttl === null) await clearDeadline(tx, workspace);
  });
}

export async function setAutomaticUpdates(
  ctx: Ctx,
  id: string,
  input: UpdateWorkspaceAutomaticUpdatesRequest,
): Promise<void> {
  const workspace = await findWorkspace(ctx, 'update', id);
  const value = input.automatic_updates ?? 'never';
  await changeWorkspace(ctx, workspace, (tx) => setAutomaticUpdatesTo(tx, workspace, value));
}

/** Moves the deadline of a running workspace. */
export async function extend(ctx: Ctx, id: string, input: PutExtendWorkspaceRequest): Promise<{ message: string }> {
  const workspace = await findWorkspace(ctx, 'update', id);
  const build = await latestBuild(ctx.sql, id);
  if (build?.transition !== 'start' || build.job_status !== 'succeeded') {
    throw new AppError(
      'conflict',
      `Workspace must be started; current status: ${build?.transition} ${build?.job_status}`,
    );
  }
  if (!build.deadline) throw new AppError('conflict', 'Workspace shutdown is manual.');
  if (input.deadline === undefined) throw invalid('deadline', 'is required');
  const deadline = new Date(input.deadline);
  const now = ctx.clock.now().getTime();
  if (Number.isNaN(deadline.getTime())) throw invalid('deadline', 'must be a time');
  if (deadline.getTime() - now < LEAST_DEADLINE_MS)
    throw new AppError('invalid', 'Cannot extend workspace: new deadline must be at least 30 minutes in the future');
  if (build.max_deadline && deadline > build.max_deadline)
    throw new AppError('invalid', 'Cannot extend workspace beyond max deadline.');
  const changeable = allow(ctx, 'update', build, workspaceObject(build));
  await changeWorkspace(ctx, workspace, (tx) => setDeadline(tx, changeable, deadline), { deadline });
  return { message: `Deadline updated to ${deadline.toISOString()}.` };
}
