import type { Readable, Writable } from 'node:stream';
import { isTerminal, styleOf } from './style.ts';
import { terminalText } from './terminal-text.ts';

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

/**
 * Writes a text to an output of the command. Everything in it counts as foreign: see terminal-text.ts. All other
 * functions that write for people use this one. `framework/terminal-text.test.ts` lists the commands that write bytes instead.
 */
export function write(output: Pick<Writable, 'write'>, text: string): void {
  output.write(terminalText(text));
}

/** Writes a line to stdout: a result of the command. */
export function print(io: Io, text: string): void {
  write(io.stdout, `${text}\n`);
}

/** Prints a value for a program that reads stdout, such as a password for Git, without changing it. */
export function printExact(io: Io, value: string): void {
  io.stdout.write(`${value}\n`);
}

/** Writes a line to stderr: progress, a hint or a warning, which is not part of the result. */
export function note(io: Io, text: string): void {
  write(io.stderr, `${text}\n`);
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
