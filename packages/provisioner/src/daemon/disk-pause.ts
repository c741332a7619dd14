import { backoff, type Clock, type Logger } from '@ropewalk/kit';

const PAUSE_MS = 30_000;
/** The longest pause, as a multiple of the first. */
const MAX_PAUSES = 10;

/**
 * A pause for all daemons of this process after a job failed because of a full disk. The space that the failed job
 * freed would not be enough for the next job either. The pause grows if later jobs also fail because of a full disk.
 */
export class DiskPause {
  readonly #clock: Clock;
  readonly #pauseMs: number;
  readonly #waits: ReturnType<typeof backoff>;
  readonly #listeners = new Set<() => void>();
  #dir = '';
  #until = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, pauseMs = PAUSE_MS) {
    this.#clock = clock;
    this.#pauseMs = pauseMs;
    this.#waits = backoff({ baseMs: pauseMs, capMs: MAX_PAUSES * pauseMs, factor: 2 });
  }

  /** Begins a pause, because a job failed on the full disk of this folder. */
  begin(dir: string): void {
    const now = this.#clock.monotonic();
    if (now < this.#until) return;
    if (now - this.#until > MAX_PAUSES * this.#pauseMs) this.#waits.reset();
    this.#dir = dir;
    this.#until = now + this.#waits.next();
    for (const listener of this.#listeners) listener();
  }

  /** Calls `listener` when a pause begins. Returns the function that removes the listener. */
  onBegin(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves when the pause is over. Rejects with the signal's reason. */
  async over(log: Logger, signal: AbortSignal): Promise<void> {
    const left = this.#until - this.#clock.monotonic();
    if (left <= 0) return;
    log.error('not accepting jobs for a while: a job failed because the disk is full', {
      dir: this.#dir,
      seconds: Math.ceil(left / 1_000),
    });
    await this.#clock.sleep(left, signal);
  }
}
