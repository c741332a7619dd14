import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { AppError } from '@ropewalk/kit';
import tar from 'tar-stream';
import { eachInZip, isLink, makeZip } from './zip.ts';

/** The limits of an unpacked upload. */
const MAX_FILES = 10_000;
const MAX_BYTES = 100 * 1024 * 1024;
const MAX_PATH = 1024;

export interface Entry {
  /** Relative, with forward slashes. */
  path: string;
  data: Uint8Array;
  mode: number;
}

const invalid = (detail: string) => new AppError('invalid', 'The archive is invalid.', { detail });
const tooLarge = () =>
  new AppError('too_large', 'The archive is too large.', {
    detail: 'The limits are 100 MiB and 10,000 files, unpacked.',
  });

/** Rejects a path that leaves the folder it is unpacked into, or that is too long. */
export function checkEntryPath(path: string): void {
  if (path.length > MAX_PATH) throw invalid(`A path is longer than ${MAX_PATH} characters.`);
  const parts = path.split(/[\\/]/);
  if (path === '' || path.startsWith('/') || /^[a-zA-Z]:/.test(path) || path.includes('\0') || parts.includes('..')) {
    throw invalid(`The path ${JSON.stringify(path)} leaves the archive's folder.`);
  }
}

/**
 * The regular files of a tar that `wanted` selects, with limited sizes. Links and devices are skipped, as daemons do:
 * upstream's clients send them.
 */
export async function readTar(data: Uint8Array, wanted: (path: string) => boolean = () => true): Promise<Entry[]> {
  const extract = tar.extract();
  const entries: Entry[] = [];
  let bytes = 0;
  let count = 0;
  Readable.from([Buffer.from(data.buffer, data.byteOffset, data.byteLength)]).pipe(extract);
  try {
    for await (const entry of extract) {
      const { name, type, size = 0, mode = 0o644 } = entry.header;
      checkEntryPath(name.replace(/\/$/, '').replace(/^\.\//, '') || '.');
      bytes += size;
      if (bytes > MAX_BYTES || ++count > MAX_FILES) throw tooLarge();
      const path = name.replace(/^\.\//, '');
      if ((type === 'file' || type === 'contiguous-file') && wanted(path)) {
        const parts: Buffer[] = [];
        for await (const part of entry) parts.push(part as Buffer);
        entries.push({ path, data: Buffer.concat(parts), mode });
      } else entry.resume();
    }
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw invalid(`Not a readable tar archive: ${(err as Error).message}`);
  }
  // no bytes are an archive without files, also for tar
  if (count === 0 && data.byteLength > 0 && data.byteLength < 512) throw invalid('Not a readable tar archive.');
  return entries;
}

/** A symbolic link. Nothing follows it, but the log of an import names it. */
export interface Link {
  path: string;
  target: string;
}

export async function writeTar(entries: Entry[], links: readonly Link[] = []): Promise<Buffer<ArrayBuffer>> {
  const pack = tar.pack();
  for (const { path, data, mode } of entries) {
    pack.entry({ name: path, mode, mtime: new Date(0) }, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  }
  for (const { path, target } of links)
    pack.entry({ name: path, type: 'symlink', linkname: target, mtime: new Date(0) });
  pack.finalize();
  const parts: Buffer[] = [];
  for await (const part of pack) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** The regular files of a zip, with limited sizes. Adds its links to `links`. Unpacks on the calling thread. */
export function readZip(zip: Uint8Array, links: Link[] = []): Entry[] {
  const files = new Map<string, Entry>();
  let bytes = 0;
  let count = 0;
  try {
    eachInZip(Buffer.from(zip.buffer, zip.byteOffset, zip.byteLength), (entry) => {
      const { path, size } = entry;
      checkEntryPath(path.replace(/\/$/, ''));
      bytes += size;
      if (bytes > MAX_BYTES || ++count > MAX_FILES) throw tooLarge();
      if (isLink(entry)) links.push({ path, target: size <= MAX_PATH ? entry.read().toString() : '' });
      else if (!path.endsWith('/')) files.set(path, { path, data: entry.read(), mode: 0o644 });
    });
  } catch (err) {
    if (err instanceof AppError) throw err;
    throw invalid(`Not a readable zip archive: ${(err as Error).message}.`);
  }
  return [...files.values()];
}

/** An upload as it is stored: a tar, and its SHA-256 in hex. Rejects archives that cannot be unpacked safely. */
export interface StoredUpload {
  tar: Uint8Array;
  hash: string;
}

export async function unpackUpload({ data, zip }: { data: Uint8Array; zip: boolean }): Promise<StoredUpload> {
  if (!zip) await readTar(data, () => false);
  const links: Link[] = [];
  const archive = zip ? await writeTar(readZip(data, links), links) : data;
  return { tar: archive, hash: createHash('sha256').update(archive).digest('hex') };
}

/** A stored archive as a zip. */
export async function packZip({ tar }: { tar: Uint8Array }): Promise<{ zip: Uint8Array }> {
  return { zip: makeZip(await readTar(tar)) };
}
