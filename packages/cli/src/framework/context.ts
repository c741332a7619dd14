import type { Client } from '@platform/client';
import type { ValuesOf } from './definition.ts';
import type { GlobalFlags } from './globals.ts';
import type { Io } from './io.ts';

/** What a handler gets: nothing in it is read from the process itself, so that tests can run commands side by side. */
export interface Context {
  io: Io;
  env: NodeJS.ProcessEnv;
  globals: ValuesOf<GlobalFlags>;
  configDir: string;
  /** Aborted by the first SIGINT; the second ends the process. */
  signal: AbortSignal;
  /** Of the person who is logged in. Calls end at the first SIGINT, unless kept. @throws AppError when nobody is. */
  client(options?: { keepOnInterrupt: boolean }): Promise<Client>;
  /** Of a server without or with another log-in. */
  clientOf(url: string, token: string): Promise<Client>;
  /** Whether questions can be asked. */
  interactive: boolean;
}
