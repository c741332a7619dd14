import { isTimeZone } from './time-zone.ts';

/**
 * Cron expressions as the published platform reads them. Scripts have six fields, seconds first, and may leave out the
 * day of the week; they may begin with a time zone (`CRON_TZ=…`) or be a descriptor (`@daily`). Schedules of prebuilt
 * workspaces have the usual five fields and nothing else.
 */
interface Field {
  name: string;
  least: number;
  most: number;
  names?: string[];
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const FIELDS: Field[] = [
  { name: 'second', least: 0, most: 59 },
  { name: 'minute', least: 0, most: 59 },
  { name: 'hour', least: 0, most: 23 },
  { name: 'day of month', least: 1, most: 31 },
  { name: 'month', least: 1, most: 12, names: MONTHS },
  { name: 'day of week', least: 0, most: 6, names: DAYS },
];
const DESCRIPTOR = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$/;
const DURATION = /^[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$/;

const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const number = (text: string): number | undefined => (/^\+?\d{1,9}$/.test(text) ? Number(text) : undefined);

function point(text: string, field: Field): number | undefined {
  const named = field.names?.indexOf(text.toLowerCase()) ?? -1;
  return named >= 0 ? named + field.least : number(text);
}

function partError(part: string, field: Field): string | undefined {
  const [range = '', step, extra] = part.split('/');
  if (extra !== undefined || (step !== undefined && !number(step))) return `"${part}" is not a valid ${field.name}`;
  const ends = range.split('-');
  if (ends[0] === '*' || ends[0] === '?') return undefined;
  const from = point(ends[0]!, field);
  const to = ends.length > 1 ? point(ends[1]!, field) : from;
  if (ends.length > 2 || from === undefined || to === undefined) return `"${part}" is not a valid ${field.name}`;
  if (from < field.least || to > field.most)
    return `${field.name} must be from ${field.least} to ${field.most}, not "${part}"`;
  return from > to ? `${field.name} range "${part}" runs backwards` : undefined;
}

function fieldsError(given: readonly string[], kinds: readonly Field[]): string | undefined {
  for (const [i, text] of given.entries())
    for (const part of text.split(',')) {
      const said = part === '' ? undefined : partError(part, kinds[i]!);
      if (said !== undefined) return said;
    }
  return undefined;
}

/** Says what is wrong with the schedule of a script; nothing when it is right. */
export function scriptCronError(expression: string): string | undefined {
  let schedule = expression;
  const zone = /^(?:CRON_)?TZ=([^ ]*)( ?)/.exec(expression);
  if (zone) {
    if (zone[2] === '') return `"${expression}" is a time zone without a schedule`;
    if (!isTimeZone(zone[1]!)) return `"${zone[1]}" is not a time zone`;
    schedule = expression.slice(zone[0].length).trim();
  }
  if (schedule.startsWith('@')) {
    const every = /^@every (.*)$/.exec(schedule);
    const known = every ? DURATION.test(every[1]!) : DESCRIPTOR.test(schedule);
    return known
      ? undefined
      : `"${schedule}" is neither a descriptor such as @daily nor @every with a duration such as 1h30m`;
  }
  const given = words(schedule);
  if (given.length < 5 || given.length > 6) return `a schedule has 6 fields, "${expression}" has ${given.length}`;
  return fieldsError(given, FIELDS);
}

/** Whether five fields are given that make sense without seconds, too: the author may have meant minutes. */
export function lacksSeconds(expression: string): boolean {
  const given = words(expression);
  return given.length === 5 && fieldsError(given, FIELDS.slice(1)) === undefined;
}

/** Says what is wrong with a schedule of prebuilt workspaces; nothing when it is right. */
export function prebuildCronError(expression: string): string | undefined {
  const given = words(expression);
  if (given.length !== 5) return `a schedule has 5 fields, "${expression}" has ${given.length}`;
  // Instances are counted by the hour and more: a schedule that begins and ends within one could never be met.
  if (given[0] !== '*') return `"${expression}" must have * for the minute`;
  return fieldsError(given, FIELDS.slice(1));
}

/** The numbers of one field; undefined where it holds more than numbers and ranges of them. */
function spread(text: string, most: number): Set<number> | undefined {
  const out = new Set<number>();
  for (const part of text === '*' ? [`0-${most}`] : text.split(',')) {
    const ends = part.split('-').map(number);
    const [from, to] = ends.length > 1 ? ends : [ends[0], ends[0]];
    if (from === undefined || to === undefined) return undefined;
    if (from > to || to > most) return undefined;
    for (let n = from; n <= to; n++) out.add(n);
  }
  return out;
}

/** Says which two of several schedules may hold at the same time, or which cannot be compared. Single ones always can. */
export function overlapError(schedules: readonly string[]): string | undefined {
  for (const [i, one] of schedules.entries())
    for (const other of schedules.slice(i + 1)) {
      const meets = overlap(words(one), words(other));
      if (typeof meets === 'string')
        return `"${one}" and "${other}" cannot be compared: several schedules use only numbers, ranges, lists and *, not ${meets}`;
      if (meets) return `"${one}" and "${other}" overlap`;
    }
  return undefined;
}

/** Whether two schedules meet, in each of month, day and hour; or the field that keeps it from being known. */
function overlap(one: string[], other: string[]): boolean | string {
  const meet = (field: number, most: number): boolean | string => {
    const [a, b] = [one[field]!, other[field]!];
    const [left, right] = [spread(a, most), spread(b, most)];
    if (!left || !right) return `"${left ? b : a}"`;
    return [...left].some((n) => right.has(n));
  };
  const [month, dayOfMonth, dayOfWeek, hour] = [
    () => meet(3, 12),
    () => meet(2, 31),
    () => meet(4, 6),
    () => meet(1, 23),
  ];
  const any = (field: number) => one[field] === '*' || other[field] === '*';
  // A schedule runs when either of its two kinds of day fits; a * is no restriction.
  const day = () => {
    if (any(2)) return dayOfWeek();
    const byMonth = dayOfMonth();
    if (any(4) || typeof byMonth === 'string') return byMonth;
    const byWeek = dayOfWeek();
    return typeof byWeek === 'string' ? byWeek : byMonth || byWeek;
  };
  for (const meets of [month, day, hour]) {
    const answer = meets();
    if (answer !== true) return answer;
  }
  return true;
}
