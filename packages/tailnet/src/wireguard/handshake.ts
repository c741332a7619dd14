// The handshake: the initiator's message of 148 bytes, the responder's of 92, after which both have two keys. The last 32
// bytes of each message are its two MACs, which macs.ts writes. Numbers are little-endian.
import { KEY_BYTES, KeyPair, sameSecret } from '../keys.ts';
import { derive, hash, open, seal, TAG_BYTES } from './primitives.ts';

export const MESSAGE = { initiation: 1, response: 2, cookieReply: 3, data: 4 } as const;
export const INITIATION_BYTES = 148;
export const RESPONSE_BYTES = 92;
export const MACS_BYTES = 32;
export const TIMESTAMP_BYTES = 12;

const CONSTRUCTION = 'Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s';
const IDENTIFIER = 'WireGuard v1 zx2c4 Jason@zx2c4.com';
export const INITIAL_CHAIN_KEY: Buffer = hash(Buffer.from(CONSTRUCTION));
export const INITIAL_HASH: Buffer = hash(INITIAL_CHAIN_KEY, Buffer.from(IDENTIFIER));
const EMPTY = Buffer.alloc(0);
/** The tailnet uses no pre-shared keys. */
const PRESHARED_KEY = Buffer.alloc(KEY_BYTES);

/** Both static keys of a pair of peers, and the secret that they share. */
export class StaticKeys {
  readonly own: KeyPair;
  readonly peer: Buffer;
  readonly shared: Buffer;

  private constructor(own: KeyPair, peer: Buffer, shared: Buffer) {
    this.own = own;
    this.peer = peer;
    this.shared = shared;
  }

  /** Undefined if no secret can be shared with this public key. */
  static between(own: KeyPair, peer: Uint8Array): StaticKeys | undefined {
    const shared = own.agree(peer);
    return shared && new StaticKeys(own, Buffer.from(peer), shared);
  }
}

/** What both sides know in the middle of a handshake. */
export interface HandshakeState {
  chainKey: Buffer;
  hash: Buffer;
}

/** An initiation that waits for its response. */
export interface Initiated extends HandshakeState {
  index: number;
  ephemeral: KeyPair;
}

/** An initiation that was read and deserves a response. */
export interface Consumed extends HandshakeState {
  /** The initiator's index. */
  index: number;
  ephemeral: Buffer;
  timestamp: Buffer;
}

/** The result of a handshake. */
export interface SessionKeys {
  send: Buffer;
  receive: Buffer;
}

/** The message is complete except for its MACs. */
export function createInitiation(
  keys: StaticKeys,
  index: number,
  timestamp: Uint8Array,
  ephemeral: KeyPair = KeyPair.generate(),
): { message: Buffer; state: Initiated } | undefined {
  const message = Buffer.alloc(INITIATION_BYTES);
  message[0] = MESSAGE.initiation;
  message.writeUInt32LE(index, 4);
  message.set(ephemeral.publicKey, 8);
  let chainKey = derive(INITIAL_CHAIN_KEY, ephemeral.publicKey)[0];
  let state = hash(hash(INITIAL_HASH, keys.peer), ephemeral.publicKey);
  const shared = ephemeral.agree(keys.peer);
  if (!shared) return undefined;
  const [forStatic, staticKey] = derive(chainKey, shared);
  const sealedStatic = seal(staticKey, keys.own.publicKey, state);
  message.set(sealedStatic, 40);
  state = hash(state, sealedStatic);
  const [forTimestamp, timestampKey] = derive(forStatic, keys.shared);
  chainKey = forTimestamp;
  const sealedTimestamp = seal(timestampKey, timestamp, state);
  message.set(sealedTimestamp, 88);
  state = hash(state, sealedTimestamp);
  return { message, state: { chainKey, hash: state, index, ephemeral } };
}

