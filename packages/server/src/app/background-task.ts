/** What the server does by itself, again and again. Rooms define tasks; `background/driver.ts` runs them. */
export interface BackgroundTask {
  /** Lower-case words: the label of its metrics, and its name in logs and on the health page. */
  name: string;
  /** From the end of one run to the start of the next, in ms. */
  periodMs: number;
  /** From adding the task to its first run, in ms. Default: none. */
  delayMs?: number;
  /** A run that takes longer is aborted through its signal and reported as failed, in ms. Default: one minute. */
  timeoutMs?: number;
  /** Only one server of a deployment runs it at a time. The others skip that run. */
  needsLock: boolean;
  /** Events that call for a run before the period is over. Returns what unsubscribes. */
  wakeOn?: (wake: () => void) => (() => void)[];
  /** One run. A returned number of ms brings the next run earlier than the period does. */
  run(signal: AbortSignal): Promise<number | undefined>;
}

/** How a task fares on this server. */
export interface TaskStatus {
  name: string;
  periodMs: number;
  /** When the last run ended. Undefined before the first. */
  lastRun: Date | undefined;
  /** How long the last run took, in ms. */
  durationMs: number;
  /** Why the last run failed. Undefined where it succeeded. */
  error: string | undefined;
  /** Runs so far, by outcome. `skipped`: another server had the lock. */
  runs: Readonly<Record<TaskOutcome, number>>;
}

export type TaskOutcome = 'succeeded' | 'failed' | 'skipped';
