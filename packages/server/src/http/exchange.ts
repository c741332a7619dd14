import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { RouteAnswer, RouteBody, RouteKey, RouteParams, RouteQuery } from '@platform/contract';
import { AppError } from '@platform/kit';
import { acceptWebSocket, type WebSocketConnection } from '@platform/wire/websocket';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Ctx } from '../app/context.ts';

/** What a handler sees of HTTP beside its parsed input. Few need it. */
export interface Exchange {
  request: FastifyRequest;
  reply: FastifyReply;
  /** Whether the caller asked for a WebSocket. */
  isUpgrade: boolean;
  /** Answers 101 and hands over the connection; the reply is then no longer Fastify's. */
  upgrade(headers?: Record<string, string>): WebSocketConnection;
}

export interface Input<K extends RouteKey> {
  params: RouteParams<K>;
  query: RouteQuery<K>;
  body: RouteBody<K>;
  http: Exchange;
}

/** Three lines: unwrap, call the rule, give back the contract's shape. `http.reply.code()` picks another success status. */
export type Handler<K extends RouteKey> = (ctx: Ctx, input: Input<K>) => Promise<RouteAnswer<K>> | RouteAnswer<K>;
export type Handlers<K extends RouteKey> = { [P in K]: Handler<P> };

interface PendingUpgrade {
  socket: Duplex;
  head: Buffer;
  response: ServerResponse;
}
const pending = new WeakMap<IncomingMessage, PendingUpgrade>();

/** Remembers the socket of an upgrade request while it runs through the router like any other request. */
export function rememberUpgrade(request: IncomingMessage, upgrade: PendingUpgrade): void {
  pending.set(request, upgrade);
}

export function exchange(request: FastifyRequest, reply: FastifyReply, headers: Record<string, string>): Exchange {
  const upgrade = pending.get(request.raw);
  return {
    request,
    reply,
    isUpgrade: upgrade !== undefined,
    upgrade(more = {}) {
      if (!upgrade) throw new AppError('invalid', 'This route is a WebSocket: ask for an upgrade.');
      const { socket, head, response } = upgrade;
      // one that has ended already would never tell it to who waits for its end
      if (socket.destroyed || socket.readableEnded) throw new AppError('canceled', 'The client closed the connection.');
      pending.delete(request.raw);
      reply.hijack();
      response.detachSocket(socket as never);
      return acceptWebSocket(request.raw, socket, head, { headers: { ...headers, ...more } });
    },
  };
}

/** Handlers of some routes, checked against the contract; the keys are inferred. */
export function defineHandlers<K extends RouteKey>(handlers: Handlers<K>): Handlers<K> {
  return handlers;
}
