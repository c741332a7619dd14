import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Context } from '../framework/context.ts';
import { note } from '../framework/io.ts';
import type { Target } from './workspace.ts';

/** What becomes of one connection to a workspace. */
export interface ConnectionLog {
  dialing(server: string, target: Target): void;
  connected(): void;
  lost(): void;
  resumed(): void;
}

export interface ConnectionLogOptions {
  dir: string;
  /** Of the SSH client that has started this process: by it an editor finds the file. */
  parent?: number | undefined;
}

const NONCE_LENGTH = 5;

/** `coder-ssh-20260131-235959-abcde.log`, as published; with a parent `-<pid>` before the dot. */
function fileName(parent: number | undefined): string {
  const [day, time] = new Date().toISOString().slice(0, 19).replace(/[-:]/g, '').split('T');
  const letters = crypto.getRandomValues(new Uint8Array(NONCE_LENGTH));
  const nonce = String.fromCharCode(...letters.map((byte) => 97 + (byte % 26)));
  return `coder-ssh-${day}-${time}-${nonce}${parent === undefined ? '' : `-${parent}`}.log`;
}

/**
 * Runs a session with a log of its connection, which ends with the exit code, also where the process is told to end.
 * The file has names, places and kinds of errors; texts, of errors too, may hold what is secret. Where it can't be
 * written that is told, and the session is not the worse for it.
 */
export async function withConnectionLog(
  ctx: Context,
  options: ConnectionLogOptions,
  session: (log: ConnectionLog) => Promise<number>,
): Promise<number> {
  let file: number | undefined;
  const give = (err: unknown) => {
    file = undefined;
    note(ctx.io, `Warning: the connection is not logged: ${(err as Error).message}.`);
  };
  try {
    mkdirSync(options.dir, { recursive: true, mode: 0o700 });
    file = openSync(join(options.dir, fileName(options.parent)), 'wx', 0o600);
  } catch (err) {
    give(err);
  }
  // at once and not in the background: what ends this process does not wait
  const write = (event: string, details: Record<string, string | number> = {}) => {
    if (file === undefined) return;
    const words = Object.entries(details).map(([name, value]) => `${name}=${oneWord(String(value))}`);
    try {
      writeSync(file, `${[new Date().toISOString(), event, ...words].join(' ')}\n`);
    } catch (err) {
      give(err);
    }
  };
  const onExit = (code: number) => write('ended', { code });
  process.once('exit', onExit);
  try {
    const code = await session({
      dialing: (server, { workspace, agent }) =>
        write('dialing', { workspace, ...(agent ? { agent } : {}), server: new URL(server).host }),
      connected: () => write('connected'),
      lost: () => write('lost'),
      resumed: () => write('resumed'),
    });
    write('ended', { code });
    return code;
  } catch (err) {
    write('ended', { code: ctx.signal.aborted ? 130 : 1, error: kindOf(err) });
    throw err;
  } finally {
    process.off('exit', onExit);
    if (file !== undefined) closeSync(file);
  }
}

function oneWord(text: string): string {
  return /^[\x21\x23-\x7e]+$/.test(text) ? text : JSON.stringify(text);
}

function kindOf(err: unknown): string | number {
  const { code, status, name } = err as { code?: string; status?: number; name?: string };
  return code ?? status ?? name ?? 'unknown';
}
