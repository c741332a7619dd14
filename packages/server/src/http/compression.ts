/** Which JSON answers are compressed, and how (docs/decisions/0084-compressed-answers.md). */
import { randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip, zstdCompress } from 'node:zlib';
import type { RouteDef, RouteKey } from '@ropewalk/contract';
import type { FastifyRequest } from 'fastify';
import { isPublicAddress } from '../app/outbound/public-address.ts';
import { preferredEncoding } from './accepts-encoding.ts';
import type { ClientAddress } from './client-address.ts';

export type Encoding = 'zstd' | 'br' | 'gzip';

/** The cheapest one first. It is also the smallest. */
const ENCODINGS: readonly Encoding[] = ['zstd', 'br', 'gzip'];

/** Answers of up to so many bytes or characters are not compressed. Hardly any of them needs a second packet. */
export const MAX_PLAIN = 1_024;

/** In bytes. */
const MAX_PADDING = 64;

/**
 * Answers to GET with secrets, or with values that may be some. Anyone who can add a text to an answer and see its compressed
 * length could guess them. Answers to other methods are never compressed.
 */
export const SECRETS: ReadonlySet<RouteKey> = new Set([
  'GET /deployment/config',
  'GET /external-auth/{externalauth}/device',
  'GET /oauth2-provider/apps/{app}/secrets',
  'GET /templateversions/{templateversion}/variables',
  'GET /users/{user}/autofill-parameters',
  'GET /workspacebuilds/{workspacebuild}/parameters',
  'GET /workspaces/{workspace}/external-agent/{agent}/credentials',
]);

/** Whether answers of a route may be compressed at all. Streams send many small messages. */
export const isCompressible = (key: RouteKey, { auth, stream }: RouteDef): boolean =>
  key.startsWith('GET ') && auth === 'session' && stream === undefined && !SECRETS.has(key);

/** The encoding for a long answer to this request. Undefined if it is sent as it is. */
export function encodingFor(
  { headers, raw }: Pick<FastifyRequest, 'headers' | 'raw'>,
  clientAddress: ClientAddress,
): Encoding | undefined {
  const header = headers['accept-encoding'];
  if (header === undefined || isForced(headers) || !isFar(headers, clientAddress(raw))) return undefined;
  return preferredEncoding(`${header}`, ENCODINGS);
}

/**
 * Whether a page of another origin may have made the browser send the request. Such a page can try many and measure the answers. Old
 * browsers, and all of them on plain HTTP, do not name the page. Programs send no cookies.
 */
function isForced({ 'sec-fetch-site': site, cookie }: FastifyRequest['headers']): boolean {
  return site === undefined ? cookie !== undefined : site !== 'same-origin' && site !== 'none';
}

/**
 * Whether the answer leaves the own network, where nearly every connection is slower than compression. A proxy reports the client
 * even if it is not trusted: this affects nothing but the form of the client's own answer.
 */
function isFar(headers: FastifyRequest['headers'], address: string): boolean {
  if (isPublicAddress(address)) return true;
  const forwarded = headers['x-forwarded-for'];
  return forwarded !== undefined && `${forwarded}`.split(',').some((one) => isPublicAddress(one.trim()));
}

const zstdOptions = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
const brotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const [zstdLater, brotliLater, gzipLater] = [promisify(zstdCompress), promisify(brotliCompress), promisify(gzip)];

const COMPRESS: Record<Encoding, (text: string | Buffer) => Promise<Buffer>> = {
  zstd: (text) => zstdLater(text, zstdOptions),
  br: (text) => brotliLater(text, brotliOptions),
  gzip: (text) => gzipLater(text, { level: 1 }),
};

/** The headers of a compressed answer. Their random length hides differences of a few bytes between answers. */
export const encodedHeaders = (encoding: Encoding): Record<string, string> => ({
  'content-encoding': encoding,
  'x-padding': '0'.repeat(randomInt(MAX_PADDING + 1)),
});

/** Compresses a text in the thread pool. */
export const compress = (text: string | Buffer, encoding: Encoding): Promise<Buffer> => COMPRESS[encoding](text);
