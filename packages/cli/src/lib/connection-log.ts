import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import type { Context } from '../framework/context.ts';
import { warn } from '../framework/io.ts';
import type { Target } from './workspace.ts';

/** Records the events of one connection to a workspace. */
export interface ConnectionLog {
  dialing(server: string, target: Target): void;
  connected(): void;
  lost(): void;
  resumed(): void;
  /** The session goes on over another path: `direct 192.0.2.7:41641`, `proxy eu`, or empty for the server. */
  moved(path: string): void;
}

export interface ConnectionLogOptions {
  dir: string;
  /** The process ID of the SSH client that started this process. Editors find the file by it. */
  parent?: number | undefined;
}

const NONCE_LENGTH = 5;

/** `coder-ssh-20260131-235959-abcde.log`, as upstream names it; with a parent `-<pid>` before the dot. */
function fileName(parent: number | undefined): string {
  const [day, time] = new Date().toISOString().slice(0, 19).replace(/[-:]/g, '').split('T');
  const letters = crypto.getRandomValues(new Uint8Array(NONCE_LENGTH));
  const nonce = String.fromCharCode(...letters.map((byte) => 97 + (byte % 26)));
  return `coder-ssh-${day}-${time}-${nonce}${parent === undefined ? '' : `-${parent}`}.log`;
}

/**
 * Runs a session and logs its connection. The last line of the log has the exit code, also when a signal ends the
 * process. The log holds names, hosts and error codes only, since other texts could hold secrets. A log that cannot be
 * written is a warning, and the session continues.
 */
export async function withConnectionLog(
  ctx: Context,
  options: ConnectionLogOptions,
  session: (log: ConnectionLog) => Promise<number>,
): Promise<number> {
  let file: number | undefined;
  const giveUp = (err: unknown) => {
    file = undefined;
    warn(ctx, `could not write the connection log: ${(err as Error).message}.`);
  };
  try {
    ensureDirectorySync(options.dir, { mode: 0o700 });
    file = openSync(join(options.dir, fileName(options.parent)), 'wx', 0o600);
  } catch (err) {
    giveUp(err);
  }
  // synchronous: a signal that ends the process does not wait
  const write = (event: string, details: Record<string, string | number> = {}) => {
    if (file === undefined) return;
    const words = Object.entries(details).map(([name, value]) => `${name}=${oneWord(String(value))}`);
    try {
      writeSync(file, `${[new Date().toISOString(), event, ...words].join(' ')}\n`);
    } catch (err) {
      giveUp(err);
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
      moved: (path) => write('moved', { path: path || 'server' }),
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
