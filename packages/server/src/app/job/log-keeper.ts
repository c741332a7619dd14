import { freshLines, type LogPositions } from '@ropewalk/wire/log-sequence';
import type { LogLine } from '../../db/queries/job-logs.ts';
import type { OwnedJob } from '../../db/queries/job-ownership.ts';

const HEAD_BYTES = 4 * 1024 * 1024;
const TAIL_LINES = 1_000;

/**
 * Limits the size of a job's log on the server. Upstream's daemons send everything that a template prints. The server
 * stores the first lines as they arrive and keeps the last lines in memory. When the job ends, it stores those, with a
 * line that says how many were left out.
 */
export function createLogKeeper(stored?: LogPositions) {
  let bytes = 0;
  let left = 0;
  const tail: LogLine[] = [];
  let job: OwnedJob | undefined;
  /** The last line number of each origin in the tail. A batch that could not be stored arrives again. */
  let tailed: LogPositions = {};
  const isNew = ({ number }: LogLine): boolean => {
    if (!number) return true;
    const { fresh, positions } = freshLines([number], [number], tailed);
    tailed = positions;
    return fresh.length > 0;
  };
  return {
    /** How much of the log is stored, as far as the server knows without asking. Absent: it does not know. */
    stored,
    /** Whether `keep` would select all of these lines. */
    hasRoom: (lines: readonly LogLine[]): boolean =>
      tail.length === 0 && bytes + lines.reduce((sum, line) => sum + sizeOf(line), 0) <= HEAD_BYTES,
    /** Selects the lines of an owned job to store now. */
    keep(lines: LogLine[], owned: OwnedJob): LogLine[] {
      job = owned;
      const now: LogLine[] = [];
      for (const line of lines) {
        bytes += sizeOf(line);
        if (bytes <= HEAD_BYTES) now.push(line);
        else if (isNew(line)) {
          tail.push(line);
          if (tail.length > TAIL_LINES) {
            tail.shift();
            left++;
          }
        }
      }
      return now;
    },
    /**
     * Stores the remaining lines when the job or the daemon's connection ends. Lines that could not be stored stay for
     * another attempt.
     */
    async storeRest(store: (lines: LogLine[], job: OwnedJob) => Promise<void>): Promise<void> {
      const lines = [...tail];
      const [first] = lines;
      if (!first || !job) return;
      const leftOut = left;
      const cut: LogLine = {
        source: 'provisioner_daemon',
        level: 'warn',
        stage: first.stage,
        output: `${leftOut} lines were left out here: the log is longer than the server keeps.`,
        createdAt: first.createdAt,
      };
      await store(leftOut > 0 ? [cut, ...lines] : lines, job);
      tail.splice(0, lines.length);
      left -= leftOut;
    },
  };
}

const sizeOf = ({ output }: LogLine): number => output.length + 64;

export type LogKeeper = ReturnType<typeof createLogKeeper>;
