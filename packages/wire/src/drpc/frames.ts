import { ByteCollector } from '../byte-collector.ts';

/** Packet kinds of DRPC. */
export const KIND = {
  invoke: 1,
  message: 2,
  error: 3,
  cancel: 4,
  close: 5,
  closeSend: 6,
  invokeMetadata: 7,
} as const;

/** The largest message that both sides accept upstream. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
const MAX_FRAME = 64 * 1024;
const EMPTY = Buffer.alloc(0);

/**
 * The error of a failed call. `code` is the number on the wire: 12 for a method that is not implemented, otherwise
 * mostly 0. `message` is the peer's text or the local failure.
 */
export class DrpcError extends Error {
  readonly code: number;
  /** Whether the peer sent the error. Otherwise this side detected it, for example a broken stream. */
  readonly remote: boolean;
  constructor(message: string, code = 0, options?: ErrorOptions & { remote?: boolean }) {
    super(message, options);
    this.name = 'DrpcError';
    this.code = code;
    this.remote = options?.remote ?? false;
  }
}

export interface DrpcPacket {
  kind: number;
  /** Whether a receiver that does not know the frame's kind must ignore it. */
  control: boolean;
  streamId: number;
  messageId: number;
  data: Buffer;
}

function varint(value: number, into: Buffer, at: number): number {
  let rest = value;
  let i = at;
  while (rest >= 128) {
    into[i++] = (rest % 128) | 128;
    rest = Math.floor(rest / 128);
  }
  into[i++] = rest;
  return i;
}

/** Encodes a packet as buffers to write: frames of at most 64 KiB. The data (in one part or several) is not copied. */
export function encodePacket(
  kind: number,
  streamId: number,
  messageId: number,
  data: Uint8Array | readonly Uint8Array[],
): Uint8Array[] {
  const parts = data instanceof Uint8Array ? [data] : data;
  let left = parts.reduce((size, part) => size + part.length, 0);
  const out: Uint8Array[] = [];
  let next = 0;
  let at = 0;
  do {
    let frame = Math.min(left, MAX_FRAME);
    left -= frame;
    const header = Buffer.allocUnsafe(31);
    header[0] = (kind << 1) | (left === 0 ? 1 : 0) | (kind === KIND.cancel ? 0x80 : 0);
    let length = varint(streamId, header, 1);
    length = varint(messageId, header, length);
    length = varint(frame, header, length);
    out.push(header.subarray(0, length));
    while (frame > 0) {
      const part = parts[next]!;
      const end = Math.min(part.length, at + frame);
      if (end > at) out.push(at === 0 && end === part.length ? part : part.subarray(at, end));
      frame -= end - at;
      at = end;
      if (at === part.length) {
        next++;
        at = 0;
      }
    }
  } while (left > 0);
  return out;
}

/** Accounts for the bytes that a decoder holds. */
export interface Holding {
  /** Throws DrpcError if they exceed the limit. */
  take(bytes: number): void;
  give(bytes: number): void;
}

/**
 * Decodes one direction incrementally. Holds at most one packet of `maxBytes`. Throws DrpcError when the peer breaks
 * the framing. The transport cannot be used after that.
 */
export class DrpcDecoder {
  readonly #maxBytes: number;
  readonly #onPacket: (packet: DrpcPacket) => void;
  readonly #holding: Holding | undefined;
  // The current frame: its control byte, then three varints, then its data.
  #control = -1;
  #numbers: number[] = [];
  #value = 0;
  #scale = 1;
  #digits = 0;
  #left = 0;
  // The current packet, and the lowest id that may follow.
  #packetKind = 0;
  #stream = 1;
  #message = 1;
  readonly #partial: ByteCollector;
  #closed = false;

  constructor(maxBytes: number, onPacket: (packet: DrpcPacket) => void, holding?: Holding) {
    this.#maxBytes = maxBytes;
    this.#partial = new ByteCollector(maxBytes);
    this.#onPacket = onPacket;
    this.#holding = holding;
  }

  /** Stops decoding and drops incomplete packets. */
  close(): void {
    this.#closed = true;
    this.#discard();
  }

