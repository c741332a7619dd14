import { fstatSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { errorText } from './errors.ts';

/**
 * Where lines of a log go. Logging never ends a process: a line that cannot be written (a full disk, a closed pipe) is
 * lost. Lost lines are counted, and the next line that can be written is preceded by a notice with their number.
 */
export interface LogOutput {
  /** False when the line is lost; a stream tells only later, and answers true. */
  write(line: string): boolean;
}

/** The line that says how many lines were lost, and why. */
export type LossNotice = (lost: number, why: string) => string;

/** Without a new line to write, a file that could not be written is tried again this often. */
const RETRY_MS = 1_000;
/** What may wait in memory for a slow reader. */
const MOST_WAITING = 1 << 20;

/** "no space left on device" of "ENOSPC: no space left on device, write". */
export function shortReason(err: unknown): string {
  return /^[A-Z0-9]+: ([^,]+)/.exec(errorText(err))?.[1] ?? errorText(err);
}

export interface FileOutputOptions {
  notice: LossNotice;
  /** Called when writing begins to fail. */
  onFailure?: (why: string) => void;
}

/** Appends to an open file, synchronously: what is written last before an abnormal end is there. */
export function fileOutput(fd: number, { notice, onFailure }: FileOutputOptions): LogOutput {
  /** What is still to be written of a line that was begun when the room ended. */
  let torn: Buffer = Buffer.alloc(0);
  let lost = 0;
  let why = '';
  let isWaiting = false;
  /** Writes all, or keeps the rest of a begun line as `torn`. @throws when nothing or not all of it was written. */
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
  /** Makes up for what could not be written before. @throws when there is still no room. */
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
      if (torn.length > 0) lost = 0; // begun: its rest comes first
      throw err;
    }
    lost = 0;
  };
  const tryAgain = () => {
    isWaiting = false;
    try {
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
        catchUp();
        isBegun = true;
        append(bytes);
        return true;
      } catch (err) {
        // a torn line is whole as soon as there is room again
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
  // without a listener the event ends the process
  if (!stream.listeners('error').includes(ignore)) stream.on('error', ignore);
  let lost = 0;
  let why = '';
  return {
    write(line) {
      if (stream.writableLength > MOST_WAITING) {
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

/** The output of this process that has the number 1 or 2. */
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
        return false; // closed
      }
      return output.write(line);
    },
  };
}
