/**
 * When workspaces start and stop by their schedules. Pure: the same arguments always give the same time.
 *
 * - The deadline is when a running workspace stops: its time to live after its start, later if somebody uses it.
 * - The maximal deadline is when it stops even if somebody uses it: at the owner's quiet hours on a day that the
 *   template requires.
 */

import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { type CronTimes, nextRun, parseCron } from '@ropewalk/kit/cron';
import type { StopTimes } from '../../db/queries/builds.ts';
import type { StopRules } from '../../db/queries/deadlines.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** The least time from the start of a workspace to its required stop. */
const LEAST_BEFORE_STOP_MS = HOUR_MS;
/** Weeks are counted from this Monday, as upstream counts them. */
const FIRST_MONDAY_MS = Date.UTC(2023, 0, 2);

export const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'] as const;

export type StartRules = Pick<StopRules, 'autostart_schedule' | 'allow_user_autostart' | 'autostart_days'>;

/** The first automatic start after a time, on a day that the template allows in the schedule's time zone. Null without one. */
export function nextStart(rules: StartRules, after: Date): Date | null {
  const { autostart_schedule: text, allow_user_autostart: allowed, autostart_days: days } = rules;
  if (!text || !allowed) return null;
  const schedule = parseCron(text, 'weekly') as CronTimes;
  const weekday = new Set([...schedule.weekday].filter((day) => days.includes(WEEKDAYS[day]!)));
  return weekday.size === 0 ? null : (nextRun({ ...schedule, weekday }, after, 'UTC') ?? null);
}

/** When a workspace that starts now has to stop at the latest. Null if its template does not require it. */
export function requiredStop(
  {
    autostop_requirement_days: days,
    autostop_requirement_weeks: weeks,
  }: Pick<StopRules, 'autostop_requirement_days' | 'autostop_requirement_weeks'>,
  quietHours: CronTimes,
  now: Date,
): Date | null {
  const wanted = WEEKDAYS.map((name) => days.includes(name));
  if (!wanted.includes(true)) return null;
  const zone = quietHours.zone ?? 'UTC';
  const [hour] = quietHours.hour;
  const [minute] = quietHours.minute;
  const every = Math.max(1, weeks);
  const earliest = now.getTime() + LEAST_BEFORE_STOP_MS;
  let date = Temporal.Instant.fromEpochMilliseconds(earliest).toZonedDateTimeISO(zone).toPlainDate();
  for (;;) {
    const day = Date.UTC(date.year, date.month - 1, date.day);
    const week = Math.floor((day - FIRST_MONDAY_MS) / (7 * DAY_MS));
    const weeksLeft = (every - (((week % every) + every) % every)) % every;
    if (weeksLeft > 0) {
      date = date.add({ days: 7 * weeksLeft - (date.dayOfWeek - 1) });
      continue;
    }
    if (wanted[date.dayOfWeek % 7]) {
      const at = date.toZonedDateTime({ timeZone: zone, plainTime: { hour: hour!, minute: minute! } });
      if (at.epochMilliseconds >= earliest) return new Date(at.epochMilliseconds);
    }
    date = date.add({ days: 1 });
  }
}

/** The time to live of a started workspace, in ms: the owner's, or the template's if people may not set it. */
export function timeToLive({
  ttl_ms: own,
  default_ttl_ms: ofTemplate,
  allow_user_autostop: mayChoose,
}: Pick<StopRules, 'ttl_ms' | 'default_ttl_ms' | 'allow_user_autostop'>): number {
  return mayChoose ? (own ?? 0) : ofTemplate;
}

/** When a workspace whose start ended now is stopped. */
export function stopTimes(rules: StopRules, quietHours: CronTimes, now: Date): StopTimes {
  // the time of an unclaimed prebuilt workspace begins with its claim
  if (rules.owner_id === PREBUILDS_USER_ID) return { deadline: null, maxDeadline: null };
  const ttl = timeToLive(rules);
  const maxDeadline = requiredStop(rules, quietHours, now);
  if (ttl <= 0) return { deadline: maxDeadline, maxDeadline };
  let deadline = new Date(now.getTime() + ttl);
  // a workspace that would start while it still runs has its time from that start on
  const start = nextStart(rules, now);
  if (start && deadline > start) deadline = new Date(start.getTime() + ttl);
  return { deadline: maxDeadline && maxDeadline < deadline ? maxDeadline : deadline, maxDeadline };
}
