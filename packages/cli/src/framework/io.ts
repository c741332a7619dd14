import type { Readable, Writable } from 'node:stream';

/** Where a command reads and writes. */
export interface Io {
  stdin: Readable & { isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  stdout: Writable & { isTTY?: boolean; columns?: number; rows?: number };
  stderr: Writable & { isTTY?: boolean };
}

export function print(io: Io, text: string): void {
  io.stdout.write(`${text}\n`);
}

export function note(io: Io, text: string): void {
  io.stderr.write(`${text}\n`);
}
