import { Readable } from 'node:stream';
import { AppError } from '@platform/kit';
import { unzip, zip } from 'fflate';
import tar from 'tar-stream';

/** What an upload may hold, unpacked. */
const MOST_FILES = 10_000;
const MOST_BYTES = 100 * 1024 * 1024;

export interface Entry {
  /** Relative, with forward slashes. */
  path: string;
  data: Uint8Array;
  mode: number;
}

const refuse = (detail: string) => new AppError('invalid', 'The archive can not be taken.', { detail });

/** Refuses a path that would leave the folder it is unpacked into. */
export function checkEntryPath(path: string): void {
  const parts = path.split(/[\\/]/);
  if (path === '' || path.startsWith('/') || /^[a-zA-Z]:/.test(path) || path.includes('\0') || parts.includes('..')) {
    throw refuse(`The path ${JSON.stringify(path)} leaves the archive's folder.`);
  }
}

/** The regular files of a tar, with bounded sizes. Links and devices are left out, as daemons do: published clients send them. */
export async function readTar(data: Uint8Array): Promise<Entry[]> {
  const extract = tar.extract();
  const entries: Entry[] = [];
  let bytes = 0;
  Readable.from([Buffer.from(data.buffer, data.byteOffset, data.byteLength)]).pipe(extract);
  try {
    for await (const entry of extract) {
      const { name, type, size = 0, mode = 0o644 } = entry.header;
      checkEntryPath(name.replace(/\/$/, '').replace(/^\.\//, '') || '.');
      bytes += size;
      if (bytes > MOST_BYTES || entries.length >= MOST_FILES) {
        throw new AppError('too_large', 'The archive is too large.', {
          detail: 'At most 100 MiB and 10,000 files, unpacked.',
        });
      }
      const parts: Buffer[] = [];
      for await (const part of entry) parts.push(part as Buffer);
      if (type === 'file' || type === 'contiguous-file') {
        entries.push({ path: name.replace(/^\.\//, ''), data: Buffer.concat(parts), mode });
      }
    }
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw refuse(`Not a readable tar archive: ${(err as Error).message}`);
  }
  if (data.byteLength === 0 || (entries.length === 0 && data.byteLength < 512))
    throw refuse('Not a readable tar archive.');
  return entries;
}

export async function writeTar(entries: Entry[]): Promise<Buffer> {
  const pack = tar.pack();
  for (const { path, data, mode } of entries) {
    pack.entry({ name: path, mode, mtime: new Date(0) }, Buffer.from(data));
  }
  pack.finalize();
  const parts: Buffer[] = [];
  for await (const part of pack) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** The regular files of a zip, each checked before it is unpacked. */
export async function readZip(data: Uint8Array): Promise<Entry[]> {
  let bytes = 0;
  let count = 0;
  let refused: AppError | undefined;
  const files = await new Promise<Record<string, Uint8Array>>((resolve, reject) => {
    unzip(
      data,
      {
        filter: ({ name, originalSize }) => {
          if (refused || name.endsWith('/')) return false;
          try {
            checkEntryPath(name);
            bytes += originalSize;
            if (bytes > MOST_BYTES || ++count > MOST_FILES)
              throw new AppError('too_large', 'The archive is too large.');
            return true;
          } catch (err) {
            refused = err as AppError;
            return false;
          }
        },
      },
      (err, out) => (err ? reject(refuse(`Not a readable zip archive: ${err.message}`)) : resolve(out)),
    );
  });
  if (refused) throw refused;
  return Object.entries(files).map(([path, content]) => ({ path, data: content, mode: 0o644 }));
}

/** Packed outside the main thread. */
export function writeZip(entries: Entry[]): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    zip(Object.fromEntries(entries.map(({ path, data }) => [path, data])), (err, out) =>
      err ? reject(err) : resolve(out),
    );
  });
}
