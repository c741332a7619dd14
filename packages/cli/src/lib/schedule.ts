import { cronError, nextRun, parseCron } from '@ropewalk/kit/cron';
import { parseDuration } from '@ropewalk/kit/duration';
import { AppError } from '@ropewalk/kit/errors';
import { ownValue } from '@ropewalk/kit/own-value';
import { zoneNamed } from '@ropewalk/kit/time-zone';

const DAYS: Record<string, number> = { sun: 0, mon: 1, tue: 2, wed: 3, thu: 4, fri: 5, sat: 6 };
const NAMES = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/**
 * Turns `9:30AM [days] [location]` into a weekly cron schedule such as `CRON_TZ=Europe/Dublin 30 9 * * 1-5`. Returns a
 * cron schedule unchanged.
 */
export function parseAutostart(words: readonly string[]): string {
  const text = words.join(' ').trim();
  if (/^CRON_TZ=/.test(text) || text.split(/\s+/).length === 5) return text;
  const [time, ...rest] = text.split(/\s+/) as [string, ...string[]];
  const { hour, minute } = parseTime(time);
  let days = '*';
  let zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const word of rest) {
    const named = zoneNamed(word);
    if (named !== undefined) zone = named;
    else days = parseDays(word);
  }
  return `CRON_TZ=${zone} ${minute} ${hour} * * ${days}`;
}

function parseTime(text: string): { hour: number; minute: number } {
  const parts = /^(\d{1,2})(?::(\d{2}))?\s*(am|pm)?$/i.exec(text);
  const wrong = new AppError('invalid', `Invalid time ${JSON.stringify(text)}: write it as 9:30AM or 09:30.`);
  if (!parts || (parts[2] === undefined && parts[3] === undefined)) throw wrong;
  const minute = Number(parts[2] ?? 0);
  let hour = Number(parts[1]);
  if (parts[3] !== undefined) {
    if (hour < 1 || hour > 12) throw wrong;
    hour = (hour % 12) + (/pm/i.test(parts[3]) ? 12 : 0);
  }
  if (hour > 23 || minute > 59) throw wrong;
  return { hour, minute };
}

function parseDays(text: string): string {
  if (text === '*') return text;
  const day = (name: string) => {
    const value = /^[0-6]$/.test(name) ? Number(name) : ownValue(DAYS, name.slice(0, 3).toLowerCase());
    if (value === undefined) {
      throw new AppError(
        'invalid',
        `Invalid days or time zone ${JSON.stringify(text)}: write days as Mon-Fri or Mon,Wed, and a time zone as Europe/Dublin.`,
      );
    }
    return value;
  };
  return text
    .split(',')
    .map((part) => part.split('-').map(day).join('-'))
    .join(',');
}

/** `9:30AM Mon-Fri (Europe/Dublin)`. Returns other schedules unchanged. */
export function showAutostart(schedule: string | undefined | null): string {
  if (!schedule) return '';
  const parts = /^(?:CRON_TZ=(\S+) )?(\d+) (\d+) \* \* (\S+)$/.exec(schedule);
  if (!parts) return schedule;
  const hour = Number(parts[3]);
  const time = `${hour % 12 || 12}:${parts[2]!.padStart(2, '0')}${hour < 12 ? 'AM' : 'PM'}`;
  const days = parts[4] === '*' ? 'daily' : parts[4]!.replace(/\d/g, (digit) => NAMES[Number(digit) % 7]!);
  return `${time} ${days} (${parts[1] ?? 'UTC'})`;
}

/** When a weekly schedule next starts a workspace. Undefined for other schedules. */
export function nextAutostart(schedule: string | undefined | null, after: number): string | undefined {
  if (!schedule || cronError(schedule, 'weekly') !== undefined) return undefined;
  return nextRun(parseCron(schedule, 'weekly'), new Date(after), 'UTC')?.toISOString();
}

/** Parses a duration in ms. A number without a unit is minutes. */
export const parseMinutes = (text: string): number => parseDuration(/^\d+$/.test(text) ? `${text}m` : text);
