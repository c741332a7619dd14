import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, type Stats } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createGzip, createZstdCompress } from 'node:zlib';
import { AppError, ensureDirectory, errorText, type Logger } from '@ropewalk/kit';
import type { FastifyInstance } from 'fastify';
import { byteRange } from './byte-range.ts';
import { holdsTag } from './etag.ts';

/** The executable for an operating system and architecture, by upstream's names. Undefined if this server has none. */
export type FindBinary = (os: string, arch: string) => Promise<string | undefined>;

export interface BinaryOptions {
  find: FindBinary;
  /** The folder of compressed copies, so that each is made once. */
  cacheDir: string;
  log: Logger;
}

const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/;
const CHUNK = 1 << 20;

/**
 * The encodings of compressed copies, the smaller one first. Both levels take 6 s of a processor for 189 MB: zstd makes 68 MB of
 * it, gzip 76 MB.
 */
const ENCODINGS = {
  zstd: () => createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 6 }, chunkSize: CHUNK }),
  gzip: () => createGzip({ level: 6, chunkSize: CHUNK }),
};
type Encoding = keyof typeof ENCODINGS;

/** The first of our encodings that a client accepts. */
const acceptedEncoding = (header: string | undefined): Encoding | undefined =>
  (Object.keys(ENCODINGS) as Encoding[]).find((name) =>
    new RegExp(`\\b${name}\\b(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$))`).test(header ?? ''),
  );

/** How an operator adds an executable that the server does not have. */
export const HOW_TO_ADD =
  'GET /bin lists those that it has. To add the others, run `npm run build all` in the checkout of the server, or put ' +
  "them in the directory of the server's executable. No restart is necessary.";

/**
 * `/bin/coder-{os}-{arch}`: the download of init scripts. Compressed unless the client is on this machine or asks for a range, so that
 * a download that broke off continues.
 */
export function binaryRoutes(app: FastifyInstance, { find, cacheDir, log }: BinaryOptions): void {
  const tags = new Map<string, Promise<string>>();
  const making = new Map<string, Promise<string>>();

  /** The compressed copy of a file. The first request makes it, and the others wait for it. */
  async function compressed(path: string, sum: string, encoding: Encoding): Promise<string> {
    const copy = join(cacheDir, 'bin', `${sum}.${encoding === 'gzip' ? 'gz' : 'zst'}`);
    if (await stat(copy).catch(() => undefined)) return copy;
    let made = making.get(copy);
    if (!made) {
      made = compress(path, copy, encoding).finally(() => making.delete(copy));
      making.set(copy, made);
    }
    return made;
  }

  app.get<{ Params: { name: string } }>('/bin/:name', async (request, reply) => {
    const parts = /^coder-([a-z]+)-([a-z0-9]+)(\.exe)?$/.exec(request.params.name.replaceAll('_', '-'));
    const path = parts ? await find(parts[1]!, parts[2]!) : undefined;
    if (!path) {
      const what = parts ? `for ${parts[1]} on ${parts[2]}` : `named ${JSON.stringify(request.params.name)}`;
      throw new AppError('not_found', `This server does not have the executable ${what}.`, { detail: HOW_TO_ADD });
    }
    const info = await stat(path);
    const sum = await sumOf(path, info, tags);
    const tagOf = (encoding?: Encoding) => `"${sum}${encoding ? `-${encoding}` : ''}"`;
    const { range, 'if-range': unless, 'if-none-match': known, 'accept-encoding': accepted } = request.headers;
    reply.headers({
      'x-original-content-length': String(info.size),
      'accept-ranges': 'bytes',
      vary: 'accept-encoding',
      'cache-control': 'no-cache',
    });
    // nothing is read for HEAD
    const bodyOf = (file: string, part: { start?: number; end?: number } = {}) =>
      request.method === 'HEAD' ? Readable.from([]) : createReadStream(file, { highWaterMark: CHUNK, ...part });
    const encodings = [undefined, ...(Object.keys(ENCODINGS) as Encoding[])];
    const same = encodings.find((encoding) => holdsTag(known, tagOf(encoding)));
    if (known !== undefined && (same || holdsTag(known, tagOf())))
      return reply.header('etag', tagOf(same)).code(304).send();
    reply.type('application/octet-stream');
    const encoding = range === undefined && !LOOPBACK.test(request.ip) ? acceptedEncoding(accepted) : undefined;
    if (encoding) {
      try {
        const copy = await compressed(path, sum, encoding);
        const { size } = await stat(copy);
        reply.headers({ etag: tagOf(encoding), 'content-encoding': encoding, 'content-length': size });
        return reply.send(bodyOf(copy));
      } catch (err) {
        log.warn('could not compress an executable: sending it uncompressed', { path, err: errorText(err) });
      }
    }
    reply.header('etag', tagOf());
    const wanted = unless === undefined || unless === tagOf() ? byteRange(range, info.size) : undefined;
    if (wanted === 'unsatisfiable') return reply.code(416).header('content-range', `bytes */${info.size}`).send();
    const { start, end } = wanted ?? { start: 0, end: info.size - 1 };
    if (wanted) reply.code(206).header('content-range', `bytes ${start}-${end}/${info.size}`);
    reply.header('content-length', end - start + 1);
    return reply.send(bodyOf(path, { start, end }));
  });
}

async function compress(path: string, copy: string, encoding: Encoding): Promise<string> {
  await ensureDirectory(join(copy, '..'));
  const part = `${copy}.${crypto.randomUUID()}`;
  try {
    await pipeline(createReadStream(path, { highWaterMark: CHUNK }), ENCODINGS[encoding](), createWriteStream(part));
    await rename(part, copy);
  } finally {
    await rm(part, { force: true });
  }
  return copy;
}

async function sumOf(path: string, info: Stats, known: Map<string, Promise<string>>): Promise<string> {
  const key = `${path} ${info.size} ${info.mtimeMs}`;
  let sum = known.get(key);
  if (!sum) {
    const hash = createHash('sha1');
    sum = pipeline(createReadStream(path, { highWaterMark: CHUNK }), hash).then(() => hash.digest('hex'));
    known.set(key, sum);
    sum.catch(() => known.delete(key));
  }
  return sum;
}
