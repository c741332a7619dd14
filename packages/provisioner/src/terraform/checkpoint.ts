import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readStateFile, type WholeState } from './state-file.ts';

const POLL_MS = 250;
/** A file that is being rewritten is whole again within a few milliseconds. */
const REREAD_MS = 5;
const REREADS = 10;

export interface Checkpoint {
  /** A complete state file. Empty: there is none yet. */
  state: Uint8Array;
  /** Of the state; 0 and empty without one. */
  serial: bigint;
  lineage: string;
  /** Addresses of resources whose creation is under way. */
  inFlight: string[];
}

export interface CheckpointOptions {
  statePath: string;
  /** The uid of the build, where that is not this process's. */
  user?: number | undefined;
  /** The state that the run began with. */
  given?: WholeState | undefined;
  inFlight: () => string[];
  /** Takes a checkpoint; while it works on one, newer states replace each other. Failures are its own. */
  deliver: (checkpoint: Checkpoint) => Promise<void>;
}

/**
 * Watches a state file while Terraform works. Only complete states are delivered, none older than the one before:
 * Terraform truncates the file before it rewrites it, so that a reader may find it empty or half-written.
 */
export class Checkpoints {
  readonly #options: CheckpointOptions;
  readonly #watcher: FSWatcher | undefined;
  readonly #timer: NodeJS.Timeout;
  #newest: WholeState | undefined;
  /** Of the file and the resources in flight that were delivered last. */
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
      this.#watcher = undefined; // no watches left on this machine: the timer serves
    }
    this.#timer = setInterval(() => this.#look(), POLL_MS);
    this.#timer.unref();
  }

  /** The newest complete state so far. */
  get newest(): WholeState | undefined {
    return this.#newest;
  }

  /** Ends the watch; resolves when nothing is under way. The final state goes with the job's verdict. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#watcher?.close();
    clearInterval(this.#timer);
    await this.#working;
  }

  /** Ends the watch after a last look: what a failed run had in flight at its end. */
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
      if (!whole && flightStamp === this.#flightStamp) return; // the next look finds it whole
      const { bytes: state = new Uint8Array(), serial = 0n, lineage = '' } = this.#newest ?? {};
      if (state.length > 0 || flightStamp !== this.#flightStamp)
        await this.#options.deliver({ state, serial, lineage, inFlight });
      if (whole) this.#fileStamp = fileStamp;
      this.#flightStamp = flightStamp;
    } catch {
      // Not taken: the next look tries again.
    }
  }

  /** Whether the file was read whole, if there is one. */
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
