// The speed test of upstream's command: a line of JSON with the direction and the time, an answer, then random bytes in the
// one direction. The sender ends the connection.
import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { readPreamble } from '@ropewalk/wire/tunnel';
import { sendBlocks } from '../services/speedtest.ts';

const VERSION = 2;
const DOWNLOAD = 0;
const UPLOAD = 1;
const MAX_REQUEST_BYTES = 4_096;
const BLOCK_BYTES = 2 * 1024 * 1024;
const MAX_MS = 10 * 60_000;
const REQUEST_MS = 10_000;
const NS_PER_MS = 1e6;
const NEWLINE = 0x0a;

/** Serves one test, and ends with the stream. */
export async function serveSpeedtest(stream: Duplex): Promise<void> {
  const line = await readPreamble(stream, lineLength, { timeoutMs: REQUEST_MS });
  const request = parse(line.toString('utf8'));
  if (typeof request === 'string') {
    stream.end(`${JSON.stringify({ error: request })}\n`);
    stream.resume();
    return;
  }
  stream.write('{}\n');
  if (request.direction === DOWNLOAD) sendBlocks(stream, request.ms, randomBytes(BLOCK_BYTES));
  else receive(stream);
}

/** The length up to and with the end of the first line: one more byte than there are while it has not come. */
function lineLength(head: Buffer): number {
  const end = head.indexOf(NEWLINE);
  if (end >= 0) return end + 1;
  if (head.length >= MAX_REQUEST_BYTES) throw new RangeError('the request for a speed test is too long');
  return head.length + 1;
}

/** The request, or what is wrong with it. */
function parse(line: string): { direction: number; ms: number } | string {
  let request: { version?: unknown; time?: unknown; direction?: unknown };
  try {
    request = (JSON.parse(line) ?? {}) as typeof request;
  } catch {
    return 'the request is not JSON';
  }
  const { version, time, direction } = request;
  if (version !== VERSION) return `only version ${VERSION} is supported`;
  if (direction !== DOWNLOAD && direction !== UPLOAD) return 'the direction must be 0 or 1';
  const ms = Number(time) / NS_PER_MS;
  if (!(ms > 0 && ms <= MAX_MS)) return `the time must be up to ${MAX_MS} ms`;
  return { direction, ms };
}

function receive(stream: Duplex): void {
  stream.on('end', () => stream.end());
  stream.resume();
}
