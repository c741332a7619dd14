import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import type { FastifyReply } from 'fastify';
import type { Ctx } from '../app/context/context.ts';
import { follow, type NamedEvent, type Outcome, type Sink, type Source } from '../app/follow/follow.ts';
import { watchSilence } from './heartbeat.ts';

const PING_MS = 15_000;

const CLOSE: Record<Outcome, [code: number, reason: string]> = {
  complete: [1000, 'end of log'],
  forbidden: [1008, 'not allowed any more'],
  failed: [1011, 'internal error'],
};

/** Follows a source over a WebSocket, each message as it is. */
export async function followAsTexts(ctx: Ctx, socket: WebSocketConnection, source: Source): Promise<void> {
  await follow(
    ctx,
    source,
    textSink(socket, (message) => message),
  );
}

/** Follows a source over a WebSocket, each message as `{"type": "data", "data": …}`. */
export async function followAsMessages(ctx: Ctx, socket: WebSocketConnection, source: Source): Promise<void> {
  await follow(
    ctx,
    source,
    textSink(socket, (message) => `{"type":"data","data":${message}}`),
  );
}

/** Follows a source as server-sent events of type `data`. */
export async function followAsEvents(ctx: Ctx, reply: FastifyReply, source: Source): Promise<void> {
  const sink = eventSink<string>(reply, (message) => `event: data\ndata: ${message}\n\n`);
  await follow(ctx, source, sink);
}

/** Follows a source as server-sent events with names and ids. */
export async function followAsNamedEvents(ctx: Ctx, reply: FastifyReply, source: Source<NamedEvent>): Promise<void> {
  const format = ({ event, id, data }: NamedEvent) => `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;
  // a browser does not report events without data, and the page watches for silence
  const sink = eventSink(reply, format, 'event: ping\ndata: {}\n\n');
  await follow(ctx, source, sink);
}

function textSink(socket: WebSocketConnection, format: (message: string) => string): Sink {
  const gone = new AbortController();
  watchSilence(socket, { pingMs: PING_MS, busy: () => socket.bufferedBytes > 0, end: (why) => socket.destroy(why) });
  // without a listener, unread messages would hold back the end of the connection
  socket.on('text', () => {});
  let ready = () => {};
  socket.on('drain', () => ready());
  socket.once('close', () => {
    gone.abort();
    ready();
  });
  return {
    gone: gone.signal,
    send(message) {
      if (socket.sendText(format(message))) return undefined;
      return new Promise<void>((resolve) => {
        ready = resolve;
      });
    },
    end(outcome) {
      socket.close(...CLOSE[outcome]);
    },
  };
}

/** Writes server-sent events, with pings so that proxies keep the connection open. */
function eventSink<Message>(
  reply: FastifyReply,
  format: (message: Message) => string,
  pingText = 'event: ping\n\n',
): Sink<Message> {
  const { raw } = reply.hijack();
  raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
  });
  raw.flushHeaders();
  const gone = new AbortController();
  const ping = setInterval(() => raw.write(pingText), PING_MS);
  let ready = () => {};
  const close = () => {
    clearInterval(ping);
    gone.abort();
    ready();
  };
  raw.on('drain', () => ready());
  if (raw.destroyed) close();
  else raw.once('close', close);
  return {
    gone: gone.signal,
    send(message) {
      if (raw.write(format(message))) return undefined;
      return new Promise<void>((resolve) => {
        ready = resolve;
      });
    },
    end(outcome) {
      clearInterval(ping);
      // a reader that takes nothing would never receive the end
      if (outcome === 'forbidden' && raw.writableNeedDrain) raw.destroy();
      else raw.end();
    },
  };
}
