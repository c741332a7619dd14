import { closeSync, constants, fstatSync, openSync, statSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { errorText } from './errors.ts';

const { O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY } = constants;

/**
 * The output of a log. Logging never ends a process: a line that cannot be written (a full disk, a closed pipe) is
 * lost. Lost lines are counted, and a notice with their number precedes the next line that can be written.
 */
export interface LogOutput {
  /** Returns false if the line is lost. A stream learns this only later and returns true. */
  write(line: string): boolean;
}

/** Formats the notice of how many lines were lost, and why. */
export type LossNotice = (lost: number, why: string) => string;

/** How often a failed file is retried if no new line arrives, in ms. */
const RETRY_MS = 1_000;
/** How long a write may go to the open file after its path names another one, in ms. */
const LOOK_MS = 1_000;
/** The maximum number of bytes that wait in memory for a slow reader. */
const MAX_WAITING = 1 << 20;

/** Extracts "no space left on device" from "ENOSPC: no space left on device, write". */
export function shortReason(err: unknown): string {
  return /^[A-Z0-9]+: ([^,]+)/.exec(errorText(err))?.[1] ?? errorText(err);
}

export interface FileOutputOptions {
  notice: LossNotice;
  /** Called when writing starts to fail. */
  onFailure?: (why: string) => void;
}

/** Opens a log file to append to it. @throws when it cannot be opened. */
function openLog(path: string): number {
  // A pipe without a reader is an error, and a full pipe loses lines: neither may block the process.
  return openSync(path, O_WRONLY | O_APPEND | O_CREAT | (O_NONBLOCK ?? 0), 0o600);
}

function isSameFile(fd: number, path: string): boolean {
  const named = statSync(path, { throwIfNoEntry: false });
  const open = fstatSync(fd);
  return named !== undefined && named.ino === open.ino && named.dev === open.dev;
}

/**
 * Appends synchronously to an open file, or to the file with this path: the file contains even the last line before a
 * crash. After a rotation has moved or deleted the file of a path, the output opens the path again.
 * @throws when the path cannot be opened.
 */
export function fileOutput(place: number | string, { notice, onFailure }: FileOutputOptions): LogOutput {
  let fd = typeof place === 'string' ? openLog(place) : place;
  let lookedAt = performance.now();
  /** The unwritten rest of a line whose start was written before the disk filled up. */
  let torn: Buffer = Buffer.alloc(0);
  let lost = 0;
  let why = '';
  let isWaiting = false;
  /** Writes everything, or keeps the rest of a partly written line as `torn`. @throws if the write was incomplete. */
  const append = (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; ) {
      try {
        at += writeSync(fd, bytes, at);
      } catch (err) {
        torn = at > 0 ? bytes.subarray(at) : torn;
        throw err;
      }
    }
  };
  /** Writes what could not be written before. @throws if there is still not enough space. */
  const catchUp = () => {
    if (torn.length > 0) {
      append(torn);
      torn = Buffer.alloc(0);
    }
    if (lost === 0) return;
    const count = lost;
    const line = Buffer.from(`${notice(count, why)}\n`);
    try {
      append(line);
    } catch (err) {
      if (torn.length > 0) lost = 0; // The notice is partly written: its rest comes first.
      throw err;
    }
    lost = 0;
  };
  const follow = () => {
    if (typeof place !== 'string' || performance.now() - lookedAt < LOOK_MS) return;
    lookedAt = performance.now();
    try {
      if (isSameFile(fd, place)) return;
      const next = openLog(place);
      finish();
      const left = fd;
      fd = next;
      closeSync(left);
    } catch {
      // the new file cannot be opened: the moved one takes the lines until it can
    }
  };
  /** Ends a begun line in the file that is left. Without room for that the line is lost. */
  const finish = () => {
    if (torn.length === 0) return;
    try {
      append(torn);
    } catch {
      lost++;
    }
    torn = Buffer.alloc(0);
  };
  const tryAgain = () => {
    isWaiting = false;
    try {
      follow();
      catchUp();
    } catch {
      later();
    }
  };
  let isRegistered = false;
  const later = () => {
    if (!isWaiting) setTimeout(tryAgain, RETRY_MS).unref();
    isWaiting = true;
    if (!isRegistered) process.once('exit', tryAgain);
    isRegistered = true;
  };
  return {
    write(line) {
      const isNew = lost === 0 && torn.length === 0;
      const bytes = Buffer.from(`${line}\n`);
      let isBegun = false;
      try {
        follow();
        catchUp();
        isBegun = true;
        append(bytes);
        return true;
      } catch (err) {
        // A torn line is completed as soon as there is space again.
        if (!isBegun || torn.length === 0) lost++;
        why = shortReason(err);
        later();
        if (isNew) onFailure?.(why);
        return false;
      }
    },
  };
}

const ignore = () => {};

/** Writes to a pipe or a terminal. */
export function streamOutput(stream: NodeJS.WriteStream, notice: LossNotice): LogOutput {
  // Without a listener the event ends the process.
  if (!stream.listeners('error').includes(ignore)) stream.on('error', ignore);
  let lost = 0;
  let why = '';
  return {
    write(line) {
      if (stream.writableLength > MAX_WAITING) {
        lost++;
        why = 'its reader is too slow';
        return false;
      }
      const before = lost;
      lost = 0;
      stream.write(before > 0 ? `${notice(before, why)}\n${line}\n` : `${line}\n`, (err) => {
        if (!err) return;
        lost += before + 1;
        why = shortReason(err);
      });
      return true;
    },
  };
}

/** The output of this process with the number 1 or 2. */
export function standardOutput(fd: 1 | 2, notice: LossNotice): LogOutput {
  let output: LogOutput | undefined;
  const open = () => {
    const stat = fstatSync(fd);
    const isFile = stat.isFile() || (stat.isCharacterDevice() && !isatty(fd));
    return isFile ? fileOutput(fd, { notice }) : streamOutput(fd === 1 ? process.stdout : process.stderr, notice);
  };
  return {
    write(line) {
      try {
        output ??= open();
      } catch {
        return false; // Closed.
      }
      return output.write(line);
    },
  };
}
