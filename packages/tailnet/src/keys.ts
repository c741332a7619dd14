// Nodes identify themselves with X25519 keys: the node key (WireGuard and the relay) and the disco key (path discovery).
import {
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
  timingSafeEqual,
} from 'node:crypto';

export const KEY_BYTES = 32;

/** What precedes the 32 bytes of a key in DER. node:crypto takes keys only in such containers. */
const PRIVATE_DER = Buffer.from('302e020100300506032b656e04220420', 'hex');
const PUBLIC_DER = Buffer.from('302a300506032b656e032100', 'hex');

/** An X25519 key pair. The private key cannot be read. */
export class KeyPair {
  /** 32 bytes. */
  readonly publicKey: Buffer;
  readonly #privateKey: KeyObject;

  private constructor(privateKey: KeyObject, publicKey: KeyObject) {
    this.#privateKey = privateKey;
    this.publicKey = publicKey.export({ format: 'der', type: 'spki' }).subarray(PUBLIC_DER.length);
  }

  static generate(): KeyPair {
    const { privateKey, publicKey } = generateKeyPairSync('x25519');
    return new KeyPair(privateKey, publicKey);
  }

  /** The key pair of a private key of 32 bytes. */
  static fromPrivateKey(bytes: Uint8Array): KeyPair {
    if (bytes.length !== KEY_BYTES) throw new RangeError(`A private key has ${KEY_BYTES} bytes, not ${bytes.length}`);
    const privateKey = createPrivateKey({ key: Buffer.concat([PRIVATE_DER, bytes]), format: 'der', type: 'pkcs8' });
    return new KeyPair(privateKey, createPublicKey(privateKey));
  }

  /** The 32 bytes that both key pairs share. Undefined if the public key is one of those that make the result zero. */
  agree(publicKey: Uint8Array): Buffer | undefined {
    if (publicKey.length !== KEY_BYTES) return undefined;
    const key = createPublicKey({ key: Buffer.concat([PUBLIC_DER, publicKey]), format: 'der', type: 'spki' });
    try {
      return diffieHellman({ privateKey: this.#privateKey, publicKey: key });
    } catch {
      return undefined;
    }
  }
}

/** Compares two secrets in constant time. */
export function sameSecret(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

const NODE_TEXT = 'nodekey:';
const DISCO_TEXT = 'discokey:';
const NODE_BINARY = Buffer.from('np');

function parseKey(prefix: string, text: string): Buffer | undefined {
  const digits = text.startsWith(prefix) ? text.slice(prefix.length) : '';
  return /^[0-9a-f]{64}$/.test(digits) ? Buffer.from(digits, 'hex') : undefined;
}

function formatKey(prefix: string, key: Uint8Array): string {
  if (key.length !== KEY_BYTES) throw new RangeError(`A key has ${KEY_BYTES} bytes, not ${key.length}`);
  return prefix + Buffer.from(key.buffer, key.byteOffset, key.length).toString('hex');
}

/** `nodekey:` and 64 hexadecimal digits: the text of a node key. */
export const formatNodeKey = (key: Uint8Array): string => formatKey(NODE_TEXT, key);
/** Returns undefined for any other text. */
export const parseNodeKey = (text: string): Buffer | undefined => parseKey(NODE_TEXT, text);

/** `discokey:` and 64 hexadecimal digits: the text of a disco key. */
export const formatDiscoKey = (key: Uint8Array): string => formatKey(DISCO_TEXT, key);
/** Returns undefined for any other text. */
export const parseDiscoKey = (text: string): Buffer | undefined => parseKey(DISCO_TEXT, text);

/** `np` and the 32 bytes: the form of a node key in the Node message. */
export function encodeNodeKey(key: Uint8Array): Buffer {
  if (key.length !== KEY_BYTES) throw new RangeError(`A key has ${KEY_BYTES} bytes, not ${key.length}`);
  return Buffer.concat([NODE_BINARY, key]);
}

/** The 32 bytes of a node key in the Node message. Undefined for bytes of another form. */
export function decodeNodeKey(bytes: Uint8Array): Buffer | undefined {
  if (bytes.length !== NODE_BINARY.length + KEY_BYTES || bytes[0] !== NODE_BINARY[0] || bytes[1] !== NODE_BINARY[1])
    return undefined;
  return Buffer.from(bytes.subarray(NODE_BINARY.length));
}
