import { constants, type Dir, type Stats } from 'node:fs';
import * as fs from 'node:fs/promises';
import { resolve } from 'node:path';
import { errorText } from '@ropewalk/kit';
import type { SFTPWrapper } from 'ssh2';
import protocol from 'ssh2/lib/protocol/SFTP.js';
import { attributes, entry, type GivenAttributes } from './sftp-entries.ts';
import {
  announceExtensions,
  fileSystemNumbers,
  RequestReader,
  sendNumbers,
  setOwnAttributes,
} from './sftp-extensions.ts';

const { STATUS_CODE: STATUS, OPEN_MODE: MODE } = protocol;

/** The maximum number of open files and directories of one client. */
const MAX_HANDLES = 1_024;
/** The maximum number of bytes of one read, whatever the client asks for. */
const MAX_READ = 256 * 1024;
const READDIR_BATCH = 128;
/** The largest packet that ssh2 accepts. */
const MAX_PACKET = 256 * 1024;
/** The announced size of one read or write. Larger ones halved the speed of downloads. */
const GOOD_DATA = 32 * 1024;
const COPY_BYTES = 256 * 1024;

interface Opened {
  file?: fs.FileHandle;
  /** The path with which the file was opened. */
  path?: string;
  directory?: { path: string; dir: Dir; begun: boolean };
  /** Requests in progress. A close waits for them. */
  pending: Set<Promise<void>>;
}

/** Sends the answer to one request. */
type Reply = () => void;

class SftpError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

