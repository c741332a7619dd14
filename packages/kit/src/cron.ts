import { parseDuration } from './duration.ts';
import { AppError } from './errors.ts';
import { ownValue } from './own-value.ts';
import { isTimeZone, timeZoneId } from './time-zone.ts';

/**
 * Cron schedules, read as upstream reads them (robfig/cron v3). A field is a list of values, ranges and steps
 * (`1,5-8,*\/15`); months and days of the week have three-letter names. `CRON_TZ=Area/City ` before the fields sets the
 * time zone. Four forms differ in their fields:
 *
 * - `script`: second, minute, hour, day of month, month and, optionally, day of week. Also `@daily` and its like, and
 *   `@every 1h30m`. Five fields still begin with the second.
 * - `prebuild`: the usual five fields, with `*` for the minute and without a time zone.
 * - `weekly`: `minute hour * * days`, for the start of a workspace.
 * - `daily`: `minute hour * * *`, for quiet hours.
 */
export type CronForm = 'script' | 'prebuild' | 'weekly' | 'daily';

export type CronSchedule = { everyMs: number } | CronTimes;

export interface CronTimes {
  /** The IANA name of the time zone. Undefined without `CRON_TZ`: the caller decides. */
  zone: string | undefined;
  second: ReadonlySet<number>;
  minute: ReadonlySet<number>;
  hour: ReadonlySet<number>;
  day: ReadonlySet<number>;
  month: ReadonlySet<number>;
  /** 0 is Sunday. */
  weekday: ReadonlySet<number>;
  /** Whether either day matches: true when the schedule limits both days. */
  eitherDay: boolean;
}

