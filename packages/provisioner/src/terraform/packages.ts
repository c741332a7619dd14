// The store of provider packages. A package has a folder whose name is its checksum, so that all versions, daemons and
// organizations of a machine share one copy. A folder appears complete, by a rename, and does not change.

import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createZstdCompress, createZstdDecompress } from 'node:zlib';
import { AppError, ensureDirectory } from '@ropewalk/kit';
import tar from 'tar-stream';
import { copyOwned } from '../isolation/tree.ts';
import { localPath } from './archive.ts';

/** The maximum size of the tar of a package, in bytes, and the maximum number of its files. */
const MAX_UNPACKED = 4 * 2 ** 30;
const MAX_FILES = 10_000;

/** The checksum of a package as Terraform's lock file has it, from the SHA-256 of each file. */
export function packageChecksum(sums: ReadonlyMap<string, string>): string {
  const hash = createHash('sha256');
  for (const path of [...sums.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))))
    hash.update(`${sums.get(path)}  ${path}\n`);
  return `h1:${hash.digest('base64')}`;
}

/** The paths of all files of a package, without links. */
async function filesOf(dir: string, below = ''): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(join(dir, below), { withFileTypes: true })) {
    const path = below ? `${below}/${entry.name}` : entry.name;
    if (entry.isDirectory()) found.push(...(await filesOf(dir, path)));
    else if (entry.isFile()) found.push(path);
  }
  return found.sort();
}

/** The checksum of a folder of the daemon's own. */
export async function checksumOf(dir: string): Promise<string> {
  const sums = new Map<string, string>();
  for (const path of await filesOf(dir)) {
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(join(dir, path), { highWaterMark: 1 << 20 }))
      hash.update(chunk as Buffer);
    sums.set(path, hash.digest('hex'));
  }
  return packageChecksum(sums);
}

/**
 * Writes a folder of the daemon's own as a compressed archive into a new file, and returns its size in bytes. Undefined
 * if that is more than `most`.
 */
export async function packPackage(dir: string, to: string, most: number): Promise<number | undefined> {
  const pack = tar.pack();
  let size = 0;
  const limited = async function* (compressed: AsyncIterable<Buffer>) {
    for await (const part of compressed) {
      size += part.length;
      if (size > most) throw new AppError('too_large', `The archive has more than ${most} bytes.`);
      yield part;
    }
  };
  const collected = pipeline(pack, createZstdCompress(), limited, createWriteStream(to, { flags: 'wx', mode: 0o600 }));
  const written = (async () => {
    for (const path of await filesOf(dir)) {
      const { size: bytes } = await stat(join(dir, path));
      const entry = pack.entry({ name: path, size: bytes, mode: 0o755, mtime: new Date(0) });
      await pipeline(createReadStream(join(dir, path), { highWaterMark: 1 << 20 }), entry);
    }
    pack.finalize();
  })();
  written.catch(() => {}); // an archive that is too large ends early
  collected.catch(() => {});
  try {
    await Promise.race([collected, written.then(() => collected)]);
    return size;
  } catch (err) {
    if (size > most) return undefined;
    throw err;
  } finally {
    pack.destroy();
  }
}

/** Stores packages below a folder. */
export class PackageStore {
  readonly dir: string;
  readonly #maxBytes: number;

  /** `maxBytes`: of the tar in an archive, whose zeros cost the sender nothing. */
  constructor(dir: string, { maxBytes = MAX_UNPACKED }: { maxBytes?: number } = {}) {
    this.dir = dir;
    this.#maxBytes = maxBytes;
  }

  #place(checksum: string, name: string): string {
    const hex = Buffer.from(checksum.slice(3), 'base64').toString('hex');
    return join(this.dir, hex.slice(0, 2), hex, name);
  }

  /** The folder of a stored package. `name`: its version and platform, as parts of a path. */
  async find(checksum: string, name: string): Promise<string | undefined> {
    const place = this.#place(checksum, name);
    return stat(place).then(
      () => place,
      () => undefined,
    );
  }

  /** Stores a folder that belongs to a build. Returns the stored folder. */
  async take(from: string, name: string, uid: number): Promise<string> {
    return this.#store(name, async (partial) => {
      const sums = new Map<string, string>();
      await copyOwned(from, partial, { uid, sums });
      return packageChecksum(sums);
    });
  }

  /** Stores an archive of `packPackage`. @throws AppError `invalid` if its content does not have the checksum. */
  async unpack(pieces: AsyncIterable<Uint8Array>, checksum: string, name: string): Promise<string> {
    return this.#store(name, async (partial) => {
      const actual = await unpackInto(partial, pieces, this.#maxBytes);
      if (actual !== checksum)
        throw new AppError('invalid', `The package has the checksum ${actual}, not ${checksum}.`);
      return actual;
    });
  }

  async #store(name: string, make: (partial: string) => Promise<string>): Promise<string> {
    await ensureDirectory(this.dir, { mode: 0o711 });
    const partial = join(this.dir, `.${crypto.randomUUID()}`);
    try {
      const kept = this.#place(await make(partial), name);
      await ensureDirectory(dirname(kept), { mode: 0o755 });
      await rename(partial, kept).catch((err: NodeJS.ErrnoException) => {
        if (err.code !== 'ENOTEMPTY' && err.code !== 'EEXIST') throw err; // it is already stored
      });
      return kept;
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  }
}

/** Writes the files of an archive into a new folder. Returns their checksum. */
async function unpackInto(dir: string, pieces: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  await mkdir(dir, { mode: 0o755 });
  const sums = new Map<string, string>();
  const extract = tar.extract();
  let total = 0;
  const limited = async function* (unpacked: AsyncIterable<Buffer>) {
    for await (const part of unpacked) {
      total += part.length;
      if (total > maxBytes)
        throw new AppError('invalid', `The package cannot be unpacked: it has more than ${maxBytes} bytes.`);
      yield part;
    }
  };
  const fed = pipeline(Readable.from(pieces), createZstdDecompress(), limited, extract);
  fed.catch(() => {}); // the loop gets the error, too
  for await (const entry of extract) {
    const path = localPath(entry.header.name);
    if (path === undefined || entry.header.type !== 'file' || sums.size >= MAX_FILES)
      throw new AppError('invalid', `The package cannot be unpacked: ${JSON.stringify(entry.header.name)}.`);
    await ensureDirectory(dirname(join(dir, path)), { mode: 0o755 });
    const hash = createHash('sha256');
    const hashed = async function* (source: AsyncIterable<Buffer>) {
      for await (const chunk of source) {
        hash.update(chunk);
        yield chunk;
      }
    };
    await pipeline(entry, hashed, createWriteStream(join(dir, path), { flags: 'wx', mode: 0o755 }));
    sums.set(path, hash.digest('hex'));
  }
  await fed;
  return packageChecksum(sums);
}
