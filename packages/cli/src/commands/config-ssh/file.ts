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
import { AppError } from '@platform/kit/errors';

/** A text with one character per byte, so that bytes of any encoding stay what they are. */
export type ByteText = string;

export const toByteText = (text: string): ByteText => Buffer.from(text, 'utf8').toString('latin1');
export const fromByteText = (text: ByteText): string => Buffer.from(text, 'latin1').toString('utf8');

/** The file itself behind symbolic links, which need not be there yet. */
export function behindLinks(path: string): string {
  let file = resolve(path);
  for (let links = 0; ; links++) {
    let target: string;
    try {
      target = readlinkSync(file);
    } catch {
      return file;
    }
    if (links === 40) throw new AppError('invalid', `${path} is a circle of symbolic links.`);
    file = resolve(dirname(file), target);
  }
}

/** Empty where there is no file. @throws AppError naming the file. */
export function readBytes(file: string): ByteText {
  try {
    return readFileSync(file, 'latin1');
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw new AppError('unavailable', `${file} can not be read: ${(err as Error).message}`, { cause: err });
  }
}

/**
 * Replaces the whole file or, on any error, nothing of it. Its mode and owner stay; a new one is its owner's alone.
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
      // after the owner, as that takes bits away
      chmodSync(temporary, old.mode & 0o7777);
    }
    renameSync(temporary, file);
  } catch (err) {
    rmSync(temporary, { force: true });
    throw new AppError('unavailable', `${file} can not be written, and is as it was: ${(err as Error).message}`, {
      cause: err,
    });
  }
}
