import { applyMask, freshMaskKey } from './mask.ts';
import { type MaskSlab, SLAB, takeMaskSlab } from './mask-slabs.ts';

/** Opcodes of RFC 6455, 5.2. */
export const OP = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

export type DataOpcode = typeof OP.text | typeof OP.binary;
export type ControlOpcode = typeof OP.close | typeof OP.ping | typeof OP.pong;

/** A peer broke the protocol. `code` is the close code to answer with. */
export class WebSocketProtocolError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.name = 'WebSocketProtocolError';
    this.code = code;
  }
}

/** Receives what a parser finds. Payload arrives in pieces, unmasked, as views of the pushed chunks (not copied). */
export interface FrameSink {
  /** The header of a text, binary or continuation frame arrived. It may throw before any of the payload is read. */
  frame?(size: number): void;
  /** A piece of a text or binary message. `end` marks its last piece, which may be empty. */
  data(opcode: DataOpcode, payload: Buffer, end: boolean): void;
  /** A complete ping, pong or close. */
  control(opcode: ControlOpcode, payload: Buffer): void;
}

const EMPTY = Buffer.alloc(0);

/** Decodes frames incrementally. Holds at most one header and one control payload (≤ 125 bytes). */
export class FrameParser {
  readonly #expectMask: boolean;
  readonly #sink: FrameSink;
  readonly #header = Buffer.alloc(14);
  #have = 0;
  #need = 2;
  #inPayload = false;
  #fin = false;
  #opcode = 0;
  #remaining = 0;
  #key = 0;
  #message: DataOpcode | 0 = 0;
  #control: Buffer | undefined;
  #controlHave = 0;

  /** `expectMask`: true at a server (clients mask), false at a client. */
  constructor(expectMask: boolean, sink: FrameSink) {
    this.#expectMask = expectMask;
    this.#sink = sink;
  }

