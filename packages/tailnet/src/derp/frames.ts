// DERP is the protocol of the relay: clients sign in with their node key and send each other packets by key. A frame is a
// type (u8), the length of its payload (u32) and the payload. All numbers are big-endian.
import { ByteCollector } from '@ropewalk/wire/byte-collector';
import { Box } from '../box.ts';
import { KEY_BYTES, type KeyPair } from '../keys.ts';

export const FRAME = {
  /** Server: its public key. Always the first frame. */
  serverKey: 0x01,
  /** Client: its public key and a box with a ClientInfo. */
  clientInfo: 0x02,
  /** Server: a box with a ServerInfo. The client is signed in. */
  serverInfo: 0x03,
  /** Client: the destination's key and a packet. */
  send: 0x04,
  /** Server: the source's key and a packet. It is as long as the frame that sent the packet. */
  receive: 0x05,
  /** Server: empty, so that the client notices a dead connection. */
  keepAlive: 0x06,
  /** Client: one byte, whether this relay is its home. */
  notePreferred: 0x07,
  /** Server: a key and one of GONE. */
  peerGone: 0x08,
  /** Between relays only. */
  peerPresent: 0x09,
  forward: 0x0a,
  /** Like `forward`, of a stranger to a stranger. Upstream's relays do not have it. */
  forwardStranger: 0x0b,
  watch: 0x10,
  closePeer: 0x11,
  /** Either side: 8 bytes, which a pong returns. */
  ping: 0x12,
  pong: 0x13,
  /** Server: a text that says what is wrong with the connection. Empty if nothing is. */
  health: 0x14,
  /** Server: two u32 of milliseconds, the time to wait before a new connection and the time to try for. */
  restarting: 0x15,
} as const;

/** Why a peer is gone: its last connection ended, or there is no connection with its key. */
export const GONE = { disconnected: 0, notHere: 1 } as const;

export const HEADER_BYTES = 5;
/** The header and the key that precede the packet in a frame. */
export const PACKET_OFFSET = HEADER_BYTES + KEY_BYTES;
/** The header and the two keys that precede the packet in a frame between relays. */
export const FORWARDED_OFFSET = PACKET_OFFSET + KEY_BYTES;
export const MAX_PACKET_BYTES = 65_536;
export const PING_BYTES = 8;
export const MAX_PING_BYTES = 1_000;
/** Maximum length of a frame of an unknown type, which readers skip. */
const MAX_SKIPPED_BYTES = 1024 * 1024;
const MAX_INFO_BYTES = 16 * 1024;
const MAX_HEALTH_BYTES = 16 * 1024;
const MAGIC = Buffer.from('44455250f09f9491', 'hex');
const VERSION = 2;

export type DerpErrorCode =
  | 'protocol' // The peer broke the protocol.
  | 'unauthenticated' // A box of the sign-in does not open: the peer lacks the key that it names.
  | 'timeout' // The peer was silent for too long.
  | 'closed'; // The connection ended.

/** The only error that this protocol's readers and decoders throw. */
export class DerpError extends Error {
  readonly code: DerpErrorCode;
  constructor(code: DerpErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DerpError';
    this.code = code;
  }
}

const MAX_PAYLOAD: Readonly<Record<number, number>> = {
  [FRAME.serverKey]: MAX_INFO_BYTES,
  [FRAME.clientInfo]: MAX_INFO_BYTES,
  [FRAME.serverInfo]: MAX_INFO_BYTES,
  [FRAME.send]: KEY_BYTES + MAX_PACKET_BYTES,
  [FRAME.receive]: KEY_BYTES + MAX_PACKET_BYTES,
  [FRAME.keepAlive]: 0,
  [FRAME.notePreferred]: 1,
  [FRAME.peerGone]: KEY_BYTES + 1,
  [FRAME.peerPresent]: 1024,
  [FRAME.forward]: 2 * KEY_BYTES + MAX_PACKET_BYTES,
  [FRAME.forwardStranger]: 2 * KEY_BYTES + MAX_PACKET_BYTES,
  [FRAME.watch]: 0,
  [FRAME.closePeer]: KEY_BYTES,
  [FRAME.ping]: MAX_PING_BYTES,
  [FRAME.pong]: MAX_PING_BYTES,
  [FRAME.health]: MAX_HEALTH_BYTES,
  [FRAME.restarting]: 8,
};

/**
 * Reads frames from a byte stream that arrives in pieces of any size. `onFrame` receives each known frame whole, with its
 * header. A frame that arrived in one piece is a view of that piece, which the receiver may change. Others are joined, in
 * memory that grows with the bytes that arrived, not with the announced length. Unknown types are skipped.
 */
export class DerpFrameReader {
  readonly #onFrame: (type: number, frame: Buffer) => void;
  readonly #partial = new ByteCollector(HEADER_BYTES + 2 * KEY_BYTES + MAX_PACKET_BYTES);
  /** Bytes of the partial frame that are still missing, once its header is complete. */
  #missing = 0;
  #skip = 0;
  #stopped = false;