/** Undefined if the message does not come from the peer. Its MACs and its timestamp are the caller's to check. */
export function consumeInitiation(keys: StaticKeys, message: Buffer): Consumed | undefined {
  if (message.length !== INITIATION_BYTES || message.readUInt32LE(0) !== MESSAGE.initiation) return undefined;
  const ephemeral = Buffer.from(message.subarray(8, 40));
  const sealedStatic = message.subarray(40, 88);
  const sealedTimestamp = message.subarray(88, 88 + TIMESTAMP_BYTES + TAG_BYTES);
  const shared = keys.own.agree(ephemeral);
  if (!shared) return undefined;
  let state = hash(hash(INITIAL_HASH, keys.own.publicKey), ephemeral);
  const [forStatic, staticKey] = derive(derive(INITIAL_CHAIN_KEY, ephemeral)[0], shared);
  const peer = open(staticKey, 0, sealedStatic, state);
  if (!peer || !sameSecret(peer, keys.peer)) return undefined;
  state = hash(state, sealedStatic);
  const [chainKey, timestampKey] = derive(forStatic, keys.shared);
  const timestamp = open(timestampKey, 0, sealedTimestamp, state);
  if (!timestamp) return undefined;
  return { chainKey, hash: hash(state, sealedTimestamp), index: message.readUInt32LE(4), ephemeral, timestamp };
}

/** The message is complete except for its MACs. Undefined if no secret can be shared with the initiator's ephemeral key. */
export function createResponse(
  keys: StaticKeys,
  consumed: Consumed,
  index: number,
  ephemeral: KeyPair = KeyPair.generate(),
): { message: Buffer; keys: SessionKeys; state: HandshakeState } | undefined {
  const withEphemeral = ephemeral.agree(consumed.ephemeral);
  const withStatic = ephemeral.agree(keys.peer);
  if (!withEphemeral || !withStatic) return undefined;
  const { chainKey, state, key } = mixResponse(consumed, ephemeral.publicKey, withEphemeral, withStatic);
  const message = Buffer.alloc(RESPONSE_BYTES);
  message[0] = MESSAGE.response;
  message.writeUInt32LE(index, 4);
  message.writeUInt32LE(consumed.index, 8);
  message.set(ephemeral.publicKey, 12);
  const sealed = seal(key, EMPTY, state);
  message.set(sealed, 44);
  const [receive, send] = derive(chainKey);
  return { message, keys: { send, receive }, state: { chainKey, hash: hash(state, sealed) } };
}

/** Undefined if the message is not the peer's response to this initiation. Its MACs are the caller's to check. */
export function consumeResponse(
  keys: StaticKeys,
  initiated: Initiated,
  message: Buffer,
): { keys: SessionKeys; index: number; state: HandshakeState } | undefined {
  if (message.length !== RESPONSE_BYTES || message.readUInt32LE(0) !== MESSAGE.response) return undefined;
  if (message.readUInt32LE(8) !== initiated.index) return undefined;
  const ephemeral = message.subarray(12, 44);
  const sealed = message.subarray(44, 44 + TAG_BYTES);
  const withEphemeral = initiated.ephemeral.agree(ephemeral);
  const withStatic = keys.own.agree(ephemeral);
  if (!withEphemeral || !withStatic) return undefined;
  const { chainKey, state, key } = mixResponse(initiated, ephemeral, withEphemeral, withStatic);
  if (!open(key, 0, sealed, state)) return undefined;
  const [send, receive] = derive(chainKey);
  return {
    keys: { send, receive },
    index: message.readUInt32LE(4),
    state: { chainKey, hash: hash(state, sealed) },
  };
}

function mixResponse(
  { chainKey, hash: state }: HandshakeState,
  ephemeral: Uint8Array,
  withEphemeral: Buffer,
  withStatic: Buffer,
): { chainKey: Buffer; state: Buffer; key: Buffer } {
  const mixed = derive(derive(derive(chainKey, ephemeral)[0], withEphemeral)[0], withStatic)[0];
  const [last, toHash, key] = derive(mixed, PRESHARED_KEY);
  return { chainKey: last, state: hash(hash(state, ephemeral), toHash), key };
}

/** TAI64N (12 bytes) of a time in ms since 1970, plus nanoseconds. */
export function timestampOf(ms: number, nanoseconds = 0): Buffer {
  const timestamp = Buffer.alloc(TIMESTAMP_BYTES);
  const seconds = Math.floor(ms / 1_000);
  timestamp.writeBigUInt64BE(2n ** 62n + 10n + BigInt(seconds), 0);
  timestamp.writeUInt32BE((ms - seconds * 1_000) * 1_000_000 + nanoseconds, 8);
  return timestamp;
}
