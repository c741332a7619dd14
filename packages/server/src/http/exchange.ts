import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { RouteAnswer, RouteBody, RouteKey, RouteParams, RouteQuery } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { acceptWebSocket, type WebSocketConnection } from '@ropewalk/wire/websocket';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Ctx } from '../app/context/context.ts';
import { probeObserver } from '../app/context/observed-requests.ts';
import { observePings } from './heartbeat.ts';

/** The HTTP side of a request, for the few handlers that need more than the parsed input. */
export interface Exchange {
  request: FastifyRequest;
  reply: FastifyReply;
  /** Whether the caller asked for a WebSocket. */
  isUpgrade: boolean;
  /**
   * Answers 101 and returns the connection, which accepts messages as long as the kind of the route's stream allows
   * (stream-limits.ts). Fastify does not send the reply any more.
   */
  upgrade(headers?: Record<string, string>): WebSocketConnection;
}

export interface Input<K extends RouteKey> {
  params: RouteParams<K>;
  query: RouteQuery<K>;
  body: RouteBody<K>;
  http: Exchange;
}

/** A handler has three lines: unwrap, call the rule, return the contract's shape. `http.reply.code()` sets another success status. */
export type Handler<K extends RouteKey> = (ctx: Ctx, input: Input<K>) => Promise<RouteAnswer<K>> | RouteAnswer<K>;
export type Handlers<K extends RouteKey> = { [P in K]: Handler<P> };

interface PendingUpgrade {
  socket: Duplex;
  head: Buffer;
  response: ServerResponse;
}
const pending = new WeakMap<IncomingMessage, PendingUpgrade>();

/** Stores the socket of an upgrade request while the router handles it like any other request. */
export function rememberUpgrade(request: IncomingMessage, upgrade: PendingUpgrade): void {
  pending.set(request, upgrade);
}

const upgradeRequired = () => new AppError('invalid', 'This endpoint requires a WebSocket upgrade.');

/** For handlers that begin something before they call `upgrade`. @throws AppError `invalid` without an upgrade request */
export function requireUpgrade(http: Pick<Exchange, 'isUpgrade'>): void {
  if (!http.isUpgrade) throw upgradeRequired();
}

/** Whether the client asked for a WebSocket. */
export const isUpgrade = (request: IncomingMessage): boolean => pending.has(request);

export function exchange(
  request: FastifyRequest,
  reply: FastifyReply,
  { headers, maxMessageBytes }: { headers: Record<string, string>; maxMessageBytes: number },
): Exchange {
  const upgrade = pending.get(request.raw);
  return {
    request,
    reply,
    isUpgrade: upgrade !== undefined,
    upgrade(more = {}) {
      const taken = takeUpgrade(request, reply);
      if (!taken) throw upgradeRequired();
      const { socket, head } = taken;
      const options = { headers: { ...headers, ...more }, maxMessageBytes };
      const connection = acceptWebSocket(request.raw, socket, head, options);
      const observe = probeObserver(request.raw);
      if (observe) observePings(connection, observe);
      return connection;
    },
  };
}

/**
 * Takes over the socket of an upgrade request, for a protocol other than a WebSocket. The caller writes the answer.
 * Undefined if the client asked for no upgrade.
 * @throws AppError `canceled` if the client closed the connection
 */
export function takeUpgrade(
  request: FastifyRequest,
  reply: FastifyReply,
): { socket: Duplex; head: Buffer } | undefined {
  const upgrade = pending.get(request.raw);
  if (!upgrade) return undefined;
  const { socket, head, response } = upgrade;
  // a socket that has already ended emits no further event about its end
  if (socket.destroyed || socket.readableEnded) throw new AppError('canceled', 'The client closed the connection.');
  pending.delete(request.raw);
  reply.hijack();
  response.detachSocket(socket as never);
  return { socket, head };
}

/** Checks the handlers of some routes against the contract. The keys are inferred. */
export function defineHandlers<K extends RouteKey>(handlers: Handlers<K>): Handlers<K> {
  return handlers;
}
