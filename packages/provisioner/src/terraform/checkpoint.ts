import { type FSWatcher, watch } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { stateHeader } from '../resources/model.ts';

const POLL_MS = 250;

export interface Checkpoint {
  /** The state file, whole. */
  state: Uint8Array;
  serial: bigint;
  lineage: string;
  /** Addresses of resources whose creation is under way. */
  inFlight: string[];
}

export interface CheckpointOptions {
  statePath: string;
  inFlight: () => string[];
  /** Takes a checkpoint; while it works on one, newer states replace each other. Failures are its own. */
  deliver: (checkpoint: Checkpoint) => Promise<void>;
}

/**
 * Watches a state file while terraform works. The local backend rewrites the file in place after each resource, so
 * a reader may meet half of it: that is looked at again, never delivered.
 */
export class Checkpoints {
  readonly #options: CheckpointOptions;
  readonly #watcher: FSWatcher | undefined;
  readonly #timer: NodeJS.Timeout;
  #stamp = '';
  #working: Promise<void> | undefined;
  #again = false;
  #closed = false;

  constructor(options: CheckpointOptions) {
    this.#options = options;
    const name = basename(options.statePath);
    try {
      this.#watcher = watch(dirname(options.statePath), (_event, file) => {
        if (file === null || file === name) this.#look();
      });
      this.#watcher.on('error', () => {});
    } catch {
      this.#watcher = undefined; // no watches left on this machine: the timer serves
    }
    this.#timer = setInterval(() => this.#look(), POLL_MS);
    this.#timer.unref();
  }

  /** Ends the watch; resolves when nothing is under way. The final state goes with the job's verdict. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#watcher?.close();
    clearInterval(this.#timer);
    await this.#working;
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
      const { mtimeMs, size } = await stat(this.#options.statePath).catch(() => ({ mtimeMs: 0, size: 0 }));
      const stamp = `${mtimeMs} ${size} ${inFlight.join(' ')}`;
      if (stamp === this.#stamp || (size === 0 && inFlight.length === 0)) return;
      // Before the first resource is complete there is no state, and still something to tell.
      const state = size === 0 ? new Uint8Array() : await readFile(this.#options.statePath);
      const { serial, lineage } = size === 0 ? { serial: 0n, lineage: '' } : stateHeader(state);
      await this.#options.deliver({ state, serial, lineage, inFlight });
      this.#stamp = stamp;
    } catch {
      // Half-written or not taken: the next look tries again.
    }
  }
}
