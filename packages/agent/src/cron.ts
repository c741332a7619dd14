import { AppError, parseDuration } from '@platform/kit';

export type CronSchedule =
  | { everyMs: number }
  | {
      second: Set<number>;
      minute: Set<number>;
      hour: Set<number>;
      day: Set<number>;
      month: Set<number>;
      weekday: Set<number>;
      /** With both days limited, either will do. */
      eitherDay: boolean;
    };

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const NAMED: Record<string, string> = {
  '@yearly': '0 0 0 1 1 *',
  '@annually': '0 0 0 1 1 *',
  '@monthly': '0 0 0 1 * *',
  '@weekly': '0 0 0 * * 0',
  '@daily': '0 0 0 * * *',
  '@midnight': '0 0 0 * * *',
  '@hourly': '0 0 * * * *',
};

/**
 * A schedule of five fields (minute first) or six (second first), with lists, ranges, steps and names; or `@hourly`
 * and its like, or `@every 1h30m`. Throws `invalid`.
 */
export function parseCron(text: string): CronSchedule {
  const bad = (why: string) => new AppError('invalid', `Invalid schedule ${JSON.stringify(text)}: ${why}.`);
  const trimmed = text.trim();
  if (trimmed.startsWith('@every ')) {
    const everyMs = parseDuration(trimmed.slice('@every '.length));
    if (everyMs < 1_000) throw bad('the interval is shorter than a second');
    return { everyMs };
  }
  const fields = (NAMED[trimmed.toLowerCase()] ?? trimmed).split(/\s+/);
  if (fields.length === 5) fields.unshift('0');
  if (fields.length !== 6) throw bad('it must have five or six fields');
  const value = (raw: string, names: string[], first: number): number => {
    const named = names.indexOf(raw.toLowerCase());
    if (named >= 0) return named + first;
    if (!/^\d+$/.test(raw)) throw bad(`${JSON.stringify(raw)} is not a number`);
    return Number(raw);
  };
  const field = (index: number, least: number, most: number, names: string[] = []): Set<number> => {
    const found = new Set<number>();
    for (const part of fields[index]!.split(',')) {
      const [range = '', stepText] = part.split('/');
      const step = stepText === undefined ? 1 : value(stepText, [], 0);
      if (step < 1) throw bad('a step must be at least 1');
      let [from, to] = [least, most];
      if (range !== '*' && range !== '?') {
        const [a = '', b] = range.split('-');
        from = value(a, names, least);
        to = b !== undefined ? value(b, names, least) : stepText === undefined ? from : most;
      }
      if (from < least || to > most || from > to) throw bad(`${part} is outside ${least} to ${most}`);
      for (let at = from; at <= to; at += step) found.add(at);
    }
    return found;
  };
  const weekday = field(5, 0, 7, WEEKDAYS);
  if (weekday.delete(7)) weekday.add(0);
  const limited = (index: number) => !/^[*?]/.test(fields[index]!);
  return {
    second: field(0, 0, 59),
    minute: field(1, 0, 59),
    hour: field(2, 0, 23),
    day: field(3, 1, 31),
    month: field(4, 1, 12, MONTHS),
    weekday,
    eitherDay: limited(3) && limited(5),
  };
}

/** The first time after `after`, in local time; undefined when there is none within five years (30 February). */
export function nextRun(schedule: CronSchedule, after: Date): Date | undefined {
  if ('everyMs' in schedule) return new Date(after.getTime() + schedule.everyMs);
  const at = new Date(after);
  at.setMilliseconds(0);
  at.setSeconds(at.getSeconds() + 1);
  const end = after.getFullYear() + 5;
  while (at.getFullYear() <= end) {
    const day = schedule.day.has(at.getDate());
    const weekday = schedule.weekday.has(at.getDay());
    if (!schedule.month.has(at.getMonth() + 1)) at.setMonth(at.getMonth() + 1, 1);
    else if (!(schedule.eitherDay ? day || weekday : day && weekday)) at.setDate(at.getDate() + 1);
    else if (!schedule.hour.has(at.getHours())) {
      // In absolute time, so that an hour that daylight saving repeats or skips can't hold the search.
      at.setMinutes(0, 0, 0);
      at.setTime(at.getTime() + 3_600_000);
      continue;
    } else if (!schedule.minute.has(at.getMinutes())) {
      at.setTime(at.getTime() + 60_000 - at.getSeconds() * 1_000);
      continue;
    } else if (!schedule.second.has(at.getSeconds())) {
      at.setTime(at.getTime() + 1_000);
      continue;
    } else return at;
    at.setHours(0, 0, 0, 0);
  }
  return undefined;
}
