import { freshLines, type LogPositions } from '@platform/wire/log-sequence';
import type { LogLine } from '../../db/queries/jobs.ts';

const HEAD_BYTES = 4 * 1024 * 1024;
const TAIL_LINES = 1_000;

/**
 * Bounds a job's log on the server: the head is stored as it comes, of what follows the last lines are kept in memory
 * and stored when the job ends, and the cut is said. A published daemon sends whatever its templates print.
 */
export function createLogKeeper() {
  let bytes = 0;
  let left = 0;
  const tail: LogLine[] = [];
  /** How far the numbered lines of the tail go: a batch whose storing failed comes again. */
  let tailed: LogPositions = {};
  const isNew = ({ number }: LogLine): boolean => {
    if (!number) return true;
    const { fresh, positions } = freshLines([number], [number], tailed);
    tailed = positions;
    return fresh.length > 0;
  };
  return {
    keep(lines: LogLine[]): LogLine[] {
      const now: LogLine[] = [];
      for (const line of lines) {
        bytes += line.output.length + 64;
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
     * Stores what is still to be stored when the job ends, or when the connection does that holds it: what could not be
     * stored stays for another try.
     */
    async storeRest(store: (lines: LogLine[]) => Promise<void>): Promise<void> {
      const lines = [...tail];
      const [first] = lines;
      if (!first) return;
      const leftOut = left;
      const cut: LogLine = {
        source: 'provisioner_daemon',
        level: 'warn',
        stage: first.stage,
        output: `${leftOut} lines were left out here: the log is longer than the server keeps.`,
        createdAt: first.createdAt,
      };
      await store(leftOut > 0 ? [cut, ...lines] : lines);
      tail.splice(0, lines.length);
      left -= leftOut;
    },
  };
}
export type LogKeeper = ReturnType<typeof createLogKeeper>;
