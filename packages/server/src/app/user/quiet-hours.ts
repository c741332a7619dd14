import type { UpdateUserQuietHoursScheduleRequest, UserQuietHoursScheduleResponse } from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import type { UserRow } from '../../db/queries/users.ts';
import type { Ctx } from '../context.ts';
import { time } from './convert.ts';
import { resolveUser } from './get.ts';

export interface DailySchedule {
  zone: string;
  hour: number;
  minute: number;
}

/** A time of every day: `[CRON_TZ=Area/City ]minute hour * * *`. Throws `invalid`. */
export function parseDaily(text: string): DailySchedule {
  const refuse = (detail: string) =>
    new AppError('invalid', 'Failed to parse quiet hours schedule.', { validations: [{ field: 'schedule', detail }] });
  const parts = /^(?:CRON_TZ=(\S+)\s+)?(\d{1,2})\s+(\d{1,2})\s+\*\s+\*\s+\*$/.exec(text.trim());
  if (!parts) throw refuse('must be: [CRON_TZ=zone] minute hour * * *');
  const [, zone = 'UTC', minute, hour] = parts;
  if (Number(minute) > 59 || Number(hour) > 23) throw refuse('the hour must be 0 to 23, the minute 0 to 59');
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
  } catch {
    throw refuse(`unknown time zone ${JSON.stringify(zone)}`);
  }
  return { zone, hour: Number(hour), minute: Number(minute) };
}

/** The next moment of a daily schedule after `from`; on days without that hour, the first moment after it. */
export function nextDaily({ zone, hour, minute }: DailySchedule, from: Date): Date {
  const now = Temporal.Instant.fromEpochMilliseconds(from.getTime());
  const today = now.toZonedDateTimeISO(zone).toPlainDate();
  for (let days = 0; ; days++) {
    const at = today.add({ days }).toZonedDateTime({ timeZone: zone, plainTime: { hour, minute } });
    if (at.epochMilliseconds > from.getTime()) return new Date(at.epochMilliseconds);
  }
}

function answer(ctx: Ctx, own: string): UserQuietHoursScheduleResponse {
  const raw = own || ctx.config.defaultQuietHoursSchedule;
  const schedule = parseDaily(raw);
  return {
    raw_schedule: raw,
    user_set: own !== '',
    user_can_set: ctx.config.allowCustomQuietHours,
    time: `${String(schedule.hour).padStart(2, '0')}:${String(schedule.minute).padStart(2, '0')}`,
    timezone: schedule.zone,
    next: time(nextDaily(schedule, ctx.clock.now())),
  };
}

async function find(ctx: Ctx, name: string, action: 'read_personal' | 'update_personal'): Promise<UserRow> {
  const user = await resolveUser(ctx, name);
  authorize(ctx, action, { type: 'user', ownerId: user.id });
  return user;
}

/** When a person's workspaces may be stopped for maintenance: his own time or the installation's. */
export async function getQuietHours(ctx: Ctx, name: string): Promise<UserQuietHoursScheduleResponse> {
  return answer(ctx, (await find(ctx, name, 'read_personal')).quiet_hours_schedule);
}

/** An empty schedule goes back to the installation's. */
export async function updateQuietHours(
  ctx: Ctx,
  name: string,
  input: UpdateUserQuietHoursScheduleRequest,
): Promise<UserQuietHoursScheduleResponse> {
  const user = await find(ctx, name, 'update_personal');
  if (!ctx.config.allowCustomQuietHours) {
    throw new AppError('forbidden', 'Users cannot set custom quiet hours.');
  }
  const schedule = input.schedule.trim();
  if (schedule !== '') parseDaily(schedule);
  await ctx.sql`UPDATE users SET quiet_hours_schedule = ${schedule}, updated_at = now() WHERE id = ${user.id}`;
  return answer(ctx, schedule);
}