  #discard(): void {
    this.#holding?.give(this.#partial.size);
    this.#partial.clear();
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#closed) {
      if (this.#control < 0) {
        this.#control = chunk[at++]!;
      } else if (this.#numbers.length < 3) {
        this.#digit(chunk[at++]!);
        if (this.#numbers.length < 3) continue;
        this.#beginFrame();
        if (this.#left === 0) this.#endFrame(EMPTY);
      } else {
        const piece = chunk.subarray(at, at + this.#left);
        at += piece.length;
        this.#left -= piece.length;
        if (this.#left > 0) this.#keep(piece);
        else this.#endFrame(piece);
      }
    }
  }

  #keep(piece: Buffer): void {
    this.#holding?.take(piece.length);
    this.#partial.append(piece);
  }

  #digit(byte: number): void {
    this.#value += (byte & 127) * this.#scale;
    this.#scale *= 128;
    this.#digits++;
    if (this.#value > Number.MAX_SAFE_INTEGER || (byte & 128 && this.#digits >= 10)) {
      throw new DrpcError('protocol error: a number in a frame header is out of range');
    }
    if (byte & 128) return;
    this.#numbers.push(this.#value);
    this.#value = 0;
    this.#scale = 1;
    this.#digits = 0;
  }

  #beginFrame(): void {
    const [stream, message, length] = this.#numbers as [number, number, number];
    const kind = (this.#control >> 1) & 63;
    if (stream === 0 || message === 0) throw new DrpcError('protocol error: a stream or message id is zero');
    if (stream < this.#stream || (stream === this.#stream && message < this.#message)) {
      throw new DrpcError('protocol error: id monotonicity violation');
    }
    if (stream !== this.#stream || message !== this.#message || this.#packetKind === 0) {
      this.#stream = stream;
      this.#message = message;
      this.#packetKind = kind;
      this.#discard();
    } else if (kind !== this.#packetKind) {
      throw new DrpcError('protocol error: packet kind change');
    }
    if (this.#partial.size + length > this.#maxBytes) {
      throw new DrpcError(`protocol error: data overflow: a message is longer than ${this.#maxBytes} bytes`);
    }
    this.#left = length;
  }

  #endFrame(piece: Buffer): void {
    const done = (this.#control & 1) !== 0;
    const control = (this.#control & 0x80) !== 0;
    this.#control = -1;
    this.#numbers = [];
    if (!done) {
      if (piece.length > 0) this.#keep(piece);
      return;
    }
    let data = piece;
    if (this.#partial.size > 0) {
      this.#keep(piece);
      this.#holding?.give(this.#partial.size);
      data = this.#partial.take();
    }
    const packet = { kind: this.#packetKind, control, streamId: this.#stream, messageId: this.#message, data };
    this.#message++;
    this.#packetKind = 0;
    this.#onPacket(packet);
  }
}

export function encodeError(code: number, text: string): Buffer {
  const body = Buffer.alloc(8 + Buffer.byteLength(text));
  body.writeBigUInt64BE(BigInt(code), 0);
  body.write(text, 8);
  return body;
}

export function decodeError(body: Buffer): DrpcError {
  if (body.length < 8) return new DrpcError(body.toString('utf8'), 0, { remote: true });
  return new DrpcError(body.subarray(8).toString('utf8'), Number(body.readBigUInt64BE(0)), { remote: true });
}

/** Encodes metadata: a protobuf message with one map<string,string> as field 1. */
export function encodeMetadata(metadata: Readonly<Record<string, string>>): Buffer {
  const parts: Uint8Array[] = [];
  const field = (tag: number, value: Uint8Array) => {
    const head = Buffer.allocUnsafe(11);
    head[0] = tag;
    return Buffer.concat([head.subarray(0, varint(value.length, head, 1)), value]);
  };
  for (const [key, value] of Object.entries(metadata)) {
    parts.push(field(0x0a, Buffer.concat([field(0x0a, Buffer.from(key)), field(0x12, Buffer.from(value))])));
  }
  return Buffer.concat(parts);
}

/** Decodes metadata. Throws DrpcError on malformed entries. */
export function decodeMetadata(body: Buffer): Record<string, string> {
  const metadata = Object.create(null) as Record<string, string>;
  for (const [tag, entry] of fields(body)) {
    if (tag !== 0x0a) throw new DrpcError('protocol error: the metadata has an unknown field');
    let key = '';
    let value = '';
    for (const [part, bytes] of fields(entry)) {
      if (part === 0x0a) key = bytes.toString('utf8');
      else if (part === 0x12) value = bytes.toString('utf8');
      else throw new DrpcError('protocol error: a metadata entry has an unknown field');
    }
    metadata[key] = value;
  }
  return metadata;
}

function* fields(body: Buffer): Generator<[number, Buffer]> {
  let at = 0;
  while (at < body.length) {
    const tag = body[at++]!;
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = body[at++];
      if (byte === undefined || shift > 21) throw new DrpcError('protocol error: the metadata is cut short');
      length |= (byte & 127) << shift;
      if (byte < 128) break;
    }
    if (at + length > body.length) throw new DrpcError('protocol error: the metadata is cut short');
    yield [tag, body.subarray(at, at + length)];
    at += length;
  }
}
