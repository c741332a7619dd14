// Disco finds paths between two nodes: they ping each other's UDP addresses and announce new ones over the relay. Each
// process has a disco key pair. A packet is: magic (6) | the sender's disco key (32) | a box of type (u8), version (u8)
// and payload. All numbers are big-endian.
import { type Endpoint, parseAddress } from './address.ts';
import { BOX_OVERHEAD, type Box, NONCE_BYTES } from './box.ts';
import { KEY_BYTES } from './keys.ts';

const MAGIC = Buffer.from('5453f09f92ac', 'hex');
const BOX_OFFSET = MAGIC.length + KEY_BYTES;
const TYPE = { ping: 1, pong: 2, callMeMaybe: 3 } as const;
export const DISCO_TX_BYTES = 12;
const ENDPOINT_BYTES = 18;
/** Pings and pongs are padded to this payload, so that only paths for packets of full size answer. */
const PADDED_BYTES = 1_230;
const TYPE_BYTES = 2;
const OVERHEAD_BYTES = BOX_OFFSET + BOX_OVERHEAD + TYPE_BYTES;
/** Maximum number of endpoints that are read from a message. Further ones are ignored. */
export const MAX_ENDPOINTS = 64;

export type DiscoMessage =
  /**
   * `nodeKey` is absent in pings of old nodes. `tx` has 12 bytes. `datagramBytes` is the length that a ping gets when it is
   * sealed. A received ping has none.
   */
  | { type: 'ping'; tx: Buffer; nodeKey?: Buffer; datagramBytes?: number | undefined }
  /** `source` is the address from which the ping came. */
  | { type: 'pong'; tx: Buffer; source: Endpoint }
  /** The sender's addresses, to ping now. Empty: the addresses that it announced before are no longer valid. */
  | { type: 'callMeMaybe'; endpoints: Endpoint[] };

/** Whether a packet has the form of disco. Anyone can send such a packet. */
export function isDisco(packet: Uint8Array): boolean {
  return packet.length >= BOX_OFFSET + NONCE_BYTES && MAGIC.every((byte, i) => packet[i] === byte);
}

/** The disco key that a packet names as its sender's. A box with this key proves it. Undefined if it is not disco. */
export function discoSender(packet: Buffer): Buffer | undefined {
  return isDisco(packet) ? packet.subarray(MAGIC.length, BOX_OFFSET) : undefined;
}

/** `publicKey` is the sender's disco key, and `box` is between its key pair and the receiver's disco key. */
export function sealDisco(publicKey: Uint8Array, box: Box, message: DiscoMessage, nonce?: Uint8Array): Buffer {
  return Buffer.concat([MAGIC, publicKey, box.seal(encode(message), nonce)]);
}

/** Undefined if the packet is not disco, does not open or is malformed: it is then ignored. */
export function openDisco(box: Box, packet: Buffer): DiscoMessage | undefined {
  const clear = isDisco(packet) ? box.open(packet.subarray(BOX_OFFSET)) : undefined;
  return clear && decode(clear);
}

function encode(message: DiscoMessage): Buffer {
  if (message.type === 'callMeMaybe') {
    const clear = Buffer.alloc(2 + message.endpoints.length * ENDPOINT_BYTES);
    clear[0] = TYPE.callMeMaybe;
    message.endpoints.forEach((endpoint, i) => {
      writeEndpoint(clear, 2 + i * ENDPOINT_BYTES, endpoint);
    });
    return clear;
  }
  const padded =
    message.type === 'ping' && message.datagramBytes ? message.datagramBytes - OVERHEAD_BYTES : PADDED_BYTES;
  const clear = Buffer.alloc(TYPE_BYTES + padded);
  clear[0] = TYPE[message.type];
  clear[1] = 1;
  clear.set(message.tx, 2);
  if (message.type === 'pong') writeEndpoint(clear, 2 + DISCO_TX_BYTES, message.source);
  else if (message.nodeKey) clear.set(message.nodeKey, 2 + DISCO_TX_BYTES);
  return clear;
}

function decode(clear: Buffer): DiscoMessage | undefined {
  const payload = clear.subarray(2);
  const tx = payload.subarray(0, DISCO_TX_BYTES);
  const rest = payload.subarray(DISCO_TX_BYTES);
  if (clear.length < 2) return undefined;
  if (clear[0] === TYPE.callMeMaybe) {
    if (payload.length % ENDPOINT_BYTES !== 0) return undefined;
    const count = Math.min(payload.length / ENDPOINT_BYTES, MAX_ENDPOINTS);
    const endpoints = Array.from({ length: count }, (_, i) => readEndpoint(payload, i * ENDPOINT_BYTES));
    return { type: 'callMeMaybe', endpoints };
  }
  if (tx.length < DISCO_TX_BYTES) return undefined;
  if (clear[0] === TYPE.ping)
    return { type: 'ping', tx, ...(rest.length >= KEY_BYTES && { nodeKey: rest.subarray(0, KEY_BYTES) }) };
  if (clear[0] === TYPE.pong && rest.length >= ENDPOINT_BYTES)
    return { type: 'pong', tx, source: readEndpoint(rest, 0) };
  return undefined;
}

function writeEndpoint(into: Buffer, at: number, { address, port }: Endpoint): void {
  into.set(address, at);
  into.writeUInt16BE(port, at + 16);
}

function readEndpoint(from: Buffer, at: number): Endpoint {
  return { address: from.subarray(at, at + 16), port: from.readUInt16BE(at + 16) };
}

const RELAY_ADDRESS = parseAddress('127.3.3.40')!;

/** The stand-in for a UDP address that a pong over the relay of a region names as its source. */
export function relayEndpoint(region: number): Endpoint {
  return { address: RELAY_ADDRESS, port: region };
}

/** The region of such a stand-in. Undefined for a real address. */
export function relayRegionOf({ address, port }: Endpoint): number | undefined {
  return RELAY_ADDRESS.equals(address) ? port : undefined;
}
