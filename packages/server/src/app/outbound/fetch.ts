import { AppError } from '@ropewalk/kit';
import { type ProviderCall, reportAnswer } from './provider-calls.ts';

/** No answer of an identity provider needs more: certificates and claims are a few kilobytes. */
const MAX_BYTES = 1024 * 1024;
const TIMEOUT_MS = 10_000;

export interface BoundedRequest {
  method?: string;
  headers?: Record<string, string>;
  body?: NonNullable<RequestInit['body']> | null | undefined;
  signal?: AbortSignal | undefined;
  /** What connects, if not the one of the process. */
  dispatcher?: RequestInit['dispatcher'];
  /** Counts the request as a call of a provider. */
  call?: ProviderCall | undefined;
}

/**
 * Fetches like `fetch`, but rejects when the answer is not complete within 10 s or has more than 1 MiB. Follows no
 * redirects, which could lead credentials elsewhere.
 */
export async function boundedFetch(url: string, request: BoundedRequest, timeoutMs = TIMEOUT_MS): Promise<Response> {
  const { signal, body, call, ...rest } = request;
  const timeout = AbortSignal.timeout(timeoutMs);
  const response = await fetch(url, {
    ...rest,
    ...(body === undefined ? {} : { body }),
    redirect: 'manual',
    signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
  }).catch((err: unknown) => {
    if (call) reportAnswer({ ...call, status: 0 });
    throw err;
  });
  if (call) reportAnswer({ ...call, status: response.status, headers: response.headers });
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    // leaving the loop cancels the rest
    if (size > MAX_BYTES) throw new AppError('unavailable', `The answer of ${new URL(url).host} is too large.`);
    chunks.push(chunk);
  }
  const empty = response.status === 204 || response.status === 304;
  return new Response(empty ? null : Buffer.concat(chunks), { status: response.status, headers: response.headers });
}

/**
 * The header with which a client authenticates itself at a token endpoint. Percent-encodes no more than it must: Gitea
 * does not decode the hyphens of its client ids.
 */
export function basicCredentials(clientId: string, secret: string): string {
  return `Basic ${Buffer.from([clientId, secret].map(encodeURIComponent).join(':')).toString('base64')}`;
}
