import { open, stat } from 'node:fs/promises';
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

const CHUNK = 256 << 10;

/** Reads the records of a run's log file from an offset. The file may still grow. */
export async function* readRecords(path: string, from: number): AsyncGenerator<LogRecord> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    handle = await open(path, 'r');
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return; // nothing written yet
    throw err;
  }
  try {
    let offset = from;
    let rest = Buffer.alloc(0);
    const chunk = Buffer.alloc(CHUNK);
    for (;;) {
      const { bytesRead } = await handle.read(chunk, 0, CHUNK, offset + rest.length);
      if (bytesRead === 0) return;
      const data = rest.length ? Buffer.concat([rest, chunk.subarray(0, bytesRead)]) : chunk.subarray(0, bytesRead);
      let start = 0;
      for (;;) {
        const end = data.indexOf(0x0a, start);
        if (end < 0) break;
        const record = parseRecord(data.toString('utf8', start, end));
        offset += end + 1 - start;
        start = end + 1;
        if (record) yield { ...record, next: offset };
      }
      rest = Buffer.from(data.subarray(start));
    }
  } finally {
    await handle.close();
  }
}

/** The size of a file in bytes, or 0 if it does not exist. */
export async function fileSize(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}
