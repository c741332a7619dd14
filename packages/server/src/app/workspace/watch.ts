import type { WebSocketConnection } from '@platform/wire/websocket';
import type { FastifyReply } from 'fastify';
import { whileAllowed } from '../allowed.ts';
import type { Ctx } from '../context.ts';
import { type Followed, follow } from '../job/logs.ts';
import { toWorkspace } from './convert.ts';
import { findWorkspace } from './find.ts';

const PING_MS = 15_000;

function changes(ctx: Ctx, id: string): Followed {
  let last = '';
  return {
    subscribe: (wake) => ctx.events.on('workspace_changed', (event) => event.workspace_id === id && wake()),
    async next() {
      const text = JSON.stringify(await toWorkspace(ctx, await findWorkspace(ctx, id, { deleted: true })));
      const messages = text === last ? [] : [text];
      last = text;
      return { messages, more: false, end: false };
    },
  };
}

/** A workspace each time it changes, as `{type: "data", data}` messages. */
export async function watchOverWebSocket(ctx: Ctx, socket: WebSocketConnection, id: string): Promise<void> {
  const source = changes(ctx, id);
  await follow(ctx, socket, {
    subscribe: source.subscribe,
    async next() {
      const { messages, ...rest } = await source.next();
      return { ...rest, messages: messages.map((text) => `{"type":"data","data":${text}}`) };
    },
  });
}

/** The same as server-sent events. */
export async function watchOverEvents(ctx: Ctx, reply: FastifyReply, id: string): Promise<void> {
  const source = changes(ctx, id);
  const { raw } = reply.hijack();
  raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
  });
  let wake = () => {};
  let closed = false;
  raw.on('close', () => {
    closed = true;
    wake();
  });
  const unsubscribe = source.subscribe(() => wake());
  const stopWatching = whileAllowed(ctx, undefined, () => raw.end());
  const off = () => {
    unsubscribe();
    stopWatching();
  };
  const ping = setInterval(() => raw.write('event: ping\n\n'), PING_MS);
  try {
    while (!closed) {
      const woken = new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 1_000);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      for (const text of (await source.next()).messages) raw.write(`event: data\ndata: ${text}\n\n`);
      await woken;
    }
  } finally {
    off();
    clearInterval(ping);
    raw.end();
  }
}
