import { Transform, type TransformCallback } from 'node:stream';
import { AppError } from '@platform/kit/errors';

const KEX_REPLY = 31;
const KEX_GEX_REPLY = 33;
const NEWKEYS = 21;
/** Far above what a key exchange needs, RFC 4253 asks for 35000. */
const MAX_PACKET = 256 * 1024;
const MAX_BANNER = 64 * 1024;

/**
 * Passes on what an SSH server sends, and errors unless the server proves to hold the one host key it may have.
 * The key exchange of RFC 4253 names the key in clear, and the client ends the connection itself where the server has
 * signed with another key than it named; so that the name is all that there is to check. Nothing of a packet with a
 * wrong key reaches the client. Group exchange (RFC 4419), whose messages share their numbers with other methods, does
 * not pass: agents do not offer it.
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

  /** Passes on one line or packet; false when it is not there as a whole. */
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
    // after the length comes the length of the padding, then the message
    const type = this.#held[5];
    if (type === KEX_REPLY || type === KEX_GEX_REPLY) this.#check(this.#held.subarray(6, 4 + length));
    if (type === NEWKEYS) {
      if (!this.#named) throw differs();
      this.#open = true;
    }
    this.#take(4 + length);
    return true;
  }

  /** The reply's first string is the host key. Every reply counts: the client takes the first, and skips others. */
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

const notSsh = () => new AppError('unavailable', 'What answers in the workspace does not speak SSH.');
const differs = () =>
  new AppError('forbidden', 'What answers is not the agent of this workspace: its SSH host key differs.');
