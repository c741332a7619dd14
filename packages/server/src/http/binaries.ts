import { createHash } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { AppError } from '@platform/kit';
import type { FastifyInstance } from 'fastify';

/** The executable for an operating system and architecture by their published names; undefined where there is none. */
export type FindBinary = (os: string, arch: string) => Promise<string | undefined>;

const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/;

/** `/bin/coder-{os}-{arch}`: what an init script downloads. Compressed unless the client sits on this machine. */
export function binaryRoutes(app: FastifyInstance, find: FindBinary): void {
  const tags = new Map<string, string>();
  app.get<{ Params: { name: string } }>('/bin/:name', async (request, reply) => {
    const parts = /^coder-([a-z]+)-([a-z0-9]+)(\.exe)?$/.exec(request.params.name.replaceAll('_', '-'));
    const path = parts ? await find(parts[1]!, parts[2]!) : undefined;
    if (!path) throw new AppError('not_found', 'There is no such executable here.');
    const info = await stat(path);
    const etag = await etagOf(path, info, tags);
    reply.headers({
      etag,
      'x-original-content-length': String(info.size),
      vary: 'accept-encoding',
      'cache-control': 'no-cache',
    });
    if (request.headers['if-none-match'] === etag) return reply.code(304).send();
    reply.type('application/octet-stream');
    const gzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? '')) && !LOOPBACK.test(request.ip);
    if (!gzip)
      return reply.header('content-length', info.size).send(createReadStream(path, { highWaterMark: 1 << 20 }));
    return reply.header('content-encoding', 'gzip').send(zipped(path));
  });
}

/** Ends with its reader, and its source with it; a source that can't be read ends the answer, not the server. */
function zipped(path: string): Readable {
  const zip = createGzip({ level: 4 });
  pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), zip).catch(() => {});
  return zip;
}

async function etagOf(path: string, info: Stats, known: Map<string, string>): Promise<string> {
  const key = `${path} ${info.size} ${info.mtimeMs}`;
  let tag = known.get(key);
  if (!tag) {
    const hash = createHash('sha1');
    await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
    tag = `"${hash.digest('hex')}"`;
    known.set(key, tag);
  }
  return tag;
}
