import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureDirectorySync } from './directory.ts';
import { errorText } from './errors.ts';
import type { Logger } from './log.ts';
import { VERSION } from './version.ts';

/** Maximum number of files that the folder for them keeps. A daemon may crash at each of its starts. */
const MAX_FILES = 20;
const MAX_CAUSES = 5;

export interface CrashOptions {
  /** The name of the program in the sentence. */
  program: string;
  /** The folder for the files. Without it, or if it is not writable, they go to the system's one for temporary files. */
  folder?: string;
  /** Receives the sentence. Default: stderr. */
  say?: (sentence: string) => void;
}

let log: Logger | undefined;

/** From now on a crash of this process is a line of this log. */
export function logCrashes(to: Logger): void {
  log = to;
}

/**
 * Ends the process with 1 after an error that no code handles: an exception, a rejected promise or the `error` event of
 * an emitter. The user gets one sentence instead of a stack trace, and the stack trace is in a file.
 */
export function endOnCrash(options: CrashOptions): void {
  const { program, folder, say = (sentence) => process.stderr.write(`error: ${sentence}\n`) } = options;
  // the parts of the executable that one process runs each begin with this
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', (err) => {
    const file = keep(err, folder);
    try {
      if (log) log.error(`${program} ended because of an unexpected error`, { err, file });
      else {
        const details = file === undefined ? '' : ` Details: ${file}`;
        say(`An unexpected error ended ${program}: ${errorText(err).split('\n')[0]}.${details}`);
      }
    } finally {
      process.exit(1);
    }
  });
}

/** Writes the details to a file that only this user can read. Returns its path, or undefined if no folder is writable. */
function keep(err: unknown, folder: string | undefined): string | undefined {
  const now = new Date().toISOString();
  const name = `crash-${now.replace(/\D/g, '').slice(0, 14)}-${process.pid}.txt`;
  // no arguments and no environment: they may hold tokens
  const text = `${now} ${VERSION}, Node.js ${process.version}, ${process.platform} ${process.arch}, up ${process.uptime().toFixed(1)} s\n\n${details(err)}\n`;
  const write = (path: string) => {
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    return path;
  };
  try {
    if (folder === undefined) throw new Error('no folder');
    ensureDirectorySync(folder, { mode: 0o700 });
    const older = readdirSync(folder)
      .filter((each) => /^crash-\d+-\d+\.txt$/.test(each))
      .sort();
    for (const each of older.slice(0, Math.max(0, older.length - MAX_FILES + 1))) rmSync(join(folder, each));
    return write(join(folder, name));
  } catch {
    try {
      return write(join(tmpdir(), `coder-${name}`));
    } catch {
      return undefined;
    }
  }
}

/** The stack traces of an error and its causes. Not its other fields, which may hold requests with tokens. */
function details(err: unknown): string {
  const out: string[] = [];
  for (let each = err; each !== undefined && out.length < MAX_CAUSES; each = (each as Error | null)?.cause)
    out.push(each instanceof Error ? (each.stack ?? each.message) : String(each));
  return out.join('\ncaused by ');
}
