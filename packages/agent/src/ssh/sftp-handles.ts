import type { Dir } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import protocol from 'ssh2/lib/protocol/SFTP.js';
import { SftpError } from './sftp-answers.ts';

const { STATUS_CODE: STATUS } = protocol;

/** The maximum number of open files and directories of one client. */
export const MAX_HANDLES = 1_024;

export interface Opened {
  file?: FileHandle;
  /** The path with which the file was opened. */
  path?: string;
  directory?: { path: string; dir: Dir; begun: boolean };
  /** Requests in progress. A close waits for them. */
  pending: Set<Promise<void>>;
}

/** The open files and directories of one client. Their handles on the wire are numbers of 4 bytes. */
export class Handles {
  readonly #opened = new Map<number, Opened>();
  #next = 1;

  /** @throws SftpError if the client has too many handles open */
  checkRoom(): void {
    if (this.#opened.size >= MAX_HANDLES) throw new SftpError(STATUS.FAILURE, 'Too many open files');
  }

  /** Keeps what was opened. Returns its handle. */
  add(opened: Omit<Opened, 'pending'>): Buffer {
    const number = this.#next++;
    this.#opened.set(number, { ...opened, pending: new Set() });
    const handle = Buffer.alloc(4);
    handle.writeUInt32BE(number);
    return handle;
  }

  /** @throws SftpError for an unknown handle */
  find(handle: Buffer): Opened {
    const opened = this.#get(handle);
    if (!opened) throw new SftpError(STATUS.FAILURE, 'Unknown handle');
    return opened;
  }

  /** @throws SftpError for an unknown handle, or a directory's */
  file(handle: Buffer): FileHandle {
    const { file } = this.find(handle);
    if (!file) throw new SftpError(STATUS.FAILURE, 'Is a directory');
    return file;
  }

  /** Records a request on its handle, which stays open until the request is done. */
  hold(handle: Buffer, done: Promise<void>): void {
    const opened = this.#get(handle);
    if (!opened) return;
    opened.pending.add(done);
    void done.then(() => opened.pending.delete(done));
  }

  /** Closes a handle after its requests. @throws SftpError for an unknown handle */
  async close(handle: Buffer): Promise<void> {
    const opened = this.find(handle);
    this.#opened.delete(handle.readUInt32BE());
    await closeOpened(opened);
  }

  async closeAll(): Promise<void> {
    const open = [...this.#opened.values()];
    this.#opened.clear();
    await Promise.allSettled(open.map(closeOpened));
  }

  #get(handle: Buffer): Opened | undefined {
    return handle.length === 4 ? this.#opened.get(handle.readUInt32BE()) : undefined;
  }
}

async function closeOpened({ file, directory, pending }: Opened): Promise<void> {
  await Promise.allSettled(pending);
  await file?.close();
  await directory?.dir.close();
}
