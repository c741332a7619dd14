import type { UpdateUserQuietHoursScheduleRequest, UserQuietHoursScheduleResponse } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { cronError, nextRun } from '@ropewalk/kit/cron';
import { setQuietHours } from '../../db/queries/users.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { quietHoursOf } from '../schedule/quiet-hours.ts';
import { time } from '../values/time.ts';

/** Checks a daily time: `[CRON_TZ=Area/City ]minute hour * * *`. Throws `invalid`. */
function checkDaily(text: string): void {
  const detail = cronError(text, 'daily');
  if (detail !== undefined) {
    throw new AppError('invalid', 'Failed to parse quiet hours schedule.', {
      validations: [{ field: 'schedule', detail }],
    });
  }
}

function answer(ctx: Ctx, own: string): UserQuietHoursScheduleResponse {
  const { raw, schedule, isOwn } = quietHoursOf(ctx.config, { quiet_hours_schedule: own });
  return {
    raw_schedule: raw,
    user_set: isOwn,
    user_can_set: ctx.config.allowCustomQuietHours,
    time: [schedule.hour, schedule.minute].map((values) => String([...values][0]).padStart(2, '0')).join(':'),
    timezone: schedule.zone ?? 'UTC',
    next: time(nextRun(schedule, ctx.clock.now(), 'UTC')!),
  };
}

/** When a person's workspaces may be stopped for maintenance: the person's own time or the installation's. */
export async function getQuietHours(ctx: Ctx, name: string): Promise<UserQuietHoursScheduleResponse> {
  return answer(ctx, (await findUser(ctx, 'read_personal', name)).quiet_hours_schedule);
}

/** An empty schedule restores the installation's. */
export async function updateQuietHours(
  ctx: Ctx,
  name: string,
  input: UpdateUserQuietHoursScheduleRequest,
): Promise<UserQuietHoursScheduleResponse> {
  const user = await findUser(ctx, 'update_personal', name);
  if (!ctx.config.allowCustomQuietHours) {
    throw new AppError('forbidden', 'Users cannot set custom quiet hours.');
  }
  const schedule = input.schedule.trim();
  if (schedule !== '') checkDaily(schedule);
  await ctx.sql.begin(async (tx) => {
    await setQuietHours(tx, user, schedule);
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: 'write',
      before: user,
      after: { ...user, quiet_hours_schedule: schedule },
    });
  });
  return answer(ctx, schedule);
}
