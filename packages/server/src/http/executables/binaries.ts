import { createHash, type Hash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createGzip, createZstdCompress } from 'node:zlib';
import { AppError, ensureDirectory, errorText, type Logger } from '@ropewalk/kit';
import { executableSize } from '@ropewalk/kit/appended-files';
import type { FastifyInstance } from 'fastify';
import type { Signer } from '../../app/agent/signing-key.ts';
import { acceptsEncoding } from '../accepts-encoding.ts';
import { byteRange } from '../byte-range.ts';
import { holdsTag } from '../etag.ts';

/** The executable for an operating system and architecture, by upstream's names. Undefined if this server has none. */
export type FindBinary = (os: string, arch: string) => Promise<string | undefined>;

/** What this server sends of an executable: its first `size` bytes, without what only servers need. */
export interface Executable {
  path: string;
  size: number;
  /** In hex. Editor extensions compare the SHA-1 of the file that they have with the ETag. */
  sha1: string;
  /** In hex. */
  sha256: string;
  /** A SHA-256 that has received its bytes, for a signature. */
  contentHash(): Hash;
}

/** Describes the executables that `find` returns. Each is read once, and again after it has changed. */
export function describeExecutables(find: FindBinary): (os: string, arch: string) => Promise<Executable | undefined> {
  const known = new Map<string, Promise<Executable>>();
  return async (os, arch) => {
    const path = await find(os, arch);
    if (!path) return undefined;
    const { size, mtimeMs } = await stat(path);
    const key = `${path} ${size} ${mtimeMs}`;
    let described = known.get(key);
    if (!described) {
      described = describe(path);
      known.set(key, described);
      described.catch(() => known.delete(key));
    }
    return described;
  };
}

async function describe(path: string): Promise<Executable> {
  const size = executableSize(path);
  const [sha1, sha256] = [createHash('sha1'), createHash('sha256')];
  for await (const chunk of read({ path, size })) {
    sha1.update(chunk as Buffer);
    sha256.update(chunk as Buffer);
  }
  return {
    path,
    size,
    sha1: sha1.digest('hex'),
    sha256: sha256.copy().digest('hex'),
    contentHash: () => sha256.copy(),
  };
}

const read = ({ path, size }: { path: string; size: number }, part = { start: 0, end: size - 1 }) =>
  createReadStream(path, { highWaterMark: CHUNK, ...part });

export interface BinaryOptions {
  describe: ReturnType<typeof describeExecutables>;
  /** The folder of compressed copies, so that each is made once. */
  cacheDir: string;
  signer: Signer;
  log: Logger;
}

/** The media type of a detached OpenPGP signature. */
export const SIGNATURE_TYPE = 'application/pgp-signature';
const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/;
const CHUNK = 1 << 20;

/**
 * The encodings of compressed copies, the smaller one first. zstd makes 37 MB of 120 MB in 3 s of a processor, gzip 42 MB in 6 s.
 */
const ENCODINGS = {
  zstd: () => createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 6 }, chunkSize: CHUNK }),
  gzip: () => createGzip({ level: 6, chunkSize: CHUNK }),
};
type Encoding = keyof typeof ENCODINGS;
const NAMES = Object.keys(ENCODINGS) as Encoding[];

/** How an operator adds an executable that the server does not have. */
export const HOW_TO_ADD =
  'GET /bin lists those that it has. To add the others, run `npm run build all` in the checkout of the server, or put ' +
  "them in the directory of the server's executable. No restart is necessary.";

/**
 * `/bin/coder-{os}-{arch}`: the download of init scripts. Compressed unless the client is on this machine or asks for a range, so that
 * a download that broke off continues. `/bin/coder-{os}-{arch}.asc`: its detached OpenPGP signature.
 */
