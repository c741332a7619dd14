import { type FSWatcher, statSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readStateFile, type WholeState } from './state-file.ts';

const POLL_MS = 250;
/** The time from a change of the file to a look. The system reports each rewrite several times while it goes on. */
const SETTLE_MS = 10;
/** The wait before another read of an incomplete file. Terraform completes a file within a few milliseconds. */
const REREAD_MS = 5;
const REREADS = 10;
/** The time in which changes are gathered for one delivery. The server must have each change within a second. */
const GATHER_MS = 100;

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
  /** Delivers a checkpoint, one at a time. A failure does not stop the watch. */
  deliver: (checkpoint: Checkpoint) => Promise<void>;
}

/**
 * Watches a state file while Terraform works. It delivers only complete states, and none older than the one before.
 * Terraform truncates the file before it rewrites it, so a reader may find it empty or half-written. A complete file is
 * read soon and delivered a little later, with the changes after it: a short build sends only its final state.
 */
export class Checkpoints {
  readonly #options: CheckpointOptions;
  readonly #watcher: FSWatcher | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #closing = new AbortController();
  #settling: NodeJS.Timeout | undefined;
  #newest: WholeState | undefined;
  /** Stamp of the last complete file. */
  #fileStamp = '';
  /** Stamps of the last delivered file and of the resources that Terraform was creating then. */
  #delivered = { file: '', flight: '' };
  #reading: Promise<void> | undefined;
  #again = false;
  #delivering: Promise<void> | undefined;

  constructor(options: CheckpointOptions) {
    this.#options = options;
    this.#newest = options.given;
    const name = basename(options.statePath);
    try {
      this.#watcher = watch(dirname(options.statePath), (_event, file) => {
        if (file === null || file === name) this.#lookSoon();
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
    this.#closing.abort();
    this.#watcher?.close();
    clearInterval(this.#timer);
    clearTimeout(this.#settling);
    await this.#reading;
    await this.#delivering;
  }

  /** Ends the watch after a last look, which reports the resources that a failed run was creating. */
  async closeAfterLook(): Promise<void> {
    await this.close();
    await this.#check();
    if (this.#isNew()) await this.#deliver().catch(() => {});
  }

  #lookSoon(): void {
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined;
      this.#look();
    }, SETTLE_MS);
  }

  #look(): void {
    if (this.#closing.signal.aborted) return;
    if (this.#reading) {
      this.#again = true;
      return;
    }
    this.#reading = this.#check().finally(() => {
      this.#reading = undefined;
      // a delivery that failed is tried again after the next look
      if (this.#isNew()) this.#deliverSoon();
      if (this.#again) {
        this.#again = false;
        this.#look();
      }
    });
  }

  /** Reads the file if it has changed. An incomplete file is read again at the next look. */
  async #check(): Promise<void> {
    const stamp = stampOf(this.#options.statePath);
    if (stamp !== this.#fileStamp && (await this.#read())) this.#fileStamp = stamp;
  }

  #isNew(): boolean {
    const flight = flightStamp(this.#options.inFlight());
    if (flight !== this.#delivered.flight) return true;
    return this.#fileStamp !== this.#delivered.file && this.#newest !== undefined;
  }

  #deliverSoon(): void {
    const { signal } = this.#closing;
    if (signal.aborted) return;
    this.#delivering ??= delay(GATHER_MS, undefined, { signal })
      .then(() => this.#deliver())
      .catch(() => {}) // closed, or not delivered
      .finally(() => {
        this.#delivering = undefined;
      });
  }

  async #deliver(): Promise<void> {
    const inFlight = this.#options.inFlight();
    const now = { file: this.#fileStamp, flight: flightStamp(inFlight) };
    const { bytes: state = new Uint8Array(), serial = 0n, lineage = '' } = this.#newest ?? {};
    await this.#options.deliver({ state, serial, lineage, inFlight });
    this.#delivered = now;
  }

  /** Reads the file. False if it is incomplete. */
  async #read(): Promise<boolean> {
    for (let tries = 0; ; tries++) {
      const read = readStateFile(this.#options.statePath, this.#options.user);
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

const flightStamp = (inFlight: readonly string[]): string => inFlight.join(' ');

function stampOf(path: string): string {
  try {
    const found = statSync(path, { bigint: true, throwIfNoEntry: false });
    return found ? `${found.mtimeNs} ${found.size}` : '';
  } catch {
    return ''; // the folder is gone or closed
  }
}
