// The relay of the tailnet. It asks for no credential: a client proves only that it has the key that it names, and the
// relay forwards between keys that the coordinator introduced to each other.
import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit';
import { MAX_MESSAGE_BYTES, RELAY_SUBPROTOCOL } from '@ropewalk/tailnet/derp/websocket';
import { acceptWebSocket, byteStream, refuseUpgrade, WebSocketUpgradeError } from '@ropewalk/wire/websocket';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { networkOf } from '../app/values/network.ts';
import type { TailnetHub } from '../rpc/tailnet/hub.ts';
import type { ClientAddress } from './client-address.ts';
import { takeUpgrade } from './exchange.ts';

const PROTOCOL_VERSION = '2';
/** Maximum number of connections of one network whose keys the coordinator does not know, or does not know yet. */
export const MAX_STRANGERS_PER_NETWORK = 64;
/** The longest message of a client's WebSocket. Its bytes are read as they come. */
const MAX_RECEIVED_BYTES = 64 * 1024;

/** Serves the relay, and the route with which clients measure the way to it. */
export function relayRoutes(
  app: FastifyInstance,
  { hub, clientAddress }: { hub: TailnetHub; clientAddress: ClientAddress },
): void {
  const strangers = new Map<string, number>();
  app.get('/derp/latency-check', async (_request, reply) => reply.code(200).send());
  app.get('/derp', async (request, reply) => {
    if (!hub.services.config.derpServerEnable)
      throw new AppError('not_found', 'This server runs no relay. Its DERP map lists the ones to use.');
    const upgrade = `${request.headers.upgrade ?? ''}`.toLowerCase();
    if (upgrade !== 'derp' && upgrade !== 'websocket')
      return reply.code(426).header('upgrade', 'DERP').type('text/plain').send('DERP requires connection upgrade\n');
    const network = networkOf(clientAddress(request.raw));
    if ((strangers.get(network) ?? 0) >= MAX_STRANGERS_PER_NETWORK)
      throw new AppError('rate_limited', 'Too many new connections to the relay from this network.');
    const { relay } = await hub.load();
    const stream = upgrade === 'derp' ? plainStream(request, reply, relay.publicKey) : webSocketStream(request, reply);
    if (stream) await relay.accept(stream, countStrangers(strangers, network, stream));
    return reply;
  });
}

/** Counts a connection among its network's strangers until its key is introduced or the connection ends. */
function countStrangers(strangers: Map<string, number>, network: string, stream: Duplex) {
  let counted = false;
  const count = (isStranger: boolean) => {
    if (isStranger === counted) return;
    counted = isStranger;
    const left = (strangers.get(network) ?? 0) + (isStranger ? 1 : -1);
    if (left > 0) strangers.set(network, left);
    else strangers.delete(network);
  };
  count(true);
  let ended = false;
  stream.once('close', () => {
    ended = true;
    count(false);
  });
  return {
    onStranger: (isStranger: boolean) => {
      if (!ended) count(isStranger);
      return (strangers.get(network) ?? 0) <= MAX_STRANGERS_PER_NETWORK || !isStranger;
    },
  };
}

/** The socket after an upgrade to the relay's protocol. */
function plainStream(request: FastifyRequest, reply: FastifyReply, publicKey: Buffer): Duplex {
  const { socket, head } = takeUpgrade(request, reply)!;
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    'Upgrade: DERP',
    'Connection: Upgrade',
    `Derp-Version: ${PROTOCOL_VERSION}`,
    `Derp-Public-Key: ${publicKey.toString('hex')}`,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  if (head.length > 0) socket.unshift(head);
  return socket;
}

/** The byte stream of a WebSocket. Undefined if the request was rejected. */
function webSocketStream(request: FastifyRequest, reply: FastifyReply): Duplex | undefined {
  const { socket, head } = takeUpgrade(request, reply)!;
  try {
    const options = { protocol: RELAY_SUBPROTOCOL, maxMessageBytes: MAX_RECEIVED_BYTES };
    return byteStream(acceptWebSocket(request.raw, socket, head, options), { maxMessageBytes: MAX_MESSAGE_BYTES });
  } catch (err) {
    if (!(err instanceof WebSocketUpgradeError)) throw err;
    refuseUpgrade(socket, err.status, { message: err.message }, err.headers);
    return undefined;
  }
}
