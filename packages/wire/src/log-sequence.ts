/**
 * Numbers for lines of a log, so that a batch that is sent again is stored once. Each line has a sequence number within
 * an origin: whatever numbers its lines from 1 on, such as one run of Terraform or one life of an agent. The numbers of a
 * batch travel beside it, in DRPC metadata, and only between our own parts: a published peer has no use for them.
 */
export interface LogNumber {
  /** Letters, digits, `.`, `_` and `-`; at most 64 of them. */
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

/** Reads the numbers of a batch of `count` lines. Undefined where there are none, or other than so many. */
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

/** How far each origin's lines are stored. */
export type LogPositions = Record<string, number>;
/** Whatever a peer sends: beyond so many origins its lines are stored as they come. */
const MOST_ORIGINS = 512;

/** Of a batch, the lines that are not stored yet, and how far they bring each origin. */
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
    if (last === undefined && known >= MOST_ORIGINS) continue;
    if (last === undefined) known++;
    positions[origin] = sequence;
  }
  return { fresh, freshNumbers, positions };
}