interface Field {
  name: string;
  least: number;
  most: number;
  names?: readonly string[];
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const FIELDS: readonly Field[] = [
  { name: 'second', least: 0, most: 59 },
  { name: 'minute', least: 0, most: 59 },
  { name: 'hour', least: 0, most: 23 },
  { name: 'day of month', least: 1, most: 31 },
  { name: 'month', least: 1, most: 12, names: MONTHS },
  { name: 'day of week', least: 0, most: 6, names: WEEKDAYS },
];
const DESCRIPTORS: Readonly<Record<string, string>> = {
  '@yearly': '0 0 0 1 1 *',
  '@annually': '0 0 0 1 1 *',
  '@monthly': '0 0 0 1 * *',
  '@weekly': '0 0 0 * * 0',
  '@daily': '0 0 0 * * *',
  '@midnight': '0 0 0 * * *',
  '@hourly': '0 0 * * * *',
};
const GO_DURATION = /^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$/;
/** A schedule without a time within this many years, such as 30 February, has no next time. */
const YEARS_AHEAD = 5;

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const number = (text: string): number | undefined => (/^\+?\d{1,9}$/.test(text) ? Number(text) : undefined);
const invalid = (why: string) => new AppError('invalid', why);

function point(text: string, field: Field): number | undefined {
  const named = field.names?.indexOf(text.toLowerCase()) ?? -1;
  return named >= 0 ? named + field.least : number(text);
}

/** The values of one field. Throws `invalid`. */
function parseField(text: string, field: Field): Set<number> {
  const found = new Set<number>();
  for (const part of text.split(',')) {
    if (part === '') continue;
    const [range = '', stepText, ...extra] = part.split('/');
    const step = stepText === undefined ? 1 : number(stepText);
    const ends = range.split('-');
    const isAny = ends[0] === '*' || ends[0] === '?';
    const from = isAny ? field.least : point(ends[0]!, field);
    const to = isAny
      ? field.most
      : ends.length > 1
        ? point(ends[1]!, field)
        : stepText === undefined
          ? from
          : field.most;
    if (extra.length > 0 || !step || (!isAny && ends.length > 2) || from === undefined || to === undefined) {
      throw invalid(`"${part}" is not a valid ${field.name}`);
    }
    if (from < field.least || to > field.most) {
      throw invalid(`${field.name} must be from ${field.least} to ${field.most}, not "${part}"`);
    }
    if (from > to) throw invalid(`${field.name} range "${part}" runs backwards`);
    for (let at = from; at <= to; at += step) found.add(at);
  }
  return found;
}

function parseFields(six: readonly string[], zone: string | undefined): CronTimes {
  const [second, minute, hour, day, month, weekday] = six.map((text, i) => parseField(text, FIELDS[i]!)) as [
    Set<number>,
    Set<number>,
    Set<number>,
    Set<number>,
    Set<number>,
    Set<number>,
  ];
  const restricted = (text: string) => !/^[*?]/.test(text);
  const eitherDay = restricted(six[3]!) && restricted(six[5]!);
  return { zone, second, minute, hour, day, month, weekday, eitherDay };
}

/** Parses a schedule. Throws `invalid` with the reason. */
export function parseCron(expression: string, form: CronForm): CronSchedule {
  let text = expression;
  let zone: string | undefined;
  const prefix = form === 'prebuild' ? null : /^(?:CRON_)?TZ=([^ ]*)( ?)/.exec(expression);
  if (prefix) {
    if (prefix[2] === '') throw invalid(`"${expression}" is a time zone without a schedule`);
    if (!isTimeZone(prefix[1]!)) throw invalid(`"${prefix[1]}" is not a time zone`);
    zone = timeZoneId(prefix[1]!);
    text = expression.slice(prefix[0].length).trim();
  }
  if (form === 'script') return parseScript(text, expression, zone);
  const given = wordsOf(text);
  if (given.length !== 5) throw invalid(`a schedule has 5 fields, "${expression}" has ${given.length}`);
  const [minute, hour, day, month, weekday] = given as [string, string, string, string, string];
  if (form === 'prebuild') {
    // Instances are scheduled by the hour or longer: a schedule that starts and ends within one hour could never be
    // met.
    if (minute !== '*') throw invalid(`"${expression}" must have * for the minute`);
  } else {
    for (const [text, name] of [
      [minute, 'minute'],
      [hour, 'hour'],
    ] as const) {
      if (number(text) === undefined) throw invalid(`the ${name} must be a single number, not "${text}"`);
    }
    if (day !== '*' || month !== '*') throw invalid('day of month and month must be *');
    if (form === 'daily' && weekday !== '*') throw invalid('day of week must be *');
  }
  return parseFields(['0', ...given], zone);
}

function parseScript(text: string, expression: string, zone: string | undefined): CronSchedule {
  if (text.startsWith('@')) {
    const every = /^@every (.*)$/.exec(text);
    if (every && GO_DURATION.test(every[1]!)) return { everyMs: Math.max(1_000, parseDuration(every[1]!)) };
    const fields = every ? undefined : ownValue(DESCRIPTORS, text);
    if (fields !== undefined) return parseFields(fields.split(' '), zone);
    throw invalid(`"${text}" is neither a descriptor like @daily nor @every with a duration like 1h30m`);
  }
  const given = wordsOf(text);
  if (given.length < 5 || given.length > 6)
    throw invalid(`a schedule has 6 fields, "${expression}" has ${given.length}`);
  return parseFields([...given, '*'].slice(0, 6), zone);
}

/** What is wrong with a schedule, or undefined. */
export function cronError(expression: string, form: CronForm): string | undefined {
  try {
    parseCron(expression, form);
    return undefined;
  } catch (err) {
    if (err instanceof AppError) return err.message;
    throw err;
  }
}

/** Whether a script's schedule has five fields that make sense without seconds: its author may have meant minutes. */
export function lacksSeconds(expression: string): boolean {
  const given = wordsOf(expression);
  if (given.length !== 5) return false;
  try {
    return parseFields(['0', ...given], undefined) !== undefined;
  } catch {
    return false;
  }
}

/**
 * The first time after `after`. `zone` applies to schedules without a time zone. Undefined if no time matches within
 * five years. A single time of day comes once each day: a clock change that skips it moves it by as much as the clock
 * moves, and of a time that a change repeats, the first one counts.
 */
export function nextRun(schedule: CronSchedule, after: Date, zone = Temporal.Now.timeZoneId()): Date | undefined {
  if ('everyMs' in schedule) return new Date(after.getTime() + schedule.everyMs);
  const timeZone = schedule.zone ?? zone;
  const start = Temporal.Instant.fromEpochMilliseconds(Math.floor(after.getTime() / 1_000) * 1_000 + 1_000);
  const first = start.toZonedDateTimeISO(timeZone);
  // The previous day may have a time that a clock change moved past midnight.
  for (let days = -1; days <= YEARS_AHEAD * 366; days += 1) {
    const date = first.toPlainDate().add({ days });
    const day = schedule.day.has(date.day);
    const weekday = schedule.weekday.has(date.dayOfWeek % 7);
    if (!schedule.month.has(date.month) || !(schedule.eitherDay ? day || weekday : day && weekday)) continue;
    const found = firstOnDay(schedule, date, timeZone, start);
    if (found) return new Date(found.epochMilliseconds);
  }
  return undefined;
}

/** Whether a time is in a minute at which the schedule runs. `zone` applies to schedules without a time zone. */
export function coversMinute({ zone: own, ...times }: CronTimes, at: Date, zone: string): boolean {
  const local = Temporal.Instant.fromEpochMilliseconds(at.getTime()).toZonedDateTimeISO(own ?? zone);
  const day = times.day.has(local.day);
  const weekday = times.weekday.has(local.dayOfWeek % 7);
  return (
    times.month.has(local.month) &&
    (times.eitherDay ? day || weekday : day && weekday) &&
    times.hour.has(local.hour) &&
    times.minute.has(local.minute)
  );
}

const only = (values: ReadonlySet<number>): number | undefined =>
  values.size === 1 ? (values.values().next().value as number) : undefined;

function firstOnDay(
  { second, minute, hour }: CronTimes,
  date: Temporal.PlainDate,
  timeZone: string,
  start: Temporal.Instant,
): Temporal.Instant | undefined {
  const single = [only(hour), only(minute), only(second)];
  if (!single.includes(undefined)) {
    const [h, m, s] = single as [number, number, number];
    const at = date.toZonedDateTime({ timeZone, plainTime: { hour: h, minute: m, second: s } }).toInstant();
    return Temporal.Instant.compare(at, start) >= 0 ? at : undefined;
  }
  let at = date.toZonedDateTime(timeZone);
  if (Temporal.Instant.compare(at.toInstant(), start) < 0) at = start.toZonedDateTimeISO(timeZone);
  // In absolute time: an hour that a clock change repeats or skips cannot stall the search.
  while (at.toPlainDate().equals(date)) {
    if (!hour.has(at.hour)) at = at.add({ minutes: 60 - at.minute, seconds: -at.second });
    else if (!minute.has(at.minute)) at = at.add({ seconds: 60 - at.second });
    else if (!second.has(at.second)) at = at.add({ seconds: 1 });
    else return at.toInstant();
  }
  return undefined;
}
