import type { Client } from '@ropewalk/client';
import type { ValuesOf } from './definition.ts';
import type { GlobalFlags } from './globals.ts';
import type { Io } from './io.ts';
import type { Node } from './tree.ts';

/** The program that runs a command, for commands that list commands or run another command line. */
export interface Program {
  root: Node;
  /** Runs a command line with the same input, output and signal. */
  run(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number>;
}

/** The surroundings of a command. Commands read nothing from the process itself, so that tests can run them side by side. */
export interface Context {
  io: Io;
  env: NodeJS.ProcessEnv;
  globals: ValuesOf<GlobalFlags>;
  configDir: string;
  program: Program;
  /** Whether the command line or the environment sets a flag. */
  isSet(flag: string): boolean;
  /** Aborted by the first SIGINT. The second one ends the process. */
  signal: AbortSignal;
  /**
   * A client of the user who is logged in. The first SIGINT cancels its calls, unless `keepOnInterrupt` is set.
   * @throws AppError `unauthenticated` where nobody is logged in.
   */
  client(options?: { keepOnInterrupt: boolean }): Promise<Client>;
  /** A client with another server or token. */
  clientOf(url: string, token: string): Promise<Client>;
  /** Whether the command can ask questions. */
  interactive: boolean;
}
