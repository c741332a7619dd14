// Downloads programs. Nothing of a download is used before its SHA-256 is the expected one.

import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { AppError } from '@ropewalk/kit';

/** The maximum number of bytes of a download. Archives of Terraform have 30 MiB, programs 100 MiB. */
const MAX_BYTES = 512 << 20;
const TIMEOUT_MS = 10 * 60_000;

export interface Download {
  url: string;
  /** Lower-case hex. */
  sha256: string;
  mostBytes?: number | undefined;
  /** The limit for the whole download, in ms. Default: 10 minutes. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** A URL for messages. A query can contain a token. */
export function shownUrl(text: string): string {
  const url = new URL(text);
  return `${url.origin}${url.pathname}`;
}

/**
 * Downloads a file to a new path. Proxies and certificate authorities are those of Node.js.
 * @throws AppError `unavailable` if the download fails or the file has another SHA-256, the signal's reason if it fires.
 */
export async function download(
  { url, sha256, mostBytes = MAX_BYTES, timeoutMs = TIMEOUT_MS, signal }: Download,
  to: string,
): Promise<void> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const hash = createHash('sha256');
  const file = await open(to, 'wx', 0o600);
  try {
    const response = await fetch(url, { signal: signal ? AbortSignal.any([signal, timeout]) : timeout });
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    let size = 0;
    for await (const part of response.body as AsyncIterable<Uint8Array>) {
      size += part.length;
      if (size > mostBytes) throw new Error(`it has more than ${mostBytes} bytes`);
      hash.update(part);
      await file.appendFile(part);
    }
    await file.sync();
  } catch (err) {
    signal?.throwIfAborted();
    const why = timeout.aborted ? `it takes more than ${timeoutMs / 1000} seconds` : reason(err);
    throw new AppError('unavailable', `Could not download ${shownUrl(url)}: ${why}`, { cause: err });
  } finally {
    await file.close();
  }
  const actual = hash.digest('hex');
  if (actual !== sha256)
    throw new AppError('unavailable', `The SHA-256 of ${shownUrl(url)} is ${actual}, not ${sha256}.`);
}

/** `fetch` says only in the cause why it failed. */
function reason(err: unknown): string {
  const { message, cause } = err as Error;
  const inner = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : undefined;
  return inner ? `${message}: ${inner}` : message;
}
