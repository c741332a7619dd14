import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import { AppError } from '@ropewalk/kit/errors';

/** A text with one character per byte, which preserves bytes of any encoding. */
export type ByteText = string;

export const toByteText = (text: string): ByteText => Buffer.from(text, 'utf8').toString('latin1');
export const fromByteText = (text: ByteText): string => Buffer.from(text, 'latin1').toString('utf8');

/** Follows symbolic links to the file itself, which need not exist. */
export function behindLinks(path: string): string {
  let file = resolve(path);
  for (let links = 0; ; links++) {
    let target: string;
    try {
      target = readlinkSync(file);
    } catch {
      return file;
    }
    if (links === 40) throw new AppError('invalid', `${path} is a loop of symbolic links.`);
    file = resolve(dirname(file), target);
  }
}

/** Reads a file. Empty if it does not exist. @throws AppError naming the file. */
export function readBytes(file: string): ByteText {
  try {
    return readFileSync(file, 'latin1');
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw new AppError('unavailable', `Could not read ${file}: ${(err as Error).message}`, { cause: err });
  }
}

/**
 * Replaces the whole file, or leaves it unchanged on any error. Keeps its mode and owner. Only its owner can read a new
 * file.
 * @throws AppError naming the file.
 */
export function replaceFile(file: string, text: ByteText): void {
  const temporary = `${file}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    if (!existsSync(dirname(file))) mkdirSync(dirname(file), { mode: 0o700 });
    const old = statSync(file, { throwIfNoEntry: false });
    const fd = openSync(temporary, 'wx', 0o600);
    try {
      writeFileSync(fd, text, 'latin1');
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    if (old) {
      const made = statSync(temporary);
      if (made.uid !== old.uid || made.gid !== old.gid) chownSync(temporary, old.uid, old.gid);
      // after chown, which clears mode bits
      chmodSync(temporary, old.mode & 0o7777);
    }
    renameSync(temporary, file);
  } catch (err) {
    rmSync(temporary, { force: true });
    throw new AppError('unavailable', `Could not write ${file}. It is unchanged. ${(err as Error).message}`, {
      cause: err,
    });
  }
}
