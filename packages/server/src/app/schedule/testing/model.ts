/**
 * A slow model of schedules, to compare the real rules with. It knows the clock of a time zone as a table of every
 * minute of three years, made from `Intl` and not from `Temporal`, and looks for times by going through all days.
 */

const MINUTE_MS = 60_000;
const DAY = 24 * 60;
/** In minutes since 1970, like all times and days here. */
export const FROM = Date.UTC(2025, 11, 1) / MINUTE_MS;
export const TO = Date.UTC(2028, 11, 31) / MINUTE_MS;

/** Minutes that a zone is ahead of UTC at a time. */
function offsetAt(format: Intl.DateTimeFormat, minute: number): number {
  const name = format.formatToParts(minute * MINUTE_MS).find(({ type }) => type === 'timeZoneName')!.value;
  const found = /^GMT(?:([+-])(\d\d):(\d\d))?$/.exec(name);
  if (!found) throw new Error(`unexpected offset ${name}`);
  return (found[1] === '-' ? -1 : 1) * (Number(found[2] ?? 0) * 60 + Number(found[3] ?? 0));
}

export interface ZoneTable {
  zone: string;
  /** The minutes at which the clock changes. */
  changes: number[];
  /** When a clock shows a time (its minutes as if it were UTC) for the first time. A skipped time comes as much later as the clock moved. */
  firstShown(local: number): number;
}

export function zoneTable(zone: string): ZoneTable {
  const format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' });
  const changes: number[] = [];
  const shown = new Int32Array(TO - FROM + 4 * DAY).fill(-1);
  const place = (local: number) => local - FROM + DAY;
  let before = offsetAt(format, FROM);
  for (let day = FROM; day < TO; day += DAY) {
    const after = offsetAt(format, day + DAY);
    for (let minute = day, offset = before; minute < day + DAY; minute++) {
      // only days with a change are looked at minute by minute
      const now = before === after ? before : offsetAt(format, minute);
      if (now !== offset) {
        changes.push(minute);
        for (let skipped = minute + offset; skipped < minute + now; skipped++) {
          shown[place(skipped)] = minute + skipped - (minute + offset);
        }
        offset = now;
      }
      if (shown[place(minute + now)] === -1) shown[place(minute + now)] = minute;
    }
    before = after;
  }
  return { zone, changes, firstShown: (local) => shown[place(local)]! };
}

/** Of the first minute of a day, without a zone. The first of January 1970 was a Thursday. */
const weekdayOf = (minute: number): number => (minute / DAY + 4) % 7;

export interface Weekly {
  hour: number;
  minute: number;
  /** 0 is Sunday. */
  days: ReadonlySet<number>;
}

/** All times of a weekly schedule, in order. */
export function timesOf(table: ZoneTable, { hour, minute, days }: Weekly): number[] {
  const times: number[] = [];
  for (let day = FROM + DAY; day < TO - DAY; day += DAY) {
    if (days.has(weekdayOf(day))) times.push(table.firstShown(day + hour * 60 + minute));
  }
  return times;
}

/** The first of these times after one. */
export const after = (times: readonly number[], minute: number): number | undefined =>
  times.find((time) => time > minute);

/** The first quiet time at least an hour after `minute`, on one of the days, in a week that is divisible by `weeks`. */
export function requiredStopOf(
  table: ZoneTable,
  quiet: { hour: number; minute: number },
  { days, weeks }: { days: ReadonlySet<number>; weeks: number },
  minute: number,
): number | undefined {
  const firstMonday = Date.UTC(2023, 0, 2) / MINUTE_MS;
  const today = minute - (minute % DAY);
  for (let day = today - 2 * DAY; day < TO - DAY; day += DAY) {
    const time = table.firstShown(day + quiet.hour * 60 + quiet.minute);
    const isWeek = Math.floor((day - firstMonday) / (7 * DAY)) % weeks === 0;
    if (time >= minute + 60 && isWeek && days.has(weekdayOf(day))) return time;
  }
  return undefined;
}
