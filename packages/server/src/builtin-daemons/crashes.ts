import { backoff } from '@ropewalk/kit';

/** A process that ran for this time, in ms, has started well: its next end is the first one again. */
const SETTLED_MS = 10_000;
/** The longest wait before a process that keeps ending is started again, in ms. */
const MAX_WAIT_MS = 60_000;
const MAX_REASON = 500;

/** How a process ended. */
export interface End {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** What the process or the system said about it. */
  reason?: string | undefined;
}

/** The unexpected ends of a process that the server keeps running. */
export interface Crashes {
  started(): void;
  /** Counts an end and returns the milliseconds to wait before the next start. */
  ended(end: End): number;
  /** What an operator should know while the process keeps ending. Undefined while it runs well. */
  problem(): string | undefined;
  close(): void;
}

/** `subject` begins the sentence: "The built-in provisioner daemons". */
export function createCrashes(subject: string): Crashes {
  const waits = backoff({ baseMs: 50, capMs: MAX_WAIT_MS });
  let count = 0;
  let problem: string | undefined;
  let settled: NodeJS.Timeout | undefined;
  return {
    started() {
      settled = setTimeout(() => {
        count = 0;
        problem = undefined;
        waits.reset();
      }, SETTLED_MS);
      settled.unref();
    },
    ended({ code, signal, reason }) {
      clearTimeout(settled);
      count += 1;
      const how = signal ? `signal ${signal}` : `exit code ${code}`;
      const why = reason ? `: ${reason.slice(0, MAX_REASON)}` : '';
      const times = count === 1 ? 'once' : `${count} times in a row`;
      problem = `${subject} ended unexpectedly ${times}, last with ${how}${why}. The server keeps starting them again, at least every ${MAX_WAIT_MS / 1_000} s.`;
      return waits.next();
    },
    problem: () => problem,
    close: () => clearTimeout(settled),
  };
}