  /** Decodes `chunk`, which it may unmask in place. Throws WebSocketProtocolError and cannot be used after that. */
  push(chunk: Buffer): void {
    let at = 0;
    const length = chunk.length;
    for (;;) {
      if (!this.#inPayload) {
        while (this.#have < this.#need) {
          if (at >= length) return;
          this.#header[this.#have++] = chunk[at++]!;
          if (this.#have === 2) this.#need = this.#headerLength();
        }
        this.#beginFrame();
      }
      const take = Math.min(this.#remaining, length - at);
      if (take === 0 && this.#remaining > 0) return;
      this.#payload(take === 0 ? EMPTY : chunk.subarray(at, at + take));
      at += take;
    }
  }

  #headerLength(): number {
    const [first, second] = [this.#header[0]!, this.#header[1]!];
    if (first & 0x70) throw new WebSocketProtocolError(1002, 'reserved bits are set without a negotiated extension');
    const masked = (second & 0x80) !== 0;
    if (masked !== this.#expectMask) {
      throw new WebSocketProtocolError(1002, masked ? 'a server must not mask' : 'a client must mask');
    }
    const short = second & 0x7f;
    const opcode = first & 15;
    if (opcode >= 8 && (short > 125 || (first & 0x80) === 0)) {
      throw new WebSocketProtocolError(1002, 'a control frame is fragmented or longer than 125 bytes');
    }
    return 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + (masked ? 4 : 0);
  }

  #beginFrame(): void {
    const header = this.#header;
    this.#fin = (header[0]! & 0x80) !== 0;
    const opcode = header[0]! & 15;
    const short = header[1]! & 0x7f;
    let size = short;
    if (short === 126) size = header.readUInt16BE(2);
    else if (short === 127) {
      const high = header.readUInt32BE(2);
      if (high >= 0x200000) throw new WebSocketProtocolError(1002, 'the frame length is out of range');
      size = high * 0x100000000 + header.readUInt32BE(6);
    }
    if (this.#expectMask) this.#key = header.readUInt32BE(this.#need - 4);
    switch (opcode) {
      case OP.continuation:
        if (this.#message === 0) throw new WebSocketProtocolError(1002, 'a continuation without a message');
        break;
      case OP.text:
      case OP.binary:
        if (this.#message !== 0) throw new WebSocketProtocolError(1002, 'a message inside a fragmented message');
        this.#message = opcode;
        break;
      case OP.close:
      case OP.ping:
      case OP.pong:
        this.#control = Buffer.allocUnsafe(size);
        this.#controlHave = 0;
        break;
      default:
        throw new WebSocketProtocolError(1002, `unknown opcode ${opcode}`);
    }
    if (opcode < OP.close) this.#sink.frame?.(size);
    this.#opcode = opcode;
    this.#remaining = size;
    this.#inPayload = true;
  }

  #payload(piece: Buffer): void {
    this.#remaining -= piece.length;
    if (this.#expectMask && piece.length > 0) this.#key = applyMask(piece, this.#key);
    const done = this.#remaining === 0;
    if (done) {
      this.#inPayload = false;
      this.#have = 0;
      this.#need = 2;
    }
    if (this.#opcode >= 8) {
      const control = this.#control!;
      piece.copy(control, this.#controlHave);
      this.#controlHave += piece.length;
      if (!done) return;
      this.#control = undefined;
      this.#sink.control(this.#opcode as ControlOpcode, control);
      return;
    }
    const message = this.#message as DataOpcode;
    const end = done && this.#fin;
    if (end) this.#message = 0;
    if (piece.length > 0 || end) this.#sink.data(message, piece, end);
  }
}

function headerFor(opcode: number, length: number, buffer: Buffer, masked: boolean): void {
  buffer[0] = 0x80 | opcode;
  const bit = masked ? 0x80 : 0;
  if (length < 126) buffer[1] = bit | length;
  else if (length < 65536) {
    buffer[1] = bit | 126;
    buffer.writeUInt16BE(length, 2);
  } else {
    buffer[1] = bit | 127;
    buffer.writeUInt32BE(Math.floor(length / 0x100000000), 2);
    buffer.writeUInt32BE(length >>> 0, 6);
  }
}

/** A buffer to write. `written` releases its memory for reuse. */
export interface FrameBuffer {
  bytes: Uint8Array;
  written?: () => void;
}

// Masked payload uses pooled slabs: new ones of this size cause page faults and collections that halve the speed. For
// payload below a few KiB the bookkeeping costs more.
const POOLED_FROM = 8 * 1024;
/** Copying up to this size costs less than writing another buffer. */
const JOINED = 2 * 1024;

/**
 * Encodes one unfragmented frame as buffers to write. Unmasked payload is not copied. Masked payload is copied once,
 * because the caller's bytes must not change.
 */
export function encodeFrame(opcode: number, parts: readonly Uint8Array[], mask: boolean): FrameBuffer[] {
  let length = 0;
  for (const part of parts) length += part.length;
  const size = length < 126 ? 2 : length < 65536 ? 4 : 10;
  if (!mask) {
    const header = Buffer.allocUnsafe(length > JOINED ? size : size + length);
    headerFor(opcode, length, header, false);
    if (length > JOINED) return [{ bytes: header }, ...parts.map((bytes) => ({ bytes }))];
    let at = size;
    for (const part of parts) {
      header.set(part, at);
      at += part.length;
    }
    return [{ bytes: header }];
  }
  return length < POOLED_FROM ? maskedAtOnce(opcode, parts, length, size) : maskedInSlabs(opcode, parts, length, size);
}

function maskedAtOnce(opcode: number, parts: readonly Uint8Array[], length: number, size: number): FrameBuffer[] {
  // Payload begins at a multiple of four within its memory, so that masking can use words.
  const lead = -(size + 4) & 3;
  const frame = Buffer.allocUnsafe(lead + size + 4 + length).subarray(lead);
  headerFor(opcode, length, frame, true);
  const key = freshMaskKey();
  frame.writeUInt32BE(key, size);
  let at = size + 4;
  for (const part of parts) {
    frame.set(part, at);
    at += part.length;
  }
  applyMask(frame.subarray(size + 4), key);
  return [{ bytes: frame }];
}

function maskedInSlabs(opcode: number, parts: readonly Uint8Array[], length: number, size: number): FrameBuffer[] {
  const header = Buffer.allocUnsafe(size + 4);
  headerFor(opcode, length, header, true);
  let key = freshMaskKey();
  header.writeUInt32BE(key, size);
  const out: FrameBuffer[] = [{ bytes: header }];
  let slab: MaskSlab | undefined;
  let filled = 0;
  const flush = () => {
    const full = slab!;
    key = full.mask(filled, key);
    out.push({ bytes: full.bytes.subarray(0, filled), written: full.release });
    slab = undefined;
    filled = 0;
  };
  for (const part of parts) {
    for (let at = 0; at < part.length; ) {
      slab ??= takeMaskSlab();
      const take = Math.min(SLAB - filled, part.length - at);
      slab.bytes.set(take === part.length ? part : part.subarray(at, at + take), filled);
      filled += take;
      at += take;
      if (filled === SLAB) flush();
    }
  }
  if (filled > 0) flush();
  return out;
}
