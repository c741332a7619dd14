import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, type Stats } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { AppError, ensureDirectory, errorText, type Logger } from '@ropewalk/kit';
import type { FastifyInstance } from 'fastify';
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

/** How an operator adds an executable that the server does not have. */
export const HOW_TO_ADD =
  'GET /bin lists those that it has. To add the others, run `npm run build all` in the checkout of the server, or put ' +
  "them in the directory of the server's executable. No restart is necessary.";

/** `/bin/coder-{os}-{arch}`: the download of init scripts. Compressed unless the client is on this machine. */
export function binaryRoutes(app: FastifyInstance, { find, cacheDir, log }: BinaryOptions): void {
  const tags = new Map<string, Promise<string>>();
  const making = new Map<string, Promise<string>>();

  /** The compressed copy of a file. The first request makes it, and the others wait for it. */
  async function compressed(path: string, sum: string): Promise<string> {
    const copy = join(cacheDir, 'bin', `${sum}.gz`);
    if (await stat(copy).catch(() => undefined)) return copy;
    let made = making.get(copy);
    if (!made) {
      made = compress(path, copy).finally(() => making.delete(copy));
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
    const etag = `"${sum}"`;
    reply.headers({
      etag,
      'x-original-content-length': String(info.size),
      vary: 'accept-encoding',
      'cache-control': 'no-cache',
    });
    if (holdsTag(request.headers['if-none-match'], etag)) return reply.code(304).send();
    reply.type('application/octet-stream');
    if (/\bgzip\b/.test(String(request.headers['accept-encoding'] ?? '')) && !LOOPBACK.test(request.ip)) {
      try {
        const copy = await compressed(path, sum);
        const { size } = await stat(copy);
        reply.headers({ 'content-encoding': 'gzip', 'content-length': size });
        return reply.send(createReadStream(copy, { highWaterMark: CHUNK }));
      } catch (err) {
        log.warn('could not compress an executable: sending it uncompressed', { path, err: errorText(err) });
      }
    }
    return reply.header('content-length', info.size).send(createReadStream(path, { highWaterMark: CHUNK }));
  });
}

async function compress(path: string, copy: string): Promise<string> {
  await ensureDirectory(join(copy, '..'));
  const part = `${copy}.${crypto.randomUUID()}`;
  try {
    await pipeline(
      createReadStream(path, { highWaterMark: CHUNK }),
      createGzip({ level: 6, chunkSize: CHUNK }),
      createWriteStream(part),
    );
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
