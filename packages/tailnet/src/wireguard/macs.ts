// Each handshake message ends with two MACs. The first shows that its sender knows the receiver's public key. The second
// is needed only if the receiver is under load: it shows that the sender receives packets at its address, since its key
// is a cookie that the receiver sent there.
import { randomFillSync } from 'node:crypto';
import { xchacha20poly1305 } from '@noble/ciphers/chacha.js';
import { sameSecret } from '../keys.ts';
import { MACS_BYTES, MESSAGE } from './handshake.ts';
import { hash, MAC_BYTES, mac } from './primitives.ts';

export const COOKIE_REPLY_BYTES = 64;
const COOKIE_MS = 120_000;
const NONCE_BYTES = 24;

const keyOf = (label: string, publicKey: Uint8Array): Buffer => hash(Buffer.from(label), publicKey);
const firstMac = (message: Buffer): Buffer => message.subarray(-MACS_BYTES, -MAC_BYTES);

/** Writes the MACs of messages to one peer. */
export class MacWriter {
  readonly #macKey: Buffer;
  readonly #cookieKey: Buffer;
  #lastMac: Buffer | undefined;
  #cookie: { bytes: Buffer; at: number } | undefined;

  constructor(peer: Uint8Array) {
    this.#macKey = keyOf('mac1----', peer);
    this.#cookieKey = keyOf('cookie--', peer);
  }

  /** Writes the last 32 bytes of the message. `now` is a monotonic time in ms. */
  write(message: Buffer, now: number): void {
    this.#lastMac = mac(this.#macKey, message.subarray(0, -MACS_BYTES));
    message.set(this.#lastMac, message.length - MACS_BYTES);
    if (this.#cookie && now - this.#cookie.at < COOKIE_MS)
      message.set(mac(this.#cookie.bytes, message.subarray(0, -MAC_BYTES)), message.length - MAC_BYTES);
  }

  /** Takes a cookie for later messages. Returns false if it does not answer the last message. */
  takeCookie(reply: Buffer, now: number): boolean {
    if (reply.length !== COOKIE_REPLY_BYTES || !this.#lastMac) return false;
    const nonce = reply.subarray(8, 8 + NONCE_BYTES);
    try {
      const cipher = xchacha20poly1305(this.#cookieKey, nonce, this.#lastMac);
      this.#cookie = { bytes: Buffer.from(cipher.decrypt(reply.subarray(8 + NONCE_BYTES))), at: now };
    } catch {
      return false;
    }
    this.#lastMac = undefined;
    return true;
  }
}

/** Checks the MACs of messages to one key pair, and issues cookies. */
export class MacChecker {
  readonly #macKey: Buffer;
  readonly #cookieKey: Buffer;
  #secret: { bytes: Buffer; at: number } | undefined;

  constructor(own: Uint8Array) {
    this.#macKey = keyOf('mac1----', own);
    this.#cookieKey = keyOf('cookie--', own);
  }

  /** Whether the first MAC is right. Anything else is not for this key pair. */
  check(message: Buffer): boolean {
    return sameSecret(mac(this.#macKey, message.subarray(0, -MACS_BYTES)), firstMac(message));
  }

  /** Whether the second MAC is right: the sender got a cookie at `source` within the last two minutes. */
  checkCookie(message: Buffer, source: Uint8Array, now: number): boolean {
    if (!this.#secret || now - this.#secret.at >= COOKIE_MS) return false;
    const cookie = mac(this.#secret.bytes, source);
    return sameSecret(mac(cookie, message.subarray(0, -MAC_BYTES)), message.subarray(-MAC_BYTES));
  }

  /** The reply that gives the sender of this message a cookie. `secret` and `nonce` are random unless a test sets them. */
  reply(message: Buffer, source: Uint8Array, now: number, { secret, nonce } = randomCookie()): Buffer {
    if (!this.#secret || now - this.#secret.at >= COOKIE_MS) this.#secret = { bytes: secret, at: now };
    const cookie = mac(this.#secret.bytes, source);
    const reply = Buffer.alloc(COOKIE_REPLY_BYTES);
    reply[0] = MESSAGE.cookieReply;
    message.copy(reply, 4, 4, 8); // the sender's index
    reply.set(nonce, 8);
    reply.set(xchacha20poly1305(this.#cookieKey, nonce, firstMac(message)).encrypt(cookie), 8 + NONCE_BYTES);
    return reply;
  }
}

function randomCookie(): { secret: Buffer; nonce: Buffer } {
  return { secret: randomFillSync(Buffer.alloc(32)), nonce: randomFillSync(Buffer.alloc(NONCE_BYTES)) };
}
