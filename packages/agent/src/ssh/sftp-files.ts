import { constants } from 'node:fs';
import * as fs from 'node:fs/promises';
import protocol from 'ssh2/lib/protocol/SFTP.js';
import { SftpError } from './sftp-answers.ts';
import type { GivenAttributes } from './sftp-entries.ts';

const { STATUS_CODE: STATUS, OPEN_MODE: MODE } = protocol;

const COPY_BYTES = 256 * 1024;

/** The flags of open(2) for the flags of an SFTP request. */
export function openFlags(flags: number): number {
  const read = flags & MODE.READ;
  const write = flags & (MODE.WRITE | MODE.APPEND);
  let result = read && write ? constants.O_RDWR : write ? constants.O_WRONLY : constants.O_RDONLY;
  if (flags & MODE.APPEND) result |= constants.O_APPEND;
  if (flags & MODE.CREAT) result |= constants.O_CREAT;
  if (flags & MODE.TRUNC) result |= constants.O_TRUNC;
  if (flags & MODE.EXCL) result |= constants.O_EXCL;
  return result;
}

/** Sets the attributes that are given. */
export async function setAttributes(target: string | fs.FileHandle, given: GivenAttributes): Promise<void> {
  const { size, uid, gid, mode, atime, mtime } = given;
  const path = typeof target === 'string' ? target : undefined;
  const file = typeof target === 'string' ? undefined : target;
  if (size !== undefined) await (file ? file.truncate(size) : fs.truncate(path!, size));
  if (uid !== undefined && gid !== undefined) await (file ? file.chown(uid, gid) : fs.chown(path!, uid, gid));
  if (mode !== undefined) await (file ? file.chmod(mode & 0o7777) : fs.chmod(path!, mode & 0o7777));
  if (atime !== undefined && mtime !== undefined) {
    await (file ? file.utimes(atime, mtime) : fs.utimes(path!, atime, mtime));
  }
}

export async function writeAll(file: fs.FileHandle, data: Buffer, offset: number): Promise<void> {
  for (let done = 0; done < data.length; ) {
    done += (await file.write(data, done, data.length - done, offset + done)).bytesWritten;
  }
}

export interface Copy {
  from: fs.FileHandle;
  offset: number;
  /** 0 means to the end. */
  length: number;
  to: fs.FileHandle;
  toOffset: number;
  /** Checked between pieces. */
  isOver(): boolean;
}

/** Copies a part of a file into another one. @throws SftpError if both are the same file */
export async function copyData({ from, offset, length, to, toOffset, isOver }: Copy): Promise<void> {
  const [source, target] = await Promise.all([from.stat(), to.stat()]);
  // The file would grow faster than the copy reaches its end.
  if (source.ino === target.ino && source.dev === target.dev) {
    throw new SftpError(STATUS.FAILURE, 'Cannot copy a file into itself');
  }
  const buffer = Buffer.allocUnsafe(COPY_BYTES);
  const until = length === 0 ? Number.POSITIVE_INFINITY : length;
  for (let done = 0; done < until && !isOver(); ) {
    const { bytesRead } = await from.read(buffer, 0, Math.min(buffer.length, until - done), offset + done);
    if (bytesRead === 0) return;
    await writeAll(to, buffer.subarray(0, bytesRead), toOffset + done);
    done += bytesRead;
  }
}
