import { type FileHandle, open } from 'node:fs/promises';
import { shortReason } from '@platform/kit/log-output';

/** What waits in memory before whoever writes has to wait. */
const HIGH_WATER = 64 << 10;
/** Of lines that were lost, those with errors are kept in memory up to this. */
const MOST_KEPT_BYTES = 32 << 10;

/** Lines that a log file could not take, and that nobody finds in it. */
export interface LostLines {
  count: number;
  why: string;
  /** Of them, what says why a run failed: whole records. */
  errors: string[];
}

/**
 * Appends records to a file. One that cannot be written (a full disk) is lost and counted; the number is noted in the
 * file when there is room again, and is the result of `close` where that never was. A begun record is finished first.
 */
export class LogFile {
  readonly #path: string;
  readonly #opened: Promise<FileHandle | undefined>;
  readonly #onWrite: () => void;
  readonly #notice: (text: string) => Buffer;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #flushing: Promise<void> | undefined;
  #torn: Buffer | undefined;
  #lost = 0;
  #why = '';
  #errors: Buffer[] = [];
  #errorBytes = 0;

  constructor(path: string, notice: (text: string) => Buffer, onWrite: () => void) {
    this.#path = path;
    this.#notice = notice;
    this.#onWrite = onWrite;
    this.#opened = open(path, 'a', 0o600).catch((err) => {
      this.#why = shortReason(err);
      return undefined;
    });
  }

  /** Gives a promise where the writer should wait. */
  write(line: Buffer): Promise<void> | undefined {
    this.#pending.push(line);
    this.#pendingBytes += line.length;
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
    return this.#pendingBytes < HIGH_WATER ? undefined : this.#flushing;
  }

  /** What was lost and is not noted in the file. */
  async close(): Promise<LostLines | undefined> {
    while (this.#flushing) await this.#flushing;
    if (this.#lost > 0 || this.#torn) await this.#append([]);
    await (await this.#opened)?.close().catch(() => {});
    if (this.#lost === 0) return undefined;
    const errors = this.#errors.map((line) => line.toString('utf8').trimEnd());
    return { count: this.#lost, why: `${this.#why} (${this.#path})`, errors };
  }

  async #flush(): Promise<void> {
    while (this.#pending.length > 0) {
      const lines = this.#pending;
      this.#pending = [];
      this.#pendingBytes = 0;
      await this.#append(lines);
      this.#onWrite();
    }
  }

  async #append(lines: readonly Buffer[]): Promise<void> {
    const handle = await this.#opened;
    const due = this.#torn ? [this.#torn] : [];
    // errors among the lost are in the file then, after the notice
    const again = this.#lost > 0 ? [this.#notice(`${this.#lost} lines were lost: ${this.#why}`), ...this.#errors] : [];
    const parts = [...due, ...(again.length > 0 ? [Buffer.concat(again)] : []), ...lines];
    const bytes = Buffer.concat(parts);
    let at = 0;
    try {
      if (!handle) throw new Error(this.#why);
      while (at < bytes.length) at += (await handle.write(bytes, at)).bytesWritten;
      this.#torn = undefined;
      this.#forget();
    } catch (err) {
      this.#why = shortReason(err);
      this.#keep(parts, at, due.length, due.length + (again.length > 0 ? 1 : 0));
    }
  }

  /** After a failure that wrote the first `written` bytes of these parts: what is torn, and what is lost. */
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
        if (!isError || this.#errorBytes + part.length > MOST_KEPT_BYTES) continue;
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
