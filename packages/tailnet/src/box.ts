// The NaCl box: what one key pair seals, only the other opens, and it knows who sealed it. The relay's sign-in and disco
// packets use it. Layout of sealed bytes: nonce (24) | tag (16) | ciphertext.
import { randomFillSync } from 'node:crypto';
import { hsalsa, xsalsa20poly1305 } from '@noble/ciphers/salsa.js';
import type { KeyPair } from './keys.ts';

export const NONCE_BYTES = 24;
const TAG_BYTES = 16;
/** Sealed bytes are longer than the clear ones by this number. */
export const BOX_OVERHEAD = NONCE_BYTES + TAG_BYTES;

/** The box between one's own key pair and a peer's public key. The costly agreement happens once, in `between`. */
export class Box {
  readonly #key: Uint8Array;

  private constructor(key: Uint8Array) {
    this.#key = key;
  }

  /** Undefined if no secret can be shared with this public key. */
  static between(own: KeyPair, peer: Uint8Array): Box | undefined {
    const shared = own.agree(peer);
    return shared && new Box(boxKey(shared));
  }

  /** `nonce` is random unless a test sets it. */
  seal(clear: Uint8Array, nonce: Uint8Array = randomFillSync(Buffer.allocUnsafe(NONCE_BYTES))): Buffer {
    const sealed = Buffer.allocUnsafe(BOX_OVERHEAD + clear.length);
    sealed.set(nonce, 0);
    sealed.set(xsalsa20poly1305(this.#key, nonce).encrypt(clear), NONCE_BYTES);
    return sealed;
  }

  /** The clear bytes. Undefined if anyone else sealed these bytes or changed them. */
  open(sealed: Uint8Array): Buffer | undefined {
    if (sealed.length < BOX_OVERHEAD) return undefined;
    try {
      const opened = xsalsa20poly1305(this.#key, sealed.subarray(0, NONCE_BYTES)).decrypt(sealed.subarray(NONCE_BYTES));
      return Buffer.from(opened.buffer, opened.byteOffset, opened.length);
    } catch {
      return undefined;
    }
  }
}

const SIGMA = littleEndianWords(Buffer.from('expand 32-byte k'));

/** HSalsa20 of a shared secret of 32 bytes with a nonce of zeros. */
export function boxKey(shared: Uint8Array): Buffer {
  const words = new Uint32Array(8);
  hsalsa(SIGMA, littleEndianWords(shared), new Uint32Array(4), words);
  const key = Buffer.allocUnsafe(32);
  words.forEach((word, i) => {
    key.writeUInt32LE(word, 4 * i);
  });
  return key;
}

function littleEndianWords(bytes: Uint8Array): Uint32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Uint32Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(4 * i, true));
}
