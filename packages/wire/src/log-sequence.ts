/**
 * Numbers for the lines of a log, so that a batch that is sent again is stored once. Each line has a sequence number
 * within an origin. An origin is anything that numbers its lines from 1, for example one run of Terraform or one life
 * of an agent. The numbers travel with their batch in DRPC metadata, and only between our own parts: upstream does
 * not use them.
 */
export interface LogNumber {
  /** At most 64 letters, digits, `.`, `_` and `-`. */
  origin: string;
  sequence: number;
}

/** The key of the DRPC metadata. */
export const LOG_SEQUENCE_KEY = 'platform-log-sequence';

/** Writes the numbers of a batch as `origin:first+count`, one for each series without a gap. */
export function formatLogNumbers(numbers: readonly LogNumber[]): string {
  const series: { origin: string; first: number; count: number }[] = [];
  for (const { origin, sequence } of numbers) {
    const last = series.at(-1);
    if (last?.origin === origin && last.first + last.count === sequence) last.count++;
    else series.push({ origin, first: sequence, count: 1 });
  }
  return series.map(({ origin, first, count }) => `${origin}:${first}+${count}`).join(',');
}

/** Reads the numbers of a batch of `count` lines. Returns undefined if they are missing or their number differs. */
export function parseLogNumbers(text: string | undefined, count: number): LogNumber[] | undefined {
  if (!text) return undefined;
  const numbers: LogNumber[] = [];
  for (const part of text.split(',')) {
    const match = /^([\w.-]{1,64}):(\d{1,15})\+(\d{1,9})$/.exec(part);
    if (!match) return undefined;
    const [first, more] = [Number(match[2]), Number(match[3])];
    if (numbers.length + more > count) return undefined;
    for (let i = 0; i < more; i++) numbers.push({ origin: match[1]!, sequence: first + i });
  }
  return numbers.length === count ? numbers : undefined;
}

/** How many lines of each origin are stored. */
export type LogPositions = Record<string, number>;
/** The limit against hostile peers: lines of further origins are stored unchecked. */
const MAX_ORIGINS = 512;

/** Returns the lines of a batch that are not stored yet, and the new position of each origin. */
export function freshLines<T>(
  lines: readonly T[],
  numbers: readonly LogNumber[],
  stored: LogPositions,
): { fresh: T[]; freshNumbers: LogNumber[]; positions: LogPositions } {
  const positions: LogPositions = { ...stored };
  let known = Object.keys(positions).length;
  const fresh: T[] = [];
  const freshNumbers: LogNumber[] = [];
  for (const [i, number] of numbers.entries()) {
    const { origin, sequence } = number;
    const last = Object.hasOwn(positions, origin) ? positions[origin]! : undefined;
    if (last !== undefined && sequence <= last) continue;
    fresh.push(lines[i]!);
    freshNumbers.push(number);
    if (last === undefined && known >= MAX_ORIGINS) continue;
    if (last === undefined) known++;
    positions[origin] = sequence;
  }
  return { fresh, freshNumbers, positions };
}
