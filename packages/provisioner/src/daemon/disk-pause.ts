import { backoff, type Clock, type Logger } from '@platform/kit';

const PAUSE_MS = 30_000;
/** The longest pause, in first ones. */
const MOST_PAUSES = 10;

/**
 * After a job that failed for a full disk the daemons of this process take none for a while: what was freed with the
 * job would not be enough for the next one either. The pause grows while jobs go on failing so.
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
    this.#waits = backoff({ baseMs: pauseMs, capMs: MOST_PAUSES * pauseMs, factor: 2 });
  }

  /** A job failed since the disk of this folder is full. */
  begin(dir: string): void {
    const now = this.#clock.monotonic();
    if (now < this.#until) return;
    if (now - this.#until > MOST_PAUSES * this.#pauseMs) this.#waits.reset();
    this.#dir = dir;
    this.#until = now + this.#waits.next();
    for (const listener of this.#listeners) listener();
  }

  /** Calls back when a pause begins; gives how to call that off. */
  onBegin(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves when jobs may be taken. Rejects with the signal's reason. */
  async over(log: Logger, signal: AbortSignal): Promise<void> {
    const left = this.#until - this.#clock.monotonic();
    if (left <= 0) return;
    log.error('no job is taken for a while: one has failed for a full disk', {
      dir: this.#dir,
      seconds: Math.ceil(left / 1_000),
    });
    await this.#clock.sleep(left, signal);
  }
}