export function binaryRoutes(app: FastifyInstance, { describe, cacheDir, signer, log }: BinaryOptions): void {
  const making = new Map<string, Promise<string>>();

  /** A compressed copy. The first request makes it, and the others wait for it. */
  async function compressed(executable: Executable, encoding: Encoding): Promise<string> {
    const copy = join(cacheDir, 'bin', `${executable.sha1}.${encoding === 'gzip' ? 'gz' : 'zst'}`);
    if (await stat(copy).catch(() => undefined)) return copy;
    let made = making.get(copy);
    if (!made) {
      made = compress(executable, copy, encoding).finally(() => making.delete(copy));
      making.set(copy, made);
    }
    return made;
  }

  app.get<{ Params: { name: string } }>('/bin/:name', async (request, reply) => {
    const parts = /^coder-([a-z]+)-([a-z0-9]+)(\.exe)?(\.asc)?$/.exec(request.params.name.replaceAll('_', '-'));
    const executable = parts ? await describe(parts[1]!, parts[2]!) : undefined;
    if (!executable) {
      const what = parts ? `for ${parts[1]} on ${parts[2]}` : `named ${JSON.stringify(request.params.name)}`;
      throw new AppError('not_found', `This server does not have the executable ${what}.`, { detail: HOW_TO_ADD });
    }
    if (parts![4]) {
      // weak: each signature of the same bytes differs, but all of them are valid
      const etag = `W/"${executable.sha1}-asc"`;
      reply.headers({ etag, 'cache-control': 'no-cache' });
      if (holdsTag(request.headers['if-none-match'], etag)) return reply.code(304).send();
      const signature = await signer.sign(executable.contentHash());
      return reply.type(SIGNATURE_TYPE).send(signature);
    }
    const { path, size, sha1 } = executable;
    const tagOf = (encoding?: Encoding) => `"${sha1}${encoding ? `-${encoding}` : ''}"`;
    const { range, 'if-range': unless, 'if-none-match': known, 'accept-encoding': accepted } = request.headers;
    reply.headers({
      'x-original-content-length': String(size),
      'accept-ranges': 'bytes',
      vary: 'accept-encoding',
      'cache-control': 'no-cache',
    });
    // nothing is read for HEAD
    const bodyOf = (file: { path: string; size: number }, part?: { start: number; end: number }) =>
      request.method === 'HEAD' ? Readable.from([]) : read(file, part);
    const same = [undefined, ...NAMES].map(tagOf).find((tag) => holdsTag(known, tag));
    if (same) return reply.header('etag', same).code(304).send();
    reply.type('application/octet-stream');
    const mayCompress = range === undefined && !LOOPBACK.test(request.ip);
    const encoding = mayCompress ? NAMES.find((name) => acceptsEncoding(String(accepted ?? ''), name)) : undefined;
    if (encoding) {
      try {
        const copy = await compressed(executable, encoding);
        const { size } = await stat(copy);
        reply.headers({ etag: tagOf(encoding), 'content-encoding': encoding, 'content-length': size });
        return reply.send(bodyOf({ path: copy, size }));
      } catch (err) {
        log.warn('could not compress an executable: sending it uncompressed', { path, err: errorText(err) });
      }
    }
    reply.header('etag', tagOf());
    const wanted = unless === undefined || unless === tagOf() ? byteRange(range, size) : undefined;
    if (wanted === 'unsatisfiable') return reply.code(416).header('content-range', `bytes */${size}`).send();
    if (wanted) reply.code(206).header('content-range', `bytes ${wanted.start}-${wanted.end}/${size}`);
    reply.header('content-length', wanted ? wanted.end - wanted.start + 1 : size);
    return reply.send(bodyOf(executable, wanted));
  });
}

async function compress(executable: Executable, copy: string, encoding: Encoding): Promise<string> {
  await ensureDirectory(join(copy, '..'));
  const part = `${copy}.${crypto.randomUUID()}`;
  try {
    await pipeline(read(executable), ENCODINGS[encoding](), createWriteStream(part));
    await rename(part, copy);
  } finally {
    await rm(part, { force: true });
  }
  return copy;
}
