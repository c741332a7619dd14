import type { IncomingMessage } from 'node:http';
import type { ClientTls, Fetch } from './client.ts';
import { UnreachableError } from './errors.ts';

const TIMEOUT_MS = 60_000;

/**
 * `fetch` over node:http, for a command line that starts and ends quickly: Node's own takes longer to load than a
 * whole call takes. Redirects are answers like any other. An answer may be 60 s of silence away.
 */
export const nodeFetch: Fetch = (url, init) => fetchOver({}, url, init);

/** `nodeFetch` with a client certificate or other authorities. */
export const nodeFetchWith =
  (tls: ClientTls): Fetch =>
  (url, init) =>
    fetchOver(tls, url, init);

async function fetchOver(tls: ClientTls, url: string, init: Parameters<Fetch>[1]): ReturnType<Fetch> {
  const target = new URL(url);
  // TLS costs a plain client 20 ms to load. An import would read every export, and one of them loads Node's fetch.
  const { request } = process.getBuiltinModule(target.protocol === 'https:' ? 'node:https' : 'node:http');
  const errorOf = (err: Error) =>
    init.signal?.aborted ? err : new UnreachableError(`Could not reach ${target.origin}: ${reason(err)}`, err);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const req = request(
      target,
      {
        ...tls,
        method: init.method,
        headers: {
          ...init.headers,
          ...(init.body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(init.body)) }),
        },
        ...(init.signal ? { signal: init.signal } : {}),
      },
      resolve,
    );
    req.setNoDelay(true);
    req.setTimeout(TIMEOUT_MS, () => req.destroy(new Error(`no answer within ${TIMEOUT_MS / 1000} s`)));
    req.once('error', (err) => reject(errorOf(err)));
    req.end(init.body);
  });
  const body = async () => {
    const parts: Buffer[] = [];
    try {
      for await (const part of response as AsyncIterable<Buffer>) parts.push(part);
    } catch (err) {
      throw errorOf(err as Error);
    }
    return Buffer.concat(parts);
  };
  return {
    status: response.statusCode ?? 0,
    headers: {
      get: (name) => ([] as string[]).concat(response.headers[name.toLowerCase()] ?? []).join(', ') || null,
      lines: (name) => response.headersDistinct[name.toLowerCase()] ?? [],
    },
    text: async () => (await body()).toString('utf8'),
    arrayBuffer: async () => {
      const bytes = await body();
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
    },
  };
}

function reason(err: NodeJS.ErrnoException & { errors?: Error[] }): string {
  const known: Record<string, string> = {
    ECONNREFUSED: 'nothing listens there.',
    ENOTFOUND: 'there is no such host.',
    EAI_AGAIN: 'the name service does not answer.',
    ECONNRESET: 'the connection was reset.',
  };
  return known[err.code ?? ''] ?? (err.message || err.errors?.[0]?.message || 'unknown reason');
}
