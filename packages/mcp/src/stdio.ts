import type { Readable, Writable } from 'node:stream';
import type { McpServer } from './server.ts';
import { RPC, rpcError } from './server.ts';

/** The size of a line, in bytes. The largest argument is a file in base64. */
export const MAX_LINE = 16 * 1024 * 1024;
/** The messages that wait for an answer at a time. Later ones are read when others have theirs. */
const MAX_OPEN = 64;
/** How long calls may go on after the end of the input, in ms. */
const LAST_CALLS_MS = 5_000;

/**
 * Serves a client over two streams: one JSON message a line. Returns when the signal is aborted, or when the input has ended
 * and its calls have their answers. Calls that take longer than LAST_CALLS_MS then are canceled.
 */
export async function serveStdio(
  server: McpServer,
  { input, output, signal }: { input: Readable; output: Writable; signal: AbortSignal },
): Promise<void> {
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  const send = (answer: unknown) => {
    if (!output.destroyed) output.write(`${JSON.stringify(answer)}\n`);
  };
  // a client that went away
  output.on('error', () => ended.abort());
  const open = new Set<Promise<void>>();
  const take = (line: string) => {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      return send(rpcError(null, RPC.parse, 'The line is not JSON.'));
    }
    const work: Promise<void> = server.handle(message, until).then((answer) => {
      open.delete(work);
      if (answer !== undefined && !until.aborted) send(answer);
    });
    open.add(work);
  };
  const stop = () => input.destroy();
  until.addEventListener('abort', stop, { once: true });
  try {
    for await (const line of linesOf(input)) {
      if (line === undefined) send(rpcError(null, RPC.request, `A message can have up to ${MAX_LINE} bytes.`));
      else if (line.trim() !== '') take(line);
      // a cancellation must get through while calls run
      while (open.size >= MAX_OPEN && !until.aborted) await Promise.race(open);
    }
  } catch (err) {
    if (!until.aborted) throw err;
  } finally {
    until.removeEventListener('abort', stop);
    const timer = setTimeout(() => ended.abort(), LAST_CALLS_MS);
    await Promise.all(open);
    clearTimeout(timer);
  }
}

/** The lines of a stream of UTF-8. Undefined stands for one that is too long. */
async function* linesOf(input: Readable): AsyncGenerator<string | undefined> {
  let parts: Buffer[] = [];
  let size = 0;
  const add = (part: Buffer) => {
    size += part.length;
    if (size <= MAX_LINE) parts.push(part);
    else parts = [];
  };
  for await (const chunk of input as AsyncIterable<Buffer | string>) {
    let rest = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10)) {
      add(rest.subarray(0, at));
      yield size > MAX_LINE ? undefined : Buffer.concat(parts).toString('utf8');
      parts = [];
      size = 0;
      rest = rest.subarray(at + 1);
    }
    if (rest.length > 0) add(rest);
  }
  if (size > 0 && size <= MAX_LINE) yield Buffer.concat(parts).toString('utf8');
}
