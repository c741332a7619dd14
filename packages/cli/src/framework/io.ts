import type { Readable, Writable } from 'node:stream';
import { isTerminal, styleOf } from './style.ts';

/** The input and the outputs of a command. */
export interface Io {
  stdin: Readable & { isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  stdout: Writable & { isTTY?: boolean; columns?: number; rows?: number };
  stderr: Writable & { isTTY?: boolean; columns?: number };
}

interface Surroundings {
  io: Io;
  env: NodeJS.ProcessEnv;
}

export function print(io: Io, text: string): void {
  io.stdout.write(`${text}\n`);
}

export function note(io: Io, text: string): void {
  io.stderr.write(`${text}\n`);
}

/** Prints that the command has done its work. */
export function printDone({ io, env }: Surroundings, text: string): void {
  // only in a terminal: scripts may match the whole line
  const mark = isTerminal(io.stdout, env) ? `${styleOf(io.stdout, env)('green', '✔')} ` : '';
  print(
    io,
    text.replace(/^\n*/, (blank) => blank + mark),
  );
}

/** Notes a problem that does not end the command. */
export function warn({ io, env }: Surroundings, text: string): void {
  note(io, `${styleOf(io.stderr, env)('yellow', 'Warning:')} ${text}`);
}
