/** Weekly schedules of workspaces: `CRON_TZ=Area/City minute hour * * days`. */

export interface WeeklySchedule {
  zone: string;
  hour: number;
  minute: number;
  /** 0 is Sunday, in order. */
  days: number[];
}

const NAMES = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const EVERY_DAY = [0, 1, 2, 3, 4, 5, 6];
const DAY_MS = 86_400_000;

/** Parses the server's schedule. Undefined for none, and for one that this form cannot show. */
export function parseSchedule(text: string | undefined): WeeklySchedule | undefined {
  const parts = /^(?:(?:CRON_)?TZ=(\S+) +)?(\d{1,2}) (\d{1,2}) \* \* (\S+)$/.exec(text?.trim() ?? '');
  if (!parts) return undefined;
  const days = parseDays(parts[4]!);
  if (!days) return undefined;
  return { zone: parts[1] || 'UTC', minute: Number(parts[2]), hour: Number(parts[3]), days };
}

function parseDays(text: string): number[] | undefined {
  if (text === '*') return [...EVERY_DAY];
  const day = (name: string) => {
    const named = NAMES.indexOf(name.toLowerCase());
    return named >= 0 ? named : /^[0-7]$/.test(name) ? Number(name) % 7 : undefined;
  };
  const found = new Set<number>();
  for (const part of text.split(',')) {
    const [from, to = from] = part.split('-').map(day);
    if (from === undefined || to === undefined || part.includes('/')) return undefined;
    for (let at = from; ; at = (at + 1) % 7) {
      found.add(at);
      if (at === to) break;
    }
  }
  return [...found].sort();
}

export function formatSchedule({ zone, hour, minute, days }: WeeklySchedule): string {
  const list = days.length === 7 ? '*' : [...days].sort().join(',');
  return `CRON_TZ=${zone} ${minute} ${hour} * * ${list}`;
}

const clocks = new Map<string, Intl.DateTimeFormat>();

/** Making a clock takes longer than reading it many times. */
function clockOf(zone: string): Intl.DateTimeFormat {
  const known = clocks.get(zone);
  if (known) return known;
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  clocks.set(zone, clock);
  return clock;
}

/** How far a zone is ahead of UTC at a moment, in ms. */
function zoneOffset(zone: string, at: number): number {
  const parts = clockOf(zone).formatToParts(at);
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value);
  const wall = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
  return wall - Math.floor(at / 1_000) * 1_000;
}

/** The starts between two moments, in ms since 1970. A time of day comes once a day, also when the clocks change. */
export function startsBetween({ zone, hour, minute, days }: WeeklySchedule, from: number, to: number): number[] {
  const starts: number[] = [];
  const firstDay = Math.floor((from + zoneOffset(zone, from)) / DAY_MS) - 1;
  for (let day = firstDay; day * DAY_MS <= to + 2 * DAY_MS; day++) {
    const wall = day * DAY_MS + hour * 3_600_000 + minute * 60_000;
    if (!days.includes(new Date(wall).getUTCDay())) continue;
    // the offset at the moment itself, which the first guess can miss by a change of the clocks
    const guess = wall - zoneOffset(zone, wall);
    const start = wall - zoneOffset(zone, guess);
    if (start > from && start <= to) starts.push(start);
  }
  return starts;
}

/** A stretch of a day on which the workspace runs, as parts of that day from 0 to 1. */
export interface Block {
  day: number;
  from: number;
  to: number;
}

/**
 * When a workspace runs in the days from `midnight` on, by its schedule. Without a time to live it runs on until the
 * end. `current` is the run under way.
 */
export function weekBlocks(
  schedule: WeeklySchedule | undefined,
  ttlMs: number | undefined,
  midnights: readonly number[],
  current: { from: number; to: number | undefined } | undefined,
  now: number,
): Block[] {
  const end = midnights.at(-1)!;
  const runs: { from: number; to: number }[] = [];
  if (current) runs.push({ from: current.from, to: current.to ?? end });
  if (schedule)
    for (const start of startsBetween(schedule, now, end)) {
      // a workspace that runs already is not started
      if (runs.some(({ from, to }) => start >= from && start < to)) continue;
      runs.push({ from: start, to: ttlMs ? start + ttlMs : end });
    }
  return midnights.slice(0, -1).flatMap((from, day) => {
    const to = midnights[day + 1]!;
    return runs.flatMap((run) => {
      const [start, stop] = [Math.max(run.from, from), Math.min(run.to, to)];
      return start < stop ? [{ day, from: (start - from) / (to - from), to: (stop - from) / (to - from) }] : [];
    });
  });
}