function statusOf(err: unknown): number {
  if (err instanceof SftpError) return err.status;
  switch ((err as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return STATUS.NO_SUCH_FILE;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return STATUS.PERMISSION_DENIED;
    default:
      return STATUS.FAILURE;
  }
}

function openFlags(flags: number): number {
  const read = flags & MODE.READ;
  const write = flags & (MODE.WRITE | MODE.APPEND);
  let result = read && write ? constants.O_RDWR : write ? constants.O_WRONLY : constants.O_RDONLY;
  if (flags & MODE.APPEND) result |= constants.O_APPEND;
  if (flags & MODE.CREAT) result |= constants.O_CREAT;
  if (flags & MODE.TRUNC) result |= constants.O_TRUNC;
  if (flags & MODE.EXCL) result |= constants.O_EXCL;
  return result;
}

async function setAttributes(target: string | fs.FileHandle, given: GivenAttributes): Promise<void> {
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

async function writeAll(file: fs.FileHandle, data: Buffer, offset: number): Promise<void> {
  for (let done = 0; done < data.length; ) {
    done += (await file.write(data, done, data.length - done, offset + done)).bytesWritten;
  }
}

interface Copy {
  from: fs.FileHandle;
  offset: number;
  /** 0 means to the end. */
  length: number;
  to: fs.FileHandle;
  toOffset: number;
  /** Checked between pieces. */
  isOver(): boolean;
}

async function copyData({ from, offset, length, to, toOffset, isOver }: Copy): Promise<void> {
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

/**
 * Serves SFTP version 3 to one client with the user's own rights. Relative paths start at `home`. Renaming replaces an
 * existing file. Handles are closed when the client has ended, and `ended` is called then.
 */
export function serveSftp(sftp: SFTPWrapper, home: string, ended: () => void): void {
  const handles = new Map<number, Opened>();
  let nextHandle = 1;
  let over = false;
  let answered = Promise.resolve();

  const at = (path: string) => resolve(home, path);
  const find = (handle: Buffer): Opened => {
    const opened = handle.length === 4 ? handles.get(handle.readUInt32BE()) : undefined;
    if (!opened) throw new SftpError(STATUS.FAILURE, 'Unknown handle');
    return opened;
  };
  const fileOf = (handle: Buffer): fs.FileHandle => {
    const { file } = find(handle);
    if (!file) throw new SftpError(STATUS.FAILURE, 'Is a directory');
    return file;
  };
  const keep = (id: number, opened: Omit<Opened, 'pending'>): Reply => {
    const number = nextHandle++;
    handles.set(number, { ...opened, pending: new Set() });
    const handle = Buffer.alloc(4);
    handle.writeUInt32BE(number);
    return () => sftp.handle(id, handle);
  };
  const room = () => {
    if (handles.size >= MAX_HANDLES) throw new SftpError(STATUS.FAILURE, 'Too many open files');
  };
  const closeOpened = async ({ file, directory, pending }: Opened) => {
    await Promise.allSettled(pending);
    await file?.close();
    await directory?.dir.close();
  };

  /**
   * Works in parallel and answers in the order of the requests: OpenSSH's client stops at the first end-of-file answer,
   * even if data of earlier requests is still to come.
   */
  const reply = (id: number, work: () => Promise<Reply>): Promise<void> => {
    const before = answered;
    const done = work().catch(
      (err): Reply =>
        () =>
          sftp.status(id, statusOf(err), errorText(err)),
    );
    answered = Promise.all([done, before]).then(([send]) => {
      if (!over) send();
    });
    return answered;
  };
  const act = (id: number, work: () => Promise<unknown>) =>
    reply(id, async () => {
      await work();
      return () => sftp.status(id, STATUS.OK);
    });
  /** Records a request on its handle, which stays open until the request is done. */
  const using = (handle: Buffer, done: Promise<void>) => {
    const opened = handle.length === 4 ? handles.get(handle.readUInt32BE()) : undefined;
    if (!opened) return;
    opened.pending.add(done);
    void done.then(() => opened.pending.delete(done));
  };

  sftp.on('OPEN', (id, path, flags, attrs) =>
    reply(id, async () => {
      room();
      const mode = (attrs as GivenAttributes).mode;
      const file = await fs.open(at(path), openFlags(flags), mode === undefined ? 0o666 : mode & 0o7777);
      return keep(id, { file, path: at(path) });
    }),
  );
  const read = async (id: number, handle: Buffer, offset: number, length: number): Promise<Reply> => {
    const buffer = Buffer.allocUnsafe(Math.min(length, MAX_READ));
    const { bytesRead } = await fileOf(handle).read(buffer, 0, buffer.length, offset);
    if (bytesRead === 0 && length > 0) return () => sftp.status(id, STATUS.EOF);
    return () => sftp.data(id, buffer.subarray(0, bytesRead));
  };
  sftp.on('READ', (id, handle, offset, length) =>
    using(
      handle,
      reply(id, () => read(id, handle, offset, length)),
    ),
  );
  sftp.on('WRITE', (id, handle, offset, data) =>
    using(
      handle,
      act(id, async () => writeAll(fileOf(handle), data, offset)),
    ),
  );
  sftp.on('CLOSE', (id, handle) =>
    act(id, async () => {
      const opened = find(handle);
      handles.delete(handle.readUInt32BE());
      await closeOpened(opened);
    }),
  );
  sftp.on('FSTAT', (id, handle) =>
    using(
      handle,
      reply(id, async () => {
        const found = attributes(await fileOf(handle).stat());
        return () => sftp.attrs(id, found);
      }),
    ),
  );
  sftp.on('FSETSTAT', (id, handle, attrs) =>
    using(
      handle,
      act(id, async () => setAttributes(fileOf(handle), attrs as GivenAttributes)),
    ),
  );
  sftp.on('OPENDIR', (id, path) =>
    reply(id, async () => {
      room();
      return keep(id, { directory: { path: at(path), dir: await fs.opendir(at(path)), begun: false } });
    }),
  );
  const list = async (id: number, handle: Buffer): Promise<Reply> => {
    const { directory } = find(handle);
    if (!directory) throw new SftpError(STATUS.FAILURE, 'Not a directory');
    const names = directory.begun ? [] : ['.', '..'];
    directory.begun = true;
    while (names.length < READDIR_BATCH) {
      const next = await directory.dir.read();
      if (!next) break;
      names.push(next.name);
    }
    if (names.length === 0) return () => sftp.status(id, STATUS.EOF);
    // Leave out files that vanished after the listing.
    const entries = await Promise.all(names.map((name) => entry(directory.path, name)));
    return () =>
      sftp.name(
        id,
        entries.filter((item) => item !== undefined),
      );
  };
  sftp.on('READDIR', (id, handle) =>
    using(
      handle,
      reply(id, () => list(id, handle)),
    ),
  );
  const look = (id: number, find: () => Promise<Stats>) =>
    reply(id, async () => {
      const found = attributes(await find());
      return () => sftp.attrs(id, found);
    });
  sftp.on('LSTAT', (id, path) => look(id, () => fs.lstat(at(path))));
  sftp.on('STAT', (id, path) => look(id, () => fs.stat(at(path))));
  sftp.on('SETSTAT', (id, path, attrs) => act(id, () => setAttributes(at(path), attrs as GivenAttributes)));
  sftp.on('REMOVE', (id, path) => act(id, () => fs.unlink(at(path))));
  sftp.on('MKDIR', (id, path, attrs) =>
    act(id, async () => {
      const mode = (attrs as GivenAttributes).mode;
      await fs.mkdir(at(path), mode === undefined ? {} : { mode: mode & 0o7777 });
    }),
  );
  sftp.on('RMDIR', (id, path) => act(id, () => fs.rmdir(at(path))));
  sftp.on('RENAME', (id, from, to) => act(id, () => fs.rename(at(from), at(to))));
  // ssh2 passes the link first, whatever its declarations say, and knows that OpenSSH swaps the two.
  sftp.on('SYMLINK', (id, link, target) => act(id, () => fs.symlink(target, at(link))));
  const name = (id: number, find: () => Promise<string>) =>
    reply(id, async () => {
      const filename = await find();
      const attrs = { mode: 0, uid: 0, gid: 0, size: 0, atime: 0, mtime: 0 };
      return () => sftp.name(id, [{ filename, longname: filename, attrs }]);
    });
  sftp.on('READLINK', (id, path) => name(id, () => fs.readlink(at(path))));
  // A path that does not exist yet still has a name.
  sftp.on('REALPATH', (id, path) => name(id, () => fs.realpath(at(path)).catch(() => at(path))));

  const numbers = (id: number, find: () => Promise<bigint[]>) =>
    reply(id, async () => {
      const found = await find();
      return () => sendNumbers(sftp, id, found);
    });
  const extended = new Map<string, (id: number, request: RequestReader) => void>([
    ['posix-rename@openssh.com', (id, request) => act(id, () => fs.rename(at(request.text()), at(request.text())))],
    ['hardlink@openssh.com', (id, request) => act(id, () => fs.link(at(request.text()), at(request.text())))],
    ['statvfs@openssh.com', (id, request) => numbers(id, () => fileSystemNumbers(at(request.text())))],
    [
      'fstatvfs@openssh.com',
      (id, request) => {
        const handle = request.bytes();
        const done = numbers(id, async () => {
          const { file, path, directory } = find(handle);
          const here = file && process.platform === 'linux' ? `/proc/self/fd/${file.fd}` : (path ?? directory!.path);
          return fileSystemNumbers(here);
        });
        using(handle, done);
      },
    ],
    [
      'fsync@openssh.com',
      (id, request) => {
        const handle = request.bytes();
        using(
          handle,
          act(id, async () => fileOf(handle).sync()),
        );
      },
    ],
    [
      'lsetstat@openssh.com',
      (id, request) => act(id, () => setOwnAttributes(at(request.text()), request.attributes())),
    ],
    [
      'limits@openssh.com',
      (id) => numbers(id, async () => [MAX_PACKET, GOOD_DATA, GOOD_DATA, MAX_HANDLES].map(BigInt)),
    ],
    [
      'copy-data',
      (id, request) => {
        const [from, offset, length] = [request.bytes(), request.uint64(), request.uint64()];
        const [to, toOffset] = [request.bytes(), request.uint64()];
        const isOver = () => over;
        const done = act(id, async () =>
          copyData({ from: fileOf(from), offset, length, to: fileOf(to), toOffset, isOver }),
        );
        using(from, done);
        using(to, done);
      },
    ],
  ]);
  sftp.on('EXTENDED', (id, name, data) => {
    const serve = extended.get(name);
    try {
      if (serve) serve(id, new RequestReader(data));
      else act(id, () => Promise.reject(new SftpError(STATUS.OP_UNSUPPORTED, `${name} is not supported`)));
    } catch (err) {
      // The request ends too early.
      act(id, () => Promise.reject(err));
    }
  });
  announceExtensions(sftp);

  const end = () => {
    if (over) return;
    over = true;
    const open = [...handles.values()];
    handles.clear();
    void Promise.allSettled(open.map(closeOpened));
    ended();
  };
  sftp.on('end', end);
  sftp.on('close', end);
  sftp.on('error', () => {});
}
