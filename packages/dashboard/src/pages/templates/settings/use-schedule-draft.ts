import type { Template } from '@ropewalk/contract';
import { useState } from 'react';
import { dayNumbers, dayWords } from '../../../util/weekdays.ts';

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
export const MINUTE_MS = 60_000;
/** The longest time between required stops that the server accepts. */
export const MAX_WEEKS = 16;

/** The fields of the form, as a person fills them in. */
interface Entered {
  ttlHours: string;
  bumpHours: string;
  reminderMinutes: string;
  failureHours: string;
  unusedDays: string;
  deletionDays: string;
  startDays: readonly number[];
  stopDays: readonly number[];
  weeks: string;
  autostart: boolean;
  autostop: boolean;
  /** Whether the time without use counts from the moment of saving. */
  useFromNow: boolean;
  /** Whether the time of being dormant counts from the moment of saving. */
  dormantFromNow: boolean;
}

function enteredOf(template: Template): Entered {
  const amount = (ms: number, unit: number) => String(ms / unit);
  return {
    ttlHours: amount(template.default_ttl_ms, HOUR_MS),
    bumpHours: amount(template.activity_bump_ms, HOUR_MS),
    reminderMinutes: amount(template.time_til_autostop_notify_ms, MINUTE_MS),
    failureHours: amount(template.failure_ttl_ms, HOUR_MS),
    unusedDays: amount(template.time_til_dormant_ms, DAY_MS),
    deletionDays: amount(template.time_til_dormant_autodelete_ms, DAY_MS),
    startDays: dayNumbers(template.autostart_requirement.days_of_week),
    stopDays: dayNumbers(template.autostop_requirement.days_of_week),
    weeks: String(template.autostop_requirement.weeks || 1),
    autostart: template.allow_user_autostart,
    autostop: template.allow_user_autostop,
    useFromNow: true,
    dormantFromNow: true,
  };
}

/** NaN for anything but a number from 0. */
export function milliseconds(amount: string, unit: number): number {
  const value = amount.trim() === '' ? 0 : Number(amount);
  return value >= 0 ? Math.round(value * unit) : Number.NaN;
}

const timesOf = (entered: Entered) => ({
  default_ttl_ms: milliseconds(entered.ttlHours, HOUR_MS),
  activity_bump_ms: milliseconds(entered.bumpHours, HOUR_MS),
  time_til_autostop_notify_ms: milliseconds(entered.reminderMinutes, MINUTE_MS),
  failure_ttl_ms: milliseconds(entered.failureHours, HOUR_MS),
  time_til_dormant_ms: milliseconds(entered.unusedDays, DAY_MS),
  time_til_dormant_autodelete_ms: milliseconds(entered.deletionDays, DAY_MS),
});

/** The settings that the form shows. */
const settingsOf = (entered: Entered) => ({
  ...timesOf(entered),
  allow_user_autostart: entered.autostart,
  allow_user_autostop: entered.autostop,
  autostart_requirement: { days_of_week: dayWords(entered.startDays) },
  autostop_requirement: { days_of_week: dayWords(entered.stopDays), weeks: Number(entered.weeks) },
});

type Settings = ReturnType<typeof settingsOf>;

/** What a person has entered of a template's schedule, what is wrong with it, and what it changes. */
export function useScheduleDraft(template: Template) {
  const [entered, setEntered] = useState(() => enteredOf(template));
  const times = timesOf(entered);
  const settings = settingsOf(entered);
  const saved = settingsOf(enteredOf(template));
  const isChanged = (name: keyof Settings) => JSON.stringify(settings[name]) !== JSON.stringify(saved[name]);
  const weeks = Number(entered.weeks);
  const isWeeks = Number.isInteger(weeks) && weeks >= 1 && weeks <= MAX_WEEKS;
  const startDaysProblem = entered.autostart && entered.startDays.length === 0 ? 'Choose at least one day.' : undefined;
  const dormancyBegins = isChanged('time_til_dormant_ms') && times.time_til_dormant_ms > 0;
  const deletionBegins = isChanged('time_til_dormant_autodelete_ms') && times.time_til_dormant_autodelete_ms > 0;
  return {
    entered,
    /** Changes some of the fields. */
    enter: (fields: Partial<Entered>) => setEntered((before) => ({ ...before, ...fields })),
    changed: (Object.keys(settings) as (keyof Settings)[]).some(isChanged),
    valid: Object.values(times).every(Number.isFinite) && isWeeks && !startDaysProblem,
    weeksProblem: isWeeks ? undefined : `Enter a number from 1 to ${MAX_WEEKS}.`,
    startDaysProblem,
    /** Whether saving makes unused workspaces dormant after another time than before. */
    dormancyBegins,
    /** Whether saving deletes dormant workspaces after another time than before. */
    deletionBegins,
    /** The body of the request that saves it. */
    body: {
      ...settings,
      // the server reads a body with both requirements as all settings
      allow_user_cancel_workspace_jobs: template.allow_user_cancel_workspace_jobs,
      require_active_version: template.require_active_version,
      ...(dormancyBegins && entered.useFromNow ? { update_workspace_last_used_at: true } : {}),
      ...(deletionBegins && entered.dormantFromNow ? { update_workspace_dormant_at: true } : {}),
    },
  };
}

export type ScheduleDraft = ReturnType<typeof useScheduleDraft>;
