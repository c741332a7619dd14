// The streams of connections to a relay, for servers and workspace proxies.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit';
import type { AcceptOptions, DerpRelay } from '@ropewalk/tailnet/derp/relay';
import { MAX_MESSAGE_BYTES, RELAY_SUBPROTOCOL } from '@ropewalk/tailnet/derp/websocket';
import { acceptWebSocket, byteStream, refuseUpgrade, WebSocketUpgradeError } from '@ropewalk/wire/websocket';

const PROTOCOL_VERSION = '2';
/** Maximum number of connections of one network whose keys the coordinator does not know, or does not know yet. */
export const MAX_STRANGERS_PER_NETWORK = 64;
/** The longest message of a client's WebSocket. Its bytes are read as they come. */
const MAX_RECEIVED_BYTES = 64 * 1024;

/** The protocol that an upgrade asks for, if relays have it. */
export function relayUpgradeOf({ headers }: IncomingMessage): 'derp' | 'websocket' | undefined {
  const upgrade = `${headers.upgrade ?? ''}`.toLowerCase();
  return upgrade === 'derp' || upgrade === 'websocket' ? upgrade : undefined;
}

/** Counts the strangers of each network. */
export class RelayStrangers {
  readonly #counts = new Map<string, number>();

  /** @throws AppError `rate_limited` if the network has too many */
  check(network: string): void {
    if (this.#of(network) >= MAX_STRANGERS_PER_NETWORK)
      throw new AppError('rate_limited', 'Too many new connections to the relay from this network.');
  }

  /** Counts a connection among its network's strangers until its key is introduced or the connection ends. */
  count(network: string, stream: Duplex): AcceptOptions {
    let counted = false;
    const count = (isStranger: boolean) => {
      if (isStranger === counted) return;
      counted = isStranger;
      const left = this.#of(network) + (isStranger ? 1 : -1);
      if (left > 0) this.#counts.set(network, left);
      else this.#counts.delete(network);
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
        return this.#of(network) <= MAX_STRANGERS_PER_NETWORK || !isStranger;
      },
    };
  }

  #of(network: string): number {
    return this.#counts.get(network) ?? 0;
  }
}

interface Upgrade {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
}

/** Answers an upgrade to a relay, and returns the byte stream. Undefined if the request was rejected. */
export function relayStream(
  upgrade: 'derp' | 'websocket',
  at: Upgrade,
  { publicKey }: Pick<DerpRelay, 'publicKey'>,
): Duplex | undefined {
  return upgrade === 'derp' ? plainStream(at, publicKey) : webSocketStream(at);
}

/** The socket after an upgrade to the relay's protocol. */
function plainStream({ socket, head }: Upgrade, publicKey: Buffer): Duplex {
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
function webSocketStream({ request, socket, head }: Upgrade): Duplex | undefined {
  try {
    const options = { protocol: RELAY_SUBPROTOCOL, maxMessageBytes: MAX_RECEIVED_BYTES };
    return byteStream(acceptWebSocket(request, socket, head, options), { maxMessageBytes: MAX_MESSAGE_BYTES });
  } catch (err) {
    if (!(err instanceof WebSocketUpgradeError)) throw err;
    refuseUpgrade(socket, err.status, { message: err.message }, err.headers);
    return undefined;
  }
}
