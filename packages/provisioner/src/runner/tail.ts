import { open, stat } from 'node:fs/promises';
import type { RecordKind } from './recorder.ts';

export interface LogRecord {
  kind: RecordKind;
  /** Unix milliseconds. */
  at: number;
  text: string;
  /** Where the next record begins: what a later reader may start from. */
  next: number;
}

/** A line of a run's log file; undefined where it is none. */
export function parseRecord(line: string): Omit<LogRecord, 'next'> | undefined {
  const match = /^([oen]) (\d+) ([\s\S]*)$/.exec(line);
  return match ? { kind: match[1] as RecordKind, at: Number(match[2]), text: match[3]! } : undefined;
}

const CHUNK = 256 << 10;

/** Reads the records that a run's log file holds by now, from an offset on; the file may still grow. */
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

/** Bytes of a file, 0 when it isn't there. */
export async function fileSize(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}
