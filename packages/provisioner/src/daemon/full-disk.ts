import { statfs } from 'node:fs/promises';
import { backoff, type Clock, errorText, type Logger } from '@ropewalk/kit';

const PAUSE_MS = 30_000;
/** The longest pause, as a multiple of the first. */
const MAX_PAUSES = 10;

const MIB = 1 << 20;
/** The free bytes below which a disk counts as full. */
const FULL_BYTES = MIB;
/** The free bytes below which an error that reports a full disk is believed: the failed program may have freed some. */
const SCARCE_BYTES = 256 * MIB;

const NO_SPACE = /no space left on device|disk quota exceeded|\bENOSPC\b|\bEDQUOT\b/i;

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

  /**
   * Begins a pause if a job failed because the disk of one of these folders is full. Returns that folder. Undefined if
   * the reason is another one.
   */
  async beginIfFull(err: unknown, dirs: readonly string[]): Promise<string | undefined> {
    const full = await fullDisk(err, dirs);
    if (full !== undefined) this.#begin(full);
    return full;
  }

  #begin(dir: string): void {
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

/** Looks at the disks, too: the text of an error may come from the template, or be about another machine's disk. */
async function fullDisk(err: unknown, dirs: readonly string[]): Promise<string | undefined> {
  const { detail = '' } = err as { detail?: string };
  const isSaid = NO_SPACE.test(`${errorText(err)}\n${detail}`);
  for (const dir of dirs) {
    const room = await statfs(dir).catch(() => undefined);
    if (!room) continue;
    const bytes = room.bavail * room.bsize;
    const isFull = bytes < FULL_BYTES || (room.files > 0 && room.ffree === 0);
    if (isFull || (isSaid && bytes < SCARCE_BYTES)) return dir;
  }
  return undefined;
}
