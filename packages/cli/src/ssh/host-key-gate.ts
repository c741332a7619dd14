import { Transform, type TransformCallback } from 'node:stream';
import { AppError } from '@ropewalk/kit/errors';

const KEX_REPLY = 31;
const KEX_GEX_REPLY = 33;
const NEWKEYS = 21;
/** Far above the needs of a key exchange: RFC 4253 demands 35000. */
const MAX_PACKET = 256 * 1024;
const MAX_BANNER = 64 * 1024;

/**
 * Passes the output of an SSH server on, and fails unless the server has the expected host key. In the key exchange of
 * RFC 4253 the server names its key in clear text, and the client itself verifies the signature with that key. So it is
 * enough to check the name. No part of a packet with a wrong key reaches the client. The gate blocks group exchange
 * (RFC 4419), whose messages share their numbers with other methods: agents do not offer it.
 */
export class HostKeyGate extends Transform {
  readonly #key: Buffer;
  #held: Buffer = Buffer.alloc(0);
  #inBanner = true;
  #named = false;
  #open = false;

  /** @param hostKey base64 of the key's blob. */
  constructor(hostKey: string) {
    super();
    this.#key = Buffer.from(hostKey, 'base64');
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#open) {
      done(null, chunk);
      return;
    }
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    try {
      while (!this.#open && this.#next());
    } catch (err) {
      done(err as Error);
      return;
    }
    if (this.#open && this.#held.length > 0) this.#take(this.#held.length);
    done();
  }

  /** Passes one line or packet on. False when it has not arrived completely. */
  #next(): boolean {
    if (this.#inBanner) {
      const end = this.#held.indexOf('\n');
      if (end < 0 && this.#held.length > MAX_BANNER) throw notSsh();
      if (end < 0) return false;
      this.#inBanner = this.#held.subarray(0, 4).toString('latin1') !== 'SSH-';
      this.#take(end + 1);
      return true;
    }
    if (this.#held.length < 4) return false;
    const length = this.#held.readUInt32BE(0);
    if (length < 2 || length > MAX_PACKET) throw notSsh();
    if (this.#held.length < 4 + length) return false;
    // the length of the padding and the message follow the length
    const type = this.#held[5];
    if (type === KEX_REPLY || type === KEX_GEX_REPLY) this.#check(this.#held.subarray(6, 4 + length));
    if (type === NEWKEYS) {
      if (!this.#named) throw differs();
      this.#open = true;
    }
    this.#take(4 + length);
    return true;
  }

  /** The reply's first string is the host key. Checks every reply: the client uses the first one and skips others. */
  #check(fields: Buffer): void {
    const length = fields.length < 4 ? -1 : fields.readUInt32BE(0);
    if (length !== this.#key.length || !fields.subarray(4, 4 + length).equals(this.#key)) throw differs();
    this.#named = true;
  }

  #take(length: number): void {
    this.push(this.#held.subarray(0, length));
    this.#held = this.#held.subarray(length);
  }
}

const notSsh = () => new AppError('unavailable', 'The workspace did not answer as an SSH server.');
const differs = () => new AppError('forbidden', 'SSH host key mismatch: this is not the agent of the workspace.');
