// A session is the result of one handshake: a key for each direction. Data messages: type (4 bytes) | the receiver's
// index (u32) | counter (u64) | sealed packet. Numbers are little-endian.
import { allocatePacket } from '../packet-memory.ts';
import { MESSAGE, type SessionKeys } from './handshake.ts';
import { MAX_COUNTER, open, sealInPlace, TAG_BYTES } from './primitives.ts';
import { ReplayWindow } from './replay-window.ts';

/** The longest packet that each path carries. */
export const MTU = 1_280;
/** The longest packet on direct paths that carry more, such as links with frames of 9,000 bytes. A multiple of 16. */
export const MAX_PACKET_BYTES = 8_928;
const DATA_HEADER_BYTES = 16;
/** By so much a data message is longer than its padded packet. */
export const DATA_OVERHEAD_BYTES: number = DATA_HEADER_BYTES + TAG_BYTES;
/** A data message without a packet. */
export const KEEPALIVE_BYTES: number = DATA_OVERHEAD_BYTES;
/** Padding hides the exact length of packets. */
export const PADDING_MULTIPLE = 16;

/** The number of zeros after a packet of this length. A packet of full length has none. */
export function paddingOf(length: number): number {
  return Math.max(0, Math.min(Math.ceil(length / PADDING_MULTIPLE) * PADDING_MULTIPLE, MAX_PACKET_BYTES) - length);
}

export class Session {
  readonly index: number;
  readonly peerIndex: number;
  readonly isInitiator: boolean;
  /** A monotonic time in ms. */
  readonly since: number;
  readonly #keys: SessionKeys;
  readonly #replay = new ReplayWindow();
  #counter = 0;

  constructor(options: { index: number; peerIndex: number; isInitiator: boolean; since: number; keys: SessionKeys }) {
    this.index = options.index;
    this.peerIndex = options.peerIndex;
    this.isInitiator = options.isInitiator;
    this.since = options.since;
    this.#keys = options.keys;
  }

  /** The data message with a packet of up to MAX_PACKET_BYTES. An empty packet is a keepalive. */
  seal(packet: Uint8Array): Buffer {
    const padding = paddingOf(packet.length);
    const message = allocatePacket(DATA_HEADER_BYTES + packet.length + padding + TAG_BYTES);
    message.writeUInt32LE(MESSAGE.data, 0);
    message.writeUInt32LE(this.peerIndex, 4);
    message.writeUInt32LE(this.#counter % 2 ** 32, 8);
    message.writeUInt32LE(Math.floor(this.#counter / 2 ** 32), 12);
    message.set(packet, DATA_HEADER_BYTES);
    message.fill(0, DATA_HEADER_BYTES + packet.length);
    sealInPlace(message.subarray(DATA_HEADER_BYTES), this.#keys.send, this.#counter++);
    return message;
  }

  /** The packet with its padding. Undefined if the message is not the peer's, or was opened before. */
  open(message: Buffer): Buffer | undefined {
    if (message.length < KEEPALIVE_BYTES) return undefined;
    const counter = message.readUInt32LE(12) * 2 ** 32 + message.readUInt32LE(8);
    if (counter > MAX_COUNTER) return undefined;
    const packet = open(this.#keys.receive, counter, message.subarray(DATA_HEADER_BYTES));
    return packet && this.#replay.accept(counter) ? packet : undefined;
  }

  /** Forgets the keys. The session cannot be used after that. */
  wipe(): void {
    this.#keys.send.fill(0);
    this.#keys.receive.fill(0);
  }
}

/** The index of the session for which a data message is. */
export function indexOfData(message: Buffer): number {
  return message.readUInt32LE(4);
}

/** The IP packet without its padding. Undefined if it is not a whole IP packet. */
export function trimPacket(padded: Buffer): Buffer | undefined {
  const version = padded.length > 0 ? padded[0]! >> 4 : 0;
  if (version === 6 && padded.length >= 40) {
    const length = 40 + padded.readUInt16BE(4);
    return length <= padded.length ? padded.subarray(0, length) : undefined;
  }
  if (version === 4 && padded.length >= 20) {
    const length = padded.readUInt16BE(2);
    return length >= 20 && length <= padded.length ? padded.subarray(0, length) : undefined;
  }
  return undefined;
}
