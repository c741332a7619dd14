import { closeSync, openSync, readSync } from 'node:fs';
import { setImmediate as immediate } from 'node:timers/promises';
import type { RecordKind } from './recorder.ts';

export interface LogRecord {
  kind: RecordKind;
  /** Unix milliseconds. */
  at: number;
  text: string;
  /** The offset of the next record. A later reader can start from it. */
  next: number;
}

/** Parses a line of a run's log file. Undefined if the line is not a record. */
export function parseRecord(line: string): Omit<LogRecord, 'next'> | undefined {
  const match = /^([oen]) (\d+) ([\s\S]*)$/.exec(line);
  return match ? { kind: match[1] as RecordKind, at: Number(match[2]), text: match[3]! } : undefined;
}

/** Large enough for a read of everything that a program writes between two looks. */
const CHUNK = 32 << 10;

/**
 * Reads the records of a run's log file, which may still grow. The file stays open between reads, because a run is read
 * after each of its lines: opening it each time, with a buffer each time, took half of the processor time of a build. For
 * the same reason it reads in one step, and not by the thread pool: what was just written is in memory.
 */
export class RecordReader {
  readonly #path: string;
  readonly #chunk = Buffer.allocUnsafeSlow(CHUNK);
  #fd: number | undefined;
  /** The offset of the next record. */
  #offset: number;
  /** The beginning of a record whose end is not there yet. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(path: string, from = 0) {
    this.#path = path;
    this.#offset = from;
  }

  /** The records that were added since the last read. Each read must be consumed to its end before the next. */
  async *read(): AsyncGenerator<LogRecord> {
    try {
      this.#fd ??= openSync(this.#path, 'r');
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code === 'ENOENT') return; // nothing written yet
      throw err;
    }
    for (;;) {
      const at = this.#offset + this.#rest.length;
      const bytesRead = readSync(this.#fd, this.#chunk, 0, CHUNK, at);
      if (bytesRead === 0) return;
      const added = this.#chunk.subarray(0, bytesRead);
      const data = this.#rest.length > 0 ? Buffer.concat([this.#rest, added]) : added;
      let start = 0;
      for (let end = data.indexOf(0x0a); end >= 0; end = data.indexOf(0x0a, start)) {
        const record = parseRecord(data.toString('utf8', start, end));
        this.#offset += end + 1 - start;
        start = end + 1;
        if (record) yield { ...record, next: this.#offset };
      }
      this.#rest = Buffer.from(data.subarray(start));
      if (bytesRead < CHUNK) return;
      // a run that prints without end must not keep the other jobs waiting
      await immediate();
    }
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}

/** Reads the records of a run's log file from an offset, once. */
export async function* readRecords(path: string, from: number): AsyncGenerator<LogRecord> {
  const reader = new RecordReader(path, from);
  try {
    yield* reader.read();
  } finally {
    reader.close();
  }
}
