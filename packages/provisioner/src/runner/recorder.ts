import type { Readable } from 'node:stream';
import { LogFile, type LostLines } from './log-file.ts';

/** The longest line that the log keeps whole, in bytes. */
export const MAX_LINE = 64 << 10;

export interface RecorderLimits {
  /** The maximum of ordinary output to keep from the start, in bytes. */
  head: number;
  /** The maximum of ordinary output to keep from the end, in bytes. */
  tail: number;
  /** The maximum number of events (Terraform's reports about resources) to keep after the head, in bytes. */
  events: number;
}

export const DEFAULT_LIMITS: RecorderLimits = { head: 4 << 20, tail: 1 << 20, events: 64 << 20 };

/** The stream of a record: `o` is stdout, `e` is stderr, `n` is a note of the recorder itself. */
export type RecordKind = 'o' | 'e' | 'n';

/** Whether a line is ordinary output: of a provisioner, or anything that isn't an event of terraform's JSON stream. */
function ordinary(line: Buffer): boolean {
  return line[0] !== 0x7b || line.includes('"type":"provision_progress"') || !line.includes('"type":"');
}

/**
 * Writes a run's lines to a file of limited size: `<o|e|n> <unix ms> <line>\n`. It keeps the head and tail of ordinary
 * output and notes how much it left out. It keeps events, since timings and checkpoints come from them. A slow disk
 * slows down the program that writes the lines and never grows memory.
 */
export class Recorder {
  readonly #file: LogFile;
  readonly #limits: RecorderLimits;
  readonly #onWrite: () => void;
  #head = 0;
  #events = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #cutLines = 0;
  #cutBytes = 0;

  constructor(path: string, onWrite: () => void = () => {}, limits: RecorderLimits = DEFAULT_LIMITS) {
    // A full disk must not end the run: terraform's state matters more than its output.
    this.#file = new LogFile(path, (text) => record('n', text), onWrite);
    this.#onWrite = onWrite;
    this.#limits = limits;
  }

  /** Records every line of a stream until it ends. */
  async consume(stream: Readable, kind: 'o' | 'e'): Promise<void> {
    let rest: Buffer[] = [];
    let kept = 0;
    let length = 0;
    const take = (part: Buffer) => {
      length += part.length;
      if (kept < MAX_LINE) {
        rest.push(part.subarray(0, MAX_LINE - kept));
        kept = Math.min(MAX_LINE, kept + part.length);
      }
    };
    const finish = () => {
      const line = rest.length === 1 ? rest[0]! : Buffer.concat(rest);
      const cut = length - line.length;
      rest = [];
      kept = 0;
      length = 0;
      this.#line(kind, cut > 0 ? Buffer.concat([line, Buffer.from(` … (${cut} bytes of this line cut)`)]) : line);
    };
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      let from = 0;
      for (;;) {
        const end = chunk.indexOf(0x0a, from);
        if (end < 0) break;
        take(chunk.subarray(from, end));
        finish();
        from = end + 1;
      }
      // A copy, because a part of a chunk would keep the whole chunk in memory.
      if (from < chunk.length) take(Buffer.from(chunk.subarray(from)));
    }
    if (length > 0) finish();
  }

  /** Writes the tail and closes the file. Returns the lost lines that the file does not mention. */
  close(): LostLines | undefined {
    if (this.#cutLines > 0)
      this.#file.write(record('n', `… ${this.#cutLines} lines (${this.#cutBytes} bytes) of output left out …`));
    for (const line of this.#tail) this.#file.write(line);
    this.#tail = [];
    const lost = this.#file.close();
    this.#onWrite();
    return lost;
  }

  #line(kind: 'o' | 'e', line: Buffer): void {
    const bytes = record(kind, line);
    const { head, tail, events } = this.#limits;
    if (this.#head + bytes.length <= head && this.#cutLines === 0 && this.#tail.length === 0) {
      this.#head += bytes.length;
      this.#file.write(bytes);
      return;
    }
    if (!ordinary(line) && this.#events + bytes.length <= events) {
      this.#events += bytes.length;
      this.#file.write(bytes);
      return;
    }
    this.#tail.push(bytes);
    this.#tailBytes += bytes.length;
    while (this.#tailBytes > tail && this.#tail.length > 1) {
      const dropped = this.#tail.shift()!;
      this.#tailBytes -= dropped.length;
      this.#cutLines++;
      this.#cutBytes += dropped.length;
    }
  }
}

function record(kind: RecordKind, line: Buffer | string): Buffer {
  const body = typeof line === 'string' ? Buffer.from(line) : line;
  return Buffer.concat([Buffer.from(`${kind} ${Date.now()} `), body, Buffer.from('\n')]);
}
