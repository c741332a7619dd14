import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readStateFile, type WholeState } from './state-file.ts';

const POLL_MS = 250;
/** The wait before another read of an incomplete file. Terraform completes a file within a few milliseconds. */
const REREAD_MS = 5;
const REREADS = 10;

export interface Checkpoint {
  /** A complete state file. Empty if none exists yet. */
  state: Uint8Array;
  /** The serial and lineage of the state. 0 and empty without a state. */
  serial: bigint;
  lineage: string;
  /** The addresses of resources that Terraform is creating. */
  inFlight: string[];
}

export interface CheckpointOptions {
  statePath: string;
  /** The uid of the build. Absent: the uid of this process. */
  user?: number | undefined;
  /** The state that the run began with. */
  given?: WholeState | undefined;
  inFlight: () => string[];
  /** Delivers a checkpoint. While a call runs, only the newest state waits. A failure does not stop the watch. */
  deliver: (checkpoint: Checkpoint) => Promise<void>;
}

/**
 * Watches a state file while Terraform works. It delivers only complete states, and none older than the one before.
 * Terraform truncates the file before it rewrites it, so a reader may find it empty or half-written.
 */
export class Checkpoints {
  readonly #options: CheckpointOptions;
  readonly #watcher: FSWatcher | undefined;
  readonly #timer: NodeJS.Timeout;
  #newest: WholeState | undefined;
  /** Stamps of the last delivered file and of the resources that Terraform was creating then. */
  #fileStamp = '';
  #flightStamp = '';
  #working: Promise<void> | undefined;
  #again = false;
  #closed = false;

  constructor(options: CheckpointOptions) {
    this.#options = options;
    this.#newest = options.given;
    const name = basename(options.statePath);
    try {
      this.#watcher = watch(dirname(options.statePath), (_event, file) => {
        if (file === null || file === name) this.#look();
      });
      this.#watcher.on('error', () => {});
    } catch {
      this.#watcher = undefined; // the machine allows no more watches, so the timer does the work
    }
    this.#timer = setInterval(() => this.#look(), POLL_MS);
    this.#timer.unref();
  }

  /** The newest complete state so far. */
  get newest(): WholeState | undefined {
    return this.#newest;
  }

  /** Ends the watch. Resolves when no delivery runs. The verdict of the job includes the final state. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#watcher?.close();
    clearInterval(this.#timer);
    await this.#working;
  }

  /** Ends the watch after a last look, which reports the resources that a failed run was creating. */
  async closeAfterLook(): Promise<void> {
    await this.close();
    await this.#check();
  }

  #look(): void {
    if (this.#closed) return;
    if (this.#working) {
      this.#again = true;
      return;
    }
    this.#working = this.#check().finally(() => {
      this.#working = undefined;
      if (this.#again) {
        this.#again = false;
        this.#look();
      }
    });
  }

  async #check(): Promise<void> {
    try {
      const inFlight = this.#options.inFlight();
      const flightStamp = inFlight.join(' ');
      const fileStamp = await stampOf(this.#options.statePath);
      if (fileStamp === this.#fileStamp && flightStamp === this.#flightStamp) return;
      const whole = fileStamp === this.#fileStamp || (await this.#read());
      if (!whole && flightStamp === this.#flightStamp) return; // the next look finds a complete file
      const { bytes: state = new Uint8Array(), serial = 0n, lineage = '' } = this.#newest ?? {};
      if (state.length > 0 || flightStamp !== this.#flightStamp)
        await this.#options.deliver({ state, serial, lineage, inFlight });
      if (whole) this.#fileStamp = fileStamp;
      this.#flightStamp = flightStamp;
    } catch {
      // Not delivered. The next look tries again.
    }
  }

  /** Reads the file. False if it is incomplete. */
  async #read(): Promise<boolean> {
    for (let tries = 0; ; tries++) {
      const read = await readStateFile(this.#options.statePath, this.#options.user);
      if (read === 'missing') return true;
      if (read !== 'incomplete') {
        const known = this.#newest;
        if (!known || (known.lineage === read.lineage && known.serial <= read.serial)) this.#newest = read;
        return true;
      }
      if (tries === REREADS) return false;
      await delay(REREAD_MS);
    }
  }
}

async function stampOf(path: string): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found ? `${found.mtimeNs} ${found.size}` : '';
}
