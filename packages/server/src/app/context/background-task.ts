/** A task that the server repeats in the background. Other folders define tasks. `background/driver.ts` runs them. */
export interface BackgroundTask {
  /** Lower-case words: the label of its metrics, and its name in logs and on the health page. */
  name: string;
  /** The time from the end of one run to the start of the next, in ms. */
  periodMs: number;
  /** The time from the end of a failed run to the start of the next, in ms. Default: the period. */
  retryMs?: number;
  /** The time from adding the task to its first run, in ms. Default: none. */
  delayMs?: number;
  /** The longest run, in ms. A longer run is aborted through its signal and reported as failed. Default: one minute. */
  timeoutMs?: number;
  /** Whether only one server of a deployment runs it at a time. The other servers skip that run. */
  needsLock: boolean;
  /** Tasks with the same group run one after the other. Use it for tasks that each keep the database busy. */
  group?: string;
  /** Subscribes to events that start a run early. Returns functions that unsubscribe. */
  wakeOn?: (wake: () => void) => (() => void)[];
  /** The time from an event until the run that it starts, in ms. Further events within it start no other. Default: none. */
  gatherMs?: number;
  /** Runs the task once. May return the time in ms after which to run again if that is sooner than the period. */
  run(signal: AbortSignal): Promise<number | undefined>;
}

/** The latest results of a task on this server. */
export interface TaskStatus {
  name: string;
  periodMs: number;
  /** When the last run ended. Undefined before the first. */
  lastRun: Date | undefined;
  /** How long the last run took, in ms. */
  durationMs: number;
  /** Why the last run failed. Undefined if it succeeded. */
  error: string | undefined;
  /** Runs so far, by outcome. `skipped`: another server had the lock. */
  runs: Readonly<Record<TaskOutcome, number>>;
}

/** One run of a task on this server. */
export interface TaskRun {
  name: string;
  outcome: TaskOutcome;
  durationMs: number;
}

export type TaskOutcome = 'succeeded' | 'failed' | 'skipped';
