import type { Client } from '@ropewalk/client';
import type { GlobalFlags } from './globals.ts';
import type { Io } from './io.ts';
import type { Definition, Example, Given, ValuesOf } from './types.ts';

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

export interface Command {
  definition: Definition;
  /** Returns the exit code. Undefined means 0. */
  run(ctx: Context, given: Given): Promise<number | undefined>;
}

/** A command or a group of commands. The program loads a command only to run it or to show its help. */
export interface Node {
  /** One line for lists of commands, without a full stop. */
  summary?: string;
  /** The heading above the command in the help of its parent. */
  group?: string;
  /** For a node without a definition. */
  examples?: readonly Example[];
  aliases?: readonly string[];
  hidden?: true;
  load?: () => Promise<{ default: Command }>;
  children?: Readonly<Record<string, Node>>;
}
