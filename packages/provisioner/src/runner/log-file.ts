import { closeSync, openSync, writeSync } from 'node:fs';
import { shortReason } from '@ropewalk/kit/log-output';

/**
 * The time in which records are gathered for one write, in ms. Terraform writes each line by itself, and readers look
 * less often than that.
 */
const GATHER_MS = 10;
/** The bytes that wait in memory for one write. */
const HIGH_WATER = 64 << 10;
/** The maximum number of bytes of lost lines with errors that stay in memory. */
const MAX_KEPT_BYTES = 32 << 10;

/** Lines that could not be written to a log file and that it does not mention. */
export interface LostLines {
  count: number;
  why: string;
  /** The records among them that say why a run failed. */
  errors: string[];
}

/**
 * Appends records to a file. It counts records that it cannot write, for example on a full disk. When the disk has room
 * again, it first finishes a partly written record and then notes the count in the file. If the disk never has room,
 * `close` returns the count.
 */
export class LogFile {
  readonly #path: string;
  /** Undefined if the file could not be opened. */
  readonly #fd: number | undefined;
  readonly #onWrite: () => void;
  readonly #notice: (text: string) => Buffer;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #gathering: NodeJS.Timeout | undefined;
  #torn: Buffer | undefined;
  #lost = 0;
  #why = '';
  #errors: Buffer[] = [];
  #errorBytes = 0;

  constructor(path: string, notice: (text: string) => Buffer, onWrite: () => void) {
    this.#path = path;
    this.#notice = notice;
    this.#onWrite = onWrite;
    try {
      this.#fd = openSync(path, 'a', 0o600);
    } catch (err) {
      this.#why = shortReason(err);
    }
  }

  write(line: Buffer): void {
    this.#pending.push(line);
    this.#pendingBytes += line.length;
    if (this.#pendingBytes >= HIGH_WATER) this.#flush();
    else this.#gathering ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  /** Closes the file. Returns the lost lines that the file does not mention. */
  close(): LostLines | undefined {
    this.#flush();
    if (this.#lost > 0 || this.#torn) this.#append([]);
    try {
      if (this.#fd !== undefined) closeSync(this.#fd);
    } catch {
      // some network file systems report a full disk only now. What was written is there as far as it got
    }
    if (this.#lost === 0) return undefined;
    const errors = this.#errors.map((line) => line.toString('utf8').trimEnd());
    return { count: this.#lost, why: `${this.#why} (${this.#path})`, errors };
  }

  #flush(): void {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    if (this.#pending.length === 0) return;
    const lines = this.#pending;
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#append(lines);
    this.#onWrite();
  }

  #append(lines: readonly Buffer[]): void {
    const due = this.#torn ? [this.#torn] : [];
    // the notice is followed by the lost lines with errors
    const again = this.#lost > 0 ? [this.#notice(`${this.#lost} lines were lost: ${this.#why}`), ...this.#errors] : [];
    const parts = [...due, ...(again.length > 0 ? [Buffer.concat(again)] : []), ...lines];
    const bytes = Buffer.concat(parts);
    let at = 0;
    try {
      if (this.#fd === undefined) throw new Error(this.#why);
      while (at < bytes.length) at += writeSync(this.#fd, bytes, at);
      this.#torn = undefined;
      this.#forget();
    } catch (err) {
      this.#why = shortReason(err);
      this.#keep(parts, at, due.length, due.length + (again.length > 0 ? 1 : 0));
    }
  }

  /**
   * Notes which part is torn and which parts are lost, after a failure that wrote only the first `written` bytes.
   */
  #keep(parts: readonly Buffer[], written: number, dueUntil: number, noticeUntil: number): void {
    let end = 0;
    for (const [i, part] of parts.entries()) {
      const begin = end;
      end += part.length;
      const isNotice = i >= dueUntil && i < noticeUntil;
      if (begin < written) {
        this.#torn = end > written ? part.subarray(written - begin) : undefined;
        if (isNotice) this.#forget();
      } else if (i >= noticeUntil) {
        this.#lost++;
        const isError = part[0] === 0x65 || part.includes('"@level":"error"');
        if (!isError || this.#errorBytes + part.length > MAX_KEPT_BYTES) continue;
        this.#errors.push(part);
        this.#errorBytes += part.length;
      }
    }
  }

  #forget(): void {
    this.#lost = 0;
    this.#errors = [];
    this.#errorBytes = 0;
  }
}
