import { once } from 'node:events';
import type { FastifyReply } from 'fastify';
import { type Permission, whileAllowed } from '../app/context/allowed.ts';
import type { Ctx } from '../app/context/context.ts';

/**
 * Answers with one JSON object per line, part by part, no faster than the client reads. The head is sent with the first
 * part, so that an error before it becomes an ordinary answer. Later errors, and the loss of the permission, cut the
 * connection: the client sees that the download is not complete.
 */
export async function sendLines(
  ctx: Ctx,
  reply: FastifyReply,
  { name, parts, permission }: { name: string; parts: AsyncIterable<object[]>; permission: Permission },
): Promise<void> {
  const iterator = parts[Symbol.asyncIterator]();
  let next = await iterator.next();
  const { raw } = reply.hijack();
  raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'application/x-ndjson; charset=utf-8',
    'content-disposition': `attachment; filename="${name}"`,
    'cache-control': 'no-store',
  });
  const closed = new AbortController();
  raw.once('close', () => closed.abort());
  const stopWatching = whileAllowed(ctx, permission, () => raw.destroy());
  try {
    for (; !next.done; next = await iterator.next()) {
      if (raw.destroyed) return;
      const text = next.value.map((value) => `${JSON.stringify(value)}\n`).join('');
      if (!raw.write(text)) await once(raw, 'drain', { signal: closed.signal });
    }
    raw.end();
  } catch {
    raw.destroy();
  } finally {
    stopWatching();
    await iterator.return?.();
  }
}
