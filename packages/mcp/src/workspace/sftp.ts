import { promisify } from 'node:util';
import { AppError } from '@ropewalk/kit/errors';
import type { Client, FileEntryWithStats, SFTPWrapper, Stats } from 'ssh2';

/** The size of a file that a tool reads or writes whole, in bytes. */
export const MAX_FILE = 4 * 1024 * 1024;
const CHUNK = 32 * 1024;
const MAX_ENTRIES = 10_000;

/** The files of a workspace. Methods throw AppError with the path in the text. */
export interface Files {
  list(path: string): Promise<{ path: string; is_dir: boolean }[]>;
  /** Up to `limit` bytes from `offset` on. */
  read(path: string, offset: number, limit: number): Promise<Buffer>;
  /** The whole of a file. @throws AppError `too_large` */
  readWhole(path: string): Promise<Buffer>;
  /** Replaces a file, or creates it with its folders. Other programs see the old or the new content, nothing between. */
  write(path: string, content: Buffer): Promise<void>;
}

/** @throws AppError `invalid` unless the path is absolute */
export function checkPath(path: string): void {
  if (!/^(\/|[A-Za-z]:[\\/])/.test(path) || path.includes('\0'))
    throw new AppError('invalid', `Invalid path ${JSON.stringify(path.slice(0, 200))}: use an absolute path.`);
}

const NO_SUCH_FILE = 2;

function failed(path: string, err: Error): AppError {
  if (err instanceof AppError) return err;
  const { code } = err as { code?: unknown };
  const why = code === NO_SUCH_FILE ? 'it does not exist' : code === 3 ? 'permission denied' : err.message;
  return new AppError(code === NO_SUCH_FILE ? 'not_found' : 'conflict', `${path}: ${why}.`);
}

export async function openFiles(client: Client): Promise<Files> {
  const sftp = await promisify<SFTPWrapper>((done) => client.sftp((err, opened) => done(err ?? null, opened)))();
  const stat = promisify<string, Stats>((path, done) => sftp.stat(path, (err, stats) => done(err ?? null, stats)));
  const about = <T>(path: string, work: Promise<T>): Promise<T> =>
    work.catch((err: Error) => Promise.reject(failed(path, err)));

  async function read(path: string, offset: number, limit: number): Promise<Buffer> {
    const stats = await stat(path);
    if (stats.isDirectory()) throw new AppError('invalid', `${path} is a directory. List it instead.`);
    const handle = await promisify<Buffer>((done) =>
      sftp.open(path, 'r', (err, opened) => done(err ?? null, opened)),
    )();
    try {
      const parts: Buffer[] = [];
      let at = offset;
      while (at < offset + limit) {
        const part = await readPart(sftp, handle, at, Math.min(CHUNK, offset + limit - at));
        if (part.length === 0) break;
        parts.push(part);
        at += part.length;
      }
      return Buffer.concat(parts);
    } finally {
      sftp.close(handle, () => {});
    }
  }

  async function makeFolders(path: string): Promise<void> {
    const parent = path.replace(/[\\/][^\\/]*$/, '');
    if (parent === '' || /^[A-Za-z]:$/.test(parent)) return;
    const found = await stat(parent).catch(() => undefined);
    if (found?.isDirectory()) return;
    await makeFolders(parent);
    await promisify<string, void>((one, done) => sftp.mkdir(one, (err) => done(err ?? null)))(parent);
  }

  async function write(path: string, content: Buffer): Promise<void> {
    if (content.length > MAX_FILE) throw new AppError('too_large', `A file can have up to ${MAX_FILE} bytes.`);
    const before = await stat(path).catch(() => undefined);
    if (before?.isDirectory()) throw new AppError('invalid', `${path} is a directory.`);
    if (!before) await makeFolders(path);
    // a link stays, and the file that it leads to is replaced
    const real = before
      ? await promisify<string, string>((one, done) => sftp.realpath(one, (err, found) => done(err ?? null, found)))(
          path,
        )
      : path;
    const draft = `${real}.${crypto.randomUUID().slice(0, 8)}.tmp`;
    const mode = before ? before.mode & 0o7777 : 0o644;
    try {
      await promisify<void>((done) => sftp.writeFile(draft, content, { mode }, (err) => done(err ?? null)))();
      if (before) await promisify<void>((done) => sftp.chmod(draft, mode, (err) => done(err ?? null)))();
      await promisify<void>((done) => sftp.ext_openssh_rename(draft, real, (err) => done(err ?? null)))();
    } catch (err) {
      sftp.unlink(draft, () => {});
      throw err;
    }
  }

  return {
    list: (path) => about(path, listFolder(sftp, path)),
    read: (path, offset, limit) => about(path, read(path, offset, limit)),
    async readWhole(path) {
      const bytes = await about(path, read(path, 0, MAX_FILE + 1));
      if (bytes.length > MAX_FILE) throw new AppError('too_large', `${path} has more than ${MAX_FILE} bytes.`);
      return bytes;
    },
    write: (path, content) => about(path, write(path, content)),
  };
}

async function listFolder(sftp: SFTPWrapper, path: string): Promise<{ path: string; is_dir: boolean }[]> {
  const entries = await promisify<FileEntryWithStats[]>((done) =>
    sftp.readdir(path, (err, found) => done(err ?? null, found)),
  )();
  if (entries.length > MAX_ENTRIES) throw new AppError('too_large', `${path} has more than ${MAX_ENTRIES} entries.`);
  const base = path.replace(/[\\/]+$/, '');
  return entries
    .map(({ filename, attrs }) => ({ path: `${base}/${filename}`, is_dir: attrs.isDirectory() }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

function readPart(sftp: SFTPWrapper, handle: Buffer, at: number, length: number): Promise<Buffer> {
  const into = Buffer.alloc(length);
  return new Promise((resolve, reject) => {
    sftp.read(handle, into, 0, length, at, (err, count) => {
      // the end of the file
      if ((err as { code?: unknown } | undefined)?.code === 1) resolve(Buffer.alloc(0));
      else if (err) reject(err);
      else resolve(into.subarray(0, count));
    });
  });
}
