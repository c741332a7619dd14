import { ResumeError } from './error.ts';

/** The types of frames. A frame is one byte of type, three bytes of length (big endian), and its payload. */
export const FRAME = { data: 0, ack: 1, fin: 2, ping: 3, pong: 4, close: 5 } as const;

const HEADER = 4;
/** The size of an ack: how many bytes have arrived and up to where the peer may send, 64 bits each. */
const ACK_BYTES = 16;

/** The payload length of each type. Data has the length in its header. */
const LENGTHS: Record<number, number> = {
  [FRAME.ack]: ACK_BYTES,
  [FRAME.fin]: 0,
  [FRAME.ping]: 8,
  [FRAME.pong]: 8,
  [FRAME.close]: 0,
};

export function encodeHeader(type: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER);
  header.writeUInt32BE(length, 0);
  header[0] = type;
  return header;
}

export function encodeAck(received: number, limit: number): Buffer {
  const frame = Buffer.allocUnsafe(HEADER + ACK_BYTES);
  frame.writeUInt32BE(ACK_BYTES, 0);
  frame[0] = FRAME.ack;
  frame.writeBigUInt64BE(BigInt(received), HEADER);
  frame.writeBigUInt64BE(BigInt(limit), HEADER + 8);
  return frame;
}

export interface FrameHandlers {
  /** Called with each piece of data as it arrives. */
  data(piece: Buffer): void;
  /** Called with any other frame, complete. */
  frame(type: number, payload: Buffer): void;
}

/**
 * Splits a connection's bytes into frames. Passes data on without collecting it. Throws ResumeError on an invalid
 * frame.
 */
export class FrameReader {
  readonly #handlers: FrameHandlers;
  readonly #head = Buffer.alloc(HEADER + ACK_BYTES);
  /** The number of bytes in #head, and the required number. */
  #have = 0;
  #need = HEADER;
  #data = 0;

  constructor(handlers: FrameHandlers) {
    this.#handlers = handlers;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#data > 0) {
        const piece = chunk.subarray(at, at + this.#data);
        at += piece.length;
        this.#data -= piece.length;
        this.#handlers.data(piece);
        continue;
      }
      const part = chunk.subarray(at, at + this.#need - this.#have);
      part.copy(this.#head, this.#have);
      at += part.length;
      this.#have += part.length;
      if (this.#have === this.#need) this.#complete();
    }
  }

  #complete(): void {
    const type = this.#head[0]!;
    const length = this.#head.readUIntBE(1, 3);
    if (this.#need === HEADER) {
      if (type === FRAME.data) {
        this.#data = length;
        this.#have = 0;
        return;
      }
      if (LENGTHS[type] !== length)
        throw new ResumeError('protocol', `invalid frame: type ${type} with ${length} bytes`);
      this.#need += length;
      if (length > 0) return;
    }
    const payload = Buffer.from(this.#head.subarray(HEADER, this.#need));
    this.#have = 0;
    this.#need = HEADER;
    this.#handlers.frame(type, payload);
  }
}
