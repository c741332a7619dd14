import { ownValue } from '@ropewalk/kit/own-value';
import { EvaluationError, toText } from '../values.ts';
import type { Fn } from './types.ts';

/** An RFC 3339 timestamp: its local date and time as if they were UTC, in ms, and what the text adds to them. */
interface Timestamp {
  local: number;
  /** Digits of the seconds' fraction, as written. */
  nanoseconds: bigint;
  /** Minutes east of UTC. */
  offset: number;
}

const DAY_MS = 86_400_000;

function parseTimestamp(text: string): Timestamp {
  const match =
    /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(Z|([+-])(\d\d):(\d\d))$/.exec(text) ?? undefined;
  const wrong = () => new EvaluationError(`${JSON.stringify(text)} is not a timestamp such as "2006-01-02T15:04:05Z".`);
  if (!match) throw wrong();
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const outside = hour > 23 || minute > 59 || second > 59 || Number(match[10] ?? 0) > 23 || Number(match[11] ?? 0) > 59;
  if (outside || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) throw wrong();
  const offset = (match[9] === '-' ? -1 : 1) * (Number(match[10] ?? 0) * 60 + Number(match[11] ?? 0));
  const local = date.getTime() + ((hour * 60 + minute) * 60 + second) * 1000;
  return { local, nanoseconds: BigInt((match[7] ?? '').padEnd(9, '0')), offset };
}

const nanosecondsOf = ({ local, nanoseconds, offset }: Timestamp): bigint =>
  BigInt(local - offset * 60_000) * 1_000_000n + nanoseconds;

const two = (n: number) => String(n).padStart(2, '0');

function zone(offset: number, separator: string): string {
  const minutes = Math.abs(offset);
  return `${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}${separator}${two(minutes % 60)}`;
}

/** Makes the format when it is first used: four of them would cost each start of the server and of a daemon. */
const names = (format: Intl.DateTimeFormatOptions) => {
  let of: Intl.DateTimeFormat | undefined;
  return (local: number) => {
    of ??= new Intl.DateTimeFormat('en-US', { ...format, timeZone: 'UTC' });
    return of.format(local);
  };
};
const [longDay, shortDay, longMonth, shortMonth] = [
  names({ weekday: 'long' }),
  names({ weekday: 'short' }),
  names({ month: 'long' }),
  names({ month: 'short' }),
];

/** The sequences of formatdate. Letters that belong to none of them are an error. */
function part(sequence: string, { local, offset }: Timestamp): string | undefined {
  const date = new Date(local);
  const [hour, hour12] = [date.getUTCHours(), date.getUTCHours() % 12 || 12];
  switch (sequence) {
    case 'YYYY':
      return String(date.getUTCFullYear()).padStart(4, '0');
    case 'YY':
      return two(date.getUTCFullYear() % 100);
    case 'MMMM':
      return longMonth(local);
    case 'MMM':
      return shortMonth(local);
    case 'MM':
      return two(date.getUTCMonth() + 1);
    case 'M':
      return String(date.getUTCMonth() + 1);
    case 'DD':
      return two(date.getUTCDate());
    case 'D':
      return String(date.getUTCDate());
    case 'EEEE':
      return longDay(local);
    case 'EEE':
      return shortDay(local);
    case 'hh':
      return two(hour);
    case 'h':
      return String(hour);
    case 'HH':
      return two(hour12);
    case 'H':
      return String(hour12);
    case 'AA':
      return hour < 12 ? 'AM' : 'PM';
    case 'aa':
      return hour < 12 ? 'am' : 'pm';
    case 'mm':
      return two(date.getUTCMinutes());
    case 'm':
      return String(date.getUTCMinutes());
    case 'ss':
      return two(date.getUTCSeconds());
    case 's':
      return String(date.getUTCSeconds());
    case 'ZZZZZ':
      return zone(offset, ':');
    case 'ZZZZ':
      return zone(offset, '');
    case 'ZZZ':
      return offset === 0 ? 'UTC' : zone(offset, '');
    case 'Z':
      return offset === 0 ? 'Z' : zone(offset, ':');
    default:
      return undefined;
  }
}

function formatDate(spec: string, text: string): string {
  const at = parseTimestamp(text);
  const token = /'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'/gs;
  return spec.replace(token, (found, quoted: string | undefined, letter: string | undefined) => {
    if (quoted !== undefined) return quoted.replaceAll("''", "'");
    if (found === "'") throw new EvaluationError('A quoted text of the date format has no end.');
    if (letter === undefined) return found;
    const made = part(found, at);
    if (made === undefined) throw new EvaluationError(`The date format has no sequence ${JSON.stringify(found)}.`);
    return made;
  });
}

const UNITS: Record<string, bigint> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  μs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};

/** Parses a duration such as `-1h30m` as Go does, in nanoseconds. */
function duration(text: string): bigint {
  const wrong = () => new EvaluationError(`${JSON.stringify(text)} is not a duration such as "1h30m".`);
  const body = text.replace(/^[-+]/, '');
  if (body === '0') return 0n;
  let rest = body;
  let total = 0n;
  if (rest === '' || rest.length > 100) throw wrong();
  while (rest !== '') {
    const match = /^(?:(\d{1,18})(?:\.(\d{0,18}))?|\.(\d{1,18}))(ns|us|µs|μs|ms|s|m|h)/.exec(rest);
    if (!match) throw wrong();
    const fraction = match[2] ?? match[3] ?? '';
    const unit = ownValue(UNITS, match[4]!)!;
    total += BigInt(match[1] ?? 0) * unit + (BigInt(fraction || 0) * unit) / 10n ** BigInt(fraction.length);
    rest = rest.slice(match[0].length);
  }
  return text.startsWith('-') ? -total : total;
}

function timeAdd(text: string, by: string): string {
  const at = parseTimestamp(text);
  const sum = BigInt(at.local) * 1_000_000n + at.nanoseconds + duration(by);
  const second = 1_000_000_000n;
  const local = Number(sum / second - (sum % second < 0n ? 1n : 0n)) * 1000;
  if (!(Math.abs(local) < DAY_MS * 3_000_000)) throw new EvaluationError('The time is outside the supported years.');
  // Terraform leaves out the fraction of a second
  return `${new Date(local).toISOString().slice(0, 19)}${at.offset === 0 ? 'Z' : zone(at.offset, ':')}`;
}

export const time: Record<string, Fn> = {
  formatdate: { least: 2, run: (spec, text) => formatDate(toText(spec!), toText(text!)) },
  timeadd: { least: 2, run: (text, by) => timeAdd(toText(text!), toText(by!)) },
  timecmp: {
    least: 2,
    run: (a, b) => {
      const [left, right] = [nanosecondsOf(parseTimestamp(toText(a!))), nanosecondsOf(parseTimestamp(toText(b!)))];
      return left < right ? -1 : left > right ? 1 : 0;
    },
  },
};
