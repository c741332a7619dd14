/** Frame types, flags and limits of yamux, version 0. */
export const TYPE = { data: 0, windowUpdate: 1, ping: 2, goAway: 3 } as const;
export const FLAG = { syn: 1, ack: 2, fin: 4, rst: 8 } as const;
export const GO_AWAY = { normal: 0, protocolError: 1, internalError: 2 } as const;

/** How many bytes each side may send on a new stream before a window update. Fixed by the protocol. */
export const INITIAL_WINDOW = 256 * 1024;
export const HEADER_BYTES = 12;

export type YamuxErrorCode =
  | 'protocol' // The peer broke the protocol.
  | 'timeout' // The peer was silent for too long.
  | 'closed' // The session is over.
  | 'go_away' // The peer accepts no more streams.
  | 'backlog' // Too many streams wait for the peer's acknowledgement.
  | 'reset'; // The peer or this side dropped the stream.

export class YamuxError extends Error {
  readonly code: YamuxErrorCode;
  constructor(code: YamuxErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'YamuxError';
    this.code = code;
  }
}

export interface YamuxHeader {
  type: number;
  flags: number;
  streamId: number;
  /** Payload bytes of data, delta of a window update, id of a ping, or code of a go-away. */
  length: number;
}

export function encodeHeader(type: number, flags: number, streamId: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header[0] = 0;
  header[1] = type;
  header.writeUInt16BE(flags, 2);
  header.writeUInt32BE(streamId, 4);
  header.writeUInt32BE(length, 8);
  return header;
}

/**
 * Receives what a parser finds: each header, then for data the payload in pieces (views of the pushed chunks, not
 * copied).
 */
export interface YamuxFrameSink {
  header(header: YamuxHeader): void;
  payload(piece: Buffer, end: boolean): void;
}

/** Decodes frames incrementally. Holds at most one header. */
export class YamuxParser {
  readonly #sink: YamuxFrameSink;
  readonly #partial = Buffer.alloc(HEADER_BYTES);
  #have = 0;
  #remaining = 0;

  constructor(sink: YamuxFrameSink) {
    this.#sink = sink;
  }

  /** Throws YamuxError('protocol') and cannot be used after that. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#remaining > 0) {
        const piece = chunk.subarray(at, at + this.#remaining);
        at += piece.length;
        this.#remaining -= piece.length;
        this.#sink.payload(piece, this.#remaining === 0);
        continue;
      }
      const take = Math.min(HEADER_BYTES - this.#have, chunk.length - at);
      chunk.copy(this.#partial, this.#have, at, at + take);
      at += take;
      this.#have += take;
      if (this.#have < HEADER_BYTES) return;
      this.#have = 0;
      this.#header();
    }
  }

  #header(): void {
    const raw = this.#partial;
    if (raw[0] !== 0) throw new YamuxError('protocol', `unknown yamux version ${raw[0]}`);
    const type = raw[1]!;
    if (type > TYPE.goAway) throw new YamuxError('protocol', `unknown yamux frame type ${type}`);
    const header = {
      type,
      flags: raw.readUInt16BE(2),
      streamId: raw.readUInt32BE(4),
      length: raw.readUInt32BE(8),
    };
    if (type === TYPE.data) this.#remaining = header.length;
    this.#sink.header(header);
  }
}
