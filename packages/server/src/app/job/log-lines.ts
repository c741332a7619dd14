import { freshLines, type LogNumber, type LogPositions } from '@ropewalk/wire/log-sequence';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import { type Log, LogSource } from '@ropewalk/wire/proto/provisionerd';
import { LAST_TIME } from '../../db/connect.ts';
import type { LogLine } from '../../db/queries/job-logs.ts';

const LONGEST_LINE = 1_024;
const LEVELS: Record<number, LogLine['level']> = {
  [LogLevel.TRACE]: 'trace',
  [LogLevel.DEBUG]: 'debug',
  [LogLevel.INFO]: 'info',
  [LogLevel.WARN]: 'warn',
  [LogLevel.ERROR]: 'error',
};

/** The lines of a batch that are not stored yet. Lines without numbers are all taken for new. */
export function unstored(
  lines: LogLine[],
  numbers: LogNumber[] | undefined,
  epoch: number,
  stored: LogPositions,
): { fresh: LogLine[]; positions: LogPositions } {
  if (!numbers) return { fresh: lines, positions: stored };
  // numbers from another daemon that ran the job before belong to another epoch
  const ofEpoch = numbers.map(({ origin, sequence }) => ({ origin: `${epoch}/${origin}`, sequence }));
  const found = freshLines(lines, ofEpoch, stored);
  const fresh = found.fresh.map((line, i) => ({ ...line, number: found.freshNumbers[i]! }));
  return { fresh, positions: found.positions };
}

export function logLine(log: Log): LogLine {
  return {
    source: log.source === LogSource.PROVISIONER ? 'provisioner' : 'provisioner_daemon',
    level: LEVELS[log.level] ?? 'info',
    stage: log.stage,
    // only the part that is stored: the rest would only use memory
    output: cut(log.output),
    createdAt: loggedAt(Number(log.createdAt)),
  };
}

/** Copies the part that is stored: a substring in V8 keeps the whole string in memory. */
function cut(output: string): string {
  if (output.length <= LONGEST_LINE) return output;
  return Buffer.from(output.slice(0, LONGEST_LINE), 'utf16le').toString('utf16le');
}

/** The time of a line, or now when the line has no valid time. */
function loggedAt(ms: number): Date {
  const at = new Date(ms);
  return ms > 0 && at <= LAST_TIME ? at : new Date();
}
