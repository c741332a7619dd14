/**
 * Reads and writes whole zip files on the calling thread, for worker threads. The sizes in a zip limit what is unpacked
 * and are verified while unpacking. No encryption, no ZIP64.
 */
import { crc32, inflateRawSync } from 'node:zlib';
import { Zip, ZipDeflate } from 'fflate';

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const LOCAL_SIZE = 30;
const CENTRAL_SIZE = 46;
const END_SIZE = 22;
const UTF8 = 0x800;
const ENCRYPTED = 1;
const STORED = 0;
const DEFLATED = 8;
const FILE_TYPE = 0o170000;
const LINK = 0o120000;
/** The first time that a zip can store. */
const FIRST_DATE = new Date(1980, 0, 1);
const UNIX = 3;
const REGULAR = 0o100000;
const PERMISSIONS = 0o7777;
/** Type and permissions are the upper half of an entry's attributes. */
const ATTRIBUTES_OF_UNIX = 0x1_0000;

export interface ZipEntry {
  path: string;
  /** The content's size as the zip states it. */
  size: number;
  /** Type and permissions if the zip was created on Unix, otherwise 0. */
  mode: number;
  /** @throws Error if the content does not have the stated size and checksum */
  read(): Buffer;
}

export const isLink = ({ mode }: Pick<ZipEntry, 'mode'>): boolean => (mode & FILE_TYPE) === LINK;

/** Calls `entry` for each file and folder, in the order of the directory. @throws Error if it is not a zip file */
export function eachInZip(zip: Buffer, entry: (entry: ZipEntry) => void): void {
  const end = findEnd(zip);
  const count = zip.readUInt16LE(end + 10);
  let at = zip.readUInt32LE(end + 16);
  if (count === 0xffff || at === 0xffffffff) throw new Error('ZIP64 is not supported');
  let packed = 0;
  for (let i = 0; i < count; i++) {
    if (at + CENTRAL_SIZE > end || zip.readUInt32LE(at) !== CENTRAL) throw new Error('its directory is broken');
    const size = zip.readUInt32LE(at + 20);
    const names = at + CENTRAL_SIZE;
    const next = names + zip.readUInt16LE(at + 28) + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
    if (next > end) throw new Error('its directory is broken');
    packed += size;
    // entries must not share bytes
    if (packed > zip.length) throw new Error('its entries overlap');
    entry(entryAt(zip, at, names));
    at = next;
  }
}

function findEnd(zip: Buffer): number {
  const last = zip.length - END_SIZE;
  for (let at = last; at >= 0 && at >= last - 0xffff; at--)
    if (zip.readUInt32LE(at) === END && at + END_SIZE + zip.readUInt16LE(at + 20) === zip.length) return at;
  throw new Error('its end is missing');
}

function entryAt(zip: Buffer, at: number, names: number): ZipEntry {
  const [flags, method] = [zip.readUInt16LE(at + 8), zip.readUInt16LE(at + 10)];
  const [checksum, packed, size] = [zip.readUInt32LE(at + 16), zip.readUInt32LE(at + 20), zip.readUInt32LE(at + 24)];
  const name = zip.subarray(names, names + zip.readUInt16LE(at + 28));
  const path = name.toString(flags & UTF8 ? 'utf8' : 'latin1');
  const wrong = (why: string) => new Error(`${JSON.stringify(path)} ${why}`);
  return {
    path,
    size,
    mode: zip.readUInt16LE(at + 40),
    read() {
      if (flags & ENCRYPTED) throw wrong('is encrypted');
      if (method !== STORED && method !== DEFLATED) throw wrong(`is compressed with the unknown method ${method}`);
      const local = zip.readUInt32LE(at + 42);
      if (local + LOCAL_SIZE > zip.length || zip.readUInt32LE(local) !== LOCAL) throw wrong('is missing');
      const start = local + LOCAL_SIZE + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      const bytes = zip.subarray(start, start + packed);
      if (bytes.length !== packed) throw wrong('is cut off');
      const data = method === STORED ? bytes : inflate(bytes, size, wrong);
      if (data.length !== size) throw wrong('has a different size than the archive states');
      if (crc32(data) !== checksum) throw wrong('has a different checksum than the archive states');
      return data;
    },
  };
}

/** Stops at the stated size. */
function inflate(bytes: Buffer, size: number, wrong: (why: string) => Error): Buffer {
  try {
    return inflateRawSync(bytes, { maxOutputLength: Math.max(size, 1) });
  } catch (err) {
    const over = (err as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw wrong(
      over ? 'has a different size than the archive states' : `cannot be unpacked: ${(err as Error).message}`,
    );
  }
}

/** Creates a compressed zip of these files. The same files always give the same bytes. */
export function makeZip(files: readonly { path: string; data: Uint8Array; mode: number }[]): Buffer {
  const parts: Uint8Array[] = [];
  const zip = new Zip((err, part) => {
    if (err) throw err;
    parts.push(part);
  });
  for (const { path, data, mode } of files) {
    const entry = new ZipDeflate(path);
    entry.os = UNIX;
    entry.attrs = (REGULAR | (mode & PERMISSIONS)) * ATTRIBUTES_OF_UNIX;
    entry.mtime = FIRST_DATE;
    zip.add(entry);
    entry.push(data, true);
  }
  zip.end();
  return Buffer.concat(parts);
}