  constructor(onFrame: (type: number, frame: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Ignores all further bytes, also the rest of a piece that is being read. */
  stop(): void {
    this.#stopped = true;
    this.#partial.clear();
  }

  /** Throws DerpError('protocol') for a frame that is too long. The reader cannot be used after that. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#stopped) {
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, chunk.length - at);
        this.#skip -= skipped;
        at += skipped;
      } else if (this.#partial.size > 0) at = this.#continue(chunk, at);
      else at = this.#begin(chunk, at);
    }
  }

  #begin(chunk: Buffer, at: number): number {
    if (chunk.length - at < HEADER_BYTES) {
      this.#partial.append(chunk.subarray(at));
      return chunk.length;
    }
    const type = chunk[at]!;
    const length = chunk.readUInt32BE(at + 1);
    if (this.#skips(type, length)) return at + HEADER_BYTES;
    const end = at + HEADER_BYTES + length;
    if (end <= chunk.length) {
      this.#onFrame(type, chunk.subarray(at, end));
      return end;
    }
    this.#partial.append(chunk.subarray(at));
    this.#missing = end - chunk.length;
    return chunk.length;
  }

  #continue(chunk: Buffer, at: number): number {
    if (this.#missing === 0) {
      const piece = chunk.subarray(at, at + HEADER_BYTES - this.#partial.size);
      this.#partial.append(piece);
      if (this.#partial.size < HEADER_BYTES) return chunk.length;
      const header = this.#partial.take();
      const length = header.readUInt32BE(1);
      if (this.#skips(header[0]!, length)) return at + piece.length;
      if (length === 0) this.#onFrame(header[0]!, header);
      else {
        this.#partial.append(header);
        this.#missing = length;
      }
      return at + piece.length;
    }
    const piece = chunk.subarray(at, at + this.#missing);
    this.#partial.append(piece);
    this.#missing -= piece.length;
    if (this.#missing === 0) {
      const frame = this.#partial.take();
      this.#onFrame(frame[0]!, frame);
    }
    return at + piece.length;
  }

  #skips(type: number, length: number): boolean {
    const max = MAX_PAYLOAD[type];
    if (length > (max ?? MAX_SKIPPED_BYTES))
      throw new DerpError(
        'protocol',
        `A frame of type ${type} has ${length} bytes: at most ${max ?? MAX_SKIPPED_BYTES}`,
      );
    if (max === undefined) this.#skip = length;
    return max === undefined;
  }
}

export function encodeFrame(type: number, ...parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length);
  writeHeader(frame, type);
  let at = HEADER_BYTES;
  for (const part of parts) {
    frame.set(part, at);
    at += part.length;
  }
  return frame;
}

function writeHeader(frame: Buffer, type: number): void {
  frame[0] = type;
  frame.writeUInt32BE(frame.length - HEADER_BYTES, 1);
}

/** The frame that sends a packet. Throws RangeError if the packet is too long. */
export function encodeSend(destination: Uint8Array, packet: Uint8Array): Buffer {
  if (packet.length > MAX_PACKET_BYTES) throw new RangeError(`A packet has at most ${MAX_PACKET_BYTES} bytes`);
  return encodeFrame(FRAME.send, destination, packet);
}

/** Turns a frame that sent a packet into the one that its destination receives, in place. */
export function turnIntoReceive(frame: Buffer, source: Uint8Array): void {
  frame[0] = FRAME.receive;
  frame.set(source, HEADER_BYTES);
}

/** The frame for the destination's relay, from a frame that sent a packet. */
export function encodeForward(
  source: Uint8Array,
  sent: Buffer,
  type: typeof FRAME.forward | typeof FRAME.forwardStranger = FRAME.forward,
): Buffer {
  return encodeFrame(type, source, sent.subarray(HEADER_BYTES));
}

/** The keys of a frame between relays, as views. */
export function decodeForward(frame: Buffer): { source: Buffer; destination: Buffer } {
  if (frame.length < FORWARDED_OFFSET) throw new DerpError('protocol', 'A forwarded frame is shorter than two keys');
  return {
    source: frame.subarray(HEADER_BYTES, PACKET_OFFSET),
    destination: frame.subarray(PACKET_OFFSET, FORWARDED_OFFSET),
  };
}

/** Turns a frame between relays into the one that its destination receives, in place, and returns that view. */
export function turnForwardIntoReceive(frame: Buffer): Buffer {
  frame.copyWithin(PACKET_OFFSET, HEADER_BYTES, PACKET_OFFSET);
  const received = frame.subarray(KEY_BYTES);
  writeHeader(received, FRAME.receive);
  return received;
}

/** The key and the packet of a frame of type send or receive, as views. */
export function decodePacket(frame: Buffer): { key: Buffer; packet: Buffer } {
  if (frame.length < PACKET_OFFSET) throw new DerpError('protocol', 'A frame with a packet is shorter than a key');
  return { key: frame.subarray(HEADER_BYTES, PACKET_OFFSET), packet: frame.subarray(PACKET_OFFSET) };
}

export function encodeServerKey(publicKey: Uint8Array): Buffer {
  return encodeFrame(FRAME.serverKey, MAGIC, publicKey);
}

export function decodeServerKey(frame: Buffer): Buffer {
  const payload = frame.subarray(HEADER_BYTES);
  if (payload.length < MAGIC.length + KEY_BYTES || !payload.subarray(0, MAGIC.length).equals(MAGIC))
    throw new DerpError('protocol', 'The first frame does not name a relay');
  return Buffer.from(payload.subarray(MAGIC.length, MAGIC.length + KEY_BYTES));
}

/** What a client says about itself. */
export interface ClientInfo {
  /** It answers pings with pongs. */
  canAckPings: boolean;
  /** It only measures the relay. */
  isProber: boolean;
}

/** What a relay says about itself. Undefined means unlimited. */
export interface ServerInfo {
  bytesPerSecond?: number;
  burstBytes?: number;
}

/** `box` is between the client's key pair and the relay's key. */
export function encodeClientInfo(publicKey: Uint8Array, box: Box, info: ClientInfo): Buffer {
  const json = { version: VERSION, CanAckPings: info.canAckPings, ...(info.isProber ? { IsProber: true } : {}) };
  return encodeFrame(FRAME.clientInfo, publicKey, box.seal(Buffer.from(JSON.stringify(json))));
}

/** Opens a client's information. That proves that the client has the private key of `key`. */
export function decodeClientInfo(server: KeyPair, frame: Buffer): { key: Buffer; box: Box; info: ClientInfo } {
  const payload = frame.subarray(HEADER_BYTES);
  if (payload.length < KEY_BYTES) throw new DerpError('protocol', 'The client information is shorter than a key');
  const key = Buffer.from(payload.subarray(0, KEY_BYTES));
  const box = Box.between(server, key);
  const values = openJson(box, payload.subarray(KEY_BYTES));
  return {
    key,
    box: box!,
    info: { canAckPings: values['CanAckPings'] === true, isProber: values['IsProber'] === true },
  };
}

export function encodeServerInfo(box: Box, info: ServerInfo): Buffer {
  const json = {
    version: VERSION,
    TokenBucketBytesPerSecond: info.bytesPerSecond,
    TokenBucketBytesBurst: info.burstBytes,
  };
  return encodeFrame(FRAME.serverInfo, box.seal(Buffer.from(JSON.stringify(json))));
}

export function decodeServerInfo(box: Box, frame: Buffer): ServerInfo {
  const values = openJson(box, frame.subarray(HEADER_BYTES));
  const positive = (value: unknown) => (typeof value === 'number' && value > 0 ? value : undefined);
  const bytesPerSecond = positive(values['TokenBucketBytesPerSecond']);
  const burstBytes = positive(values['TokenBucketBytesBurst']);
  return { ...(bytesPerSecond && { bytesPerSecond }), ...(burstBytes && { burstBytes }) };
}

function openJson(box: Box | undefined, sealed: Buffer): Record<string, unknown> {
  const clear = box?.open(sealed);
  if (!clear) throw new DerpError('unauthenticated', 'The box of the sign-in does not open');
  let value: unknown;
  try {
    value = JSON.parse(clear.toString('utf8'));
  } catch (cause) {
    throw new DerpError('protocol', 'The box of the sign-in does not contain JSON', { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new DerpError('protocol', 'The box of the sign-in does not contain a JSON object');
  return value as Record<string, unknown>;
}

export function encodePeerGone(key: Uint8Array, reason: number): Buffer {
  return encodeFrame(FRAME.peerGone, key, Buffer.from([reason]));
}

/** A reason that is absent, as in old relays, counts as disconnected. */
export function decodePeerGone(frame: Buffer): { key: Buffer; reason: number } {
  if (frame.length < PACKET_OFFSET) throw new DerpError('protocol', 'A frame about a peer is shorter than a key');
  return {
    key: Buffer.from(frame.subarray(HEADER_BYTES, PACKET_OFFSET)),
    reason: frame[PACKET_OFFSET] ?? GONE.disconnected,
  };
}

/** The first 8 bytes of a ping or pong. */
export function decodePing(frame: Buffer): Buffer {
  if (frame.length < HEADER_BYTES + PING_BYTES) throw new DerpError('protocol', 'A ping has fewer than 8 bytes');
  return Buffer.from(frame.subarray(HEADER_BYTES, HEADER_BYTES + PING_BYTES));
}

/** When a stopping relay wants its clients back, in milliseconds from now. */
export interface Restart {
  reconnectInMs: number;
  tryForMs: number;
}

export function encodeRestarting({ reconnectInMs, tryForMs }: Restart): Buffer {
  const payload = Buffer.allocUnsafe(8);
  payload.writeUInt32BE(reconnectInMs, 0);
  payload.writeUInt32BE(tryForMs, 4);
  return encodeFrame(FRAME.restarting, payload);
}

export function decodeRestarting(frame: Buffer): Restart {
  if (frame.length < HEADER_BYTES + 8) throw new DerpError('protocol', 'A restart has fewer than 8 bytes');
  return { reconnectInMs: frame.readUInt32BE(HEADER_BYTES), tryForMs: frame.readUInt32BE(HEADER_BYTES + 4) };
}
