/**
 * The built dashboard: an index and one file with the bytes of all others, compressed ahead of time. The same form is
 * in the build's folder and in the executable.
 */

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, constants, gzipSync } from 'node:zlib';
import { ownValue } from '@ropewalk/kit/own-value';
import { acceptsEncoding } from '../accepts-encoding.ts';

export const INDEX = 'files.json';
export const BYTES = 'files.bin';
/** The file of all emojis: a record of code to SVG. */
const EMOJIS = '/emojis.json';

type Encoding = 'br' | 'gzip' | 'identity';
type Range = [offset: number, length: number];

interface Packed {
  type: string;
  etag: string;
  /** A compressed file is not stored as it is. */
  parts: Partial<Record<Encoding, Range>>;
}

/** Path → file. */
type Index = Record<string, Packed>;

export interface DashboardFile {
  type: string;
  etag: string;
  /** The bytes in the best encoding that this Accept-Encoding header names. */
  body(accepted: string | undefined): { encoding?: 'br' | 'gzip'; bytes: Buffer };
}

/** The files of a built dashboard, by path. */
export interface DashboardFiles {
  get(path: string): DashboardFile | undefined;
  /** The SVG of an emoji by its code points, like `1f4bb`. */
  emoji(code: string): string | undefined;
}

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  ico: 'image/x-icon',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml; charset=utf-8',
  ttf: 'font/ttf',
  txt: 'text/plain; charset=utf-8',
  wasm: 'application/wasm',
  webmanifest: 'application/manifest+json',
  woff2: 'font/woff2',
};
const COMPRESSED = new Set(['png', 'woff2', 'ico']);

const extensionOf = (path: string) => path.slice(path.lastIndexOf('.') + 1);

export interface PackOptions {
  /** Brotli's quality for the file at a path, from 0 to 11. */
  quality: (path: string) => number;
}

/** Writes the files of a dashboard, by path, and its emojis, by code. */
export function writePack(
  dir: string,
  files: ReadonlyMap<string, Buffer>,
  emojis: Readonly<Record<string, string>>,
  { quality }: PackOptions,
): void {
  const index: Index = {};
  const chunks: Buffer[] = [];
  let offset = 0;
  const append = (bytes: Buffer): Range => {
    chunks.push(bytes);
    const range: Range = [offset, bytes.length];
    offset += bytes.length;
    return range;
  };
  const brotli = (path: string, plain: Buffer) =>
    brotliCompressSync(plain, {
      params: { [constants.BROTLI_PARAM_QUALITY]: quality(path), [constants.BROTLI_PARAM_SIZE_HINT]: plain.length },
    });
  for (const [path, plain] of [...files, [EMOJIS, Buffer.from(JSON.stringify(emojis))] as const]) {
    const extension = extensionOf(path);
    const type = ownValue(TYPES, extension);
    if (type === undefined) throw new Error(`Cannot serve ${path}: add the type of .${extension} to pack.ts.`);
    const etag = `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
    const parts: Packed['parts'] = {};
    if (COMPRESSED.has(extension)) parts.identity = append(plain);
    else {
      parts.br = append(brotli(path, plain));
      // nobody downloads all emojis at the same time
      if (path !== EMOJIS) parts.gzip = append(gzipSync(plain, { level: 9 }));
    }
    index[path] = { type, etag, parts };
  }
  writeFileSync(join(dir, BYTES), Buffer.concat(chunks));
  writeFileSync(join(dir, INDEX), JSON.stringify(index));
}

/** Reads what `writePack` wrote to a folder. */
export function readFolder(dir: string): DashboardFiles {
  return readPack(readFileSync(join(dir, INDEX), 'utf8'), readFileSync(join(dir, BYTES)));
}

/** Reads a pack from memory. */
export function readPack(indexText: string, bytes: Buffer): DashboardFiles {
  const index = new Map(Object.entries(JSON.parse(indexText) as Index));
  let emojis: Record<string, string> | undefined;
  const part = ([offset, length]: Range) => bytes.subarray(offset, offset + length);
  const plain = ({ parts }: Packed) => (parts.identity ? part(parts.identity) : brotliDecompressSync(part(parts.br!)));
  return {
    get(path) {
      const found = path === EMOJIS ? undefined : index.get(path);
      if (!found) return undefined;
      const { type, etag, parts } = found;
      return {
        type,
        etag,
        body(accepted = '') {
          for (const encoding of ['br', 'gzip'] as const) {
            const range = parts[encoding];
            if (range && acceptsEncoding(accepted, encoding)) return { encoding, bytes: part(range) };
          }
          return { bytes: plain(found) };
        },
      };
    },
    emoji(code) {
      emojis ??= JSON.parse(plain(index.get(EMOJIS)!).toString()) as Record<string, string>;
      return ownValue(emojis, code);
    },
  };
}
