import type { ServerResponse } from 'node:http';
import { errorText } from '@platform/kit';
import type { WebSocketConnection } from '@platform/wire/websocket';
import type { FastifyReply } from 'fastify';
import { whileAllowed } from './allowed.ts';
import type { Ctx } from './context.ts';
import { type Followed, follow } from './job/logs.ts';

const PING_MS = 15_000;
const LOOK_AGAIN_MS = 1_000;

/** Answers with server-sent events, and with pings that keep proxies from closing it until they are stopped. */
export function openEventStream(reply: FastifyReply): { raw: ServerResponse; stopPings: () => void } {
  const { raw } = reply.hijack();
  raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
  });
  raw.flushHeaders();
  const ping = setInterval(() => raw.write('event: ping\n\n'), PING_MS);
  const stopPings = () => clearInterval(ping);
  raw.once('close', stopPings);
  return { raw, stopPings };
}

/** What is followed as `{type: "data", data}` messages over a WebSocket, at the reader's pace. */
export function followAsMessages(ctx: Ctx, socket: WebSocketConnection, source: Followed): Promise<void> {
  return follow(ctx, socket, {
    ...source,
    async next() {
      const { messages, ...rest } = await source.next();
      return { ...rest, messages: messages.map((text) => `{"type":"data","data":${text}}`) };
    },
  });
}

/** What is followed as server-sent events of type `data`, at the reader's pace. Never rejects. */
export async function followAsEvents(ctx: Ctx, reply: FastifyReply, source: Followed): Promise<void> {
  const { raw, stopPings } = openEventStream(reply);
  let wake = () => {};
  let closed = false;
  let again = false;
  raw.on('close', () => {
    closed = true;
    wake();
  });
  const unsubscribe = source.subscribe(() => {
    again = true;
    wake();
  });
  const stopWatching = whileAllowed(ctx, source.permission, () => {
    // nothing may be written after an end; who takes nothing would never see it, either
    if (raw.writableNeedDrain) raw.destroy();
    closed = true;
    wake();
  });
  try {
    while (!closed) {
      again = false;
      const { messages, more, end } = await source.next();
      for (const text of messages) {
        if (closed || raw.write(`event: data\ndata: ${text}\n\n`)) continue;
        await new Promise<void>((resolve) => {
          raw.once('drain', resolve);
          raw.once('close', resolve);
        });
      }
      if (end) break;
      if (more || again) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, LOOK_AGAIN_MS);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
        if (closed || again) wake();
      });
    }
  } catch (err) {
    ctx.log.warn('following failed', { err: errorText(err) });
  } finally {
    unsubscribe();
    stopWatching();
    stopPings();
    raw.end();
  }
}
