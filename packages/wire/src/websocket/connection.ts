import { isUtf8 } from 'node:buffer';
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ByteCollector } from '../byte-collector.ts';
import { countCarried } from '../collect-young.ts';
import { type DataOpcode, encodeFrame, type FrameBuffer, FrameParser, OP, WebSocketProtocolError } from './frames.ts';

export interface WebSocketOptions {
  /** The longest message accepted in message mode, in bytes (default 16 MiB). Byte streams have no such limit. */
  maxMessageBytes?: number;
  /** How long the peer may take to answer a close, in ms (default 5,000). */
  closeTimeoutMs?: number;
}

/** How a connection ended. `clean`: both sides exchanged close frames. 1006: the socket closed without them. */
export interface WebSocketClose {
  code: number;
  reason: string;
  clean: boolean;
  /** The socket's error, if it ended the connection. */
  error?: Error;
}

export interface WebSocketEvents {
  text: [message: string];
  binary: [message: Buffer];
  pong: [payload: Buffer];
  drain: [];
  close: [close: WebSocketClose];
}

/** Receives binary payload as it arrives, instead of whole messages. Returns false to pause the socket. */
export interface ByteSink {
  bytes(payload: Buffer): boolean;
}

const DEFAULT_MAX_MESSAGE = 16 * 1024 * 1024;

function validCloseCode(code: number): boolean {
  if (code >= 3000) return code <= 4999;
  return code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006;
}

/**
 * A WebSocket after its handshake, over the raw socket, without extensions. It answers pings and closes by itself.
 * While no listener exists, it holds messages and pauses the socket. A socket whose messages do not matter therefore
 * still needs a 'text' or 'binary' listener, otherwise its close goes unnoticed.
 */
export class WebSocketConnection extends EventEmitter<WebSocketEvents> {
  /** The negotiated subprotocol, or ''. */
  readonly protocol: string;
  /** Resolves when the socket is gone. Never rejects. */
  readonly closed: Promise<WebSocketClose>;
  readonly #socket: Duplex;
  readonly #client: boolean;
  readonly #maxMessage: number;
  readonly #closeTimeoutMs: number;
  readonly #resolveClosed: (close: WebSocketClose) => void;
  readonly #parser: FrameParser;
  #sink: ByteSink | undefined;
  readonly #message: ByteCollector;
  #partial: DataOpcode = OP.binary;
  #held: { opcode: DataOpcode; message: Buffer }[] = [];
  #sentClose: { code: number; reason: string } | undefined;
  #gotClose: { code: number; reason: string } | undefined;
  #error: Error | undefined;
  #failed = false;
  #closedHere = false;
  #ended: WebSocketClose | undefined;
  #closeTimer: NodeJS.Timeout | undefined;
  #isReading = false;
  #isPaused = false;

  /** Use acceptWebSocket or dialWebSocket. `head` is what the socket delivered after the handshake. */
  constructor(socket: Duplex, role: 'client' | 'server', head: Buffer, protocol: string, options: WebSocketOptions) {
    super();
    this.#socket = socket;
    this.#client = role === 'client';
    this.protocol = protocol;
    this.#maxMessage = options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE;
    this.#message = new ByteCollector(this.#maxMessage);
    this.#closeTimeoutMs = options.closeTimeoutMs ?? 5_000;
    let resolve: (close: WebSocketClose) => void = () => {};
    this.closed = new Promise((r) => {
      resolve = r;
    });
    this.#resolveClosed = resolve;
    this.#parser = new FrameParser(!this.#client, {
      frame: (size) => this.#onFrame(size),
      data: (opcode, payload, end) => this.#onData(opcode, payload, end),
      control: (opcode, payload) => this.#onControl(opcode, payload),
    });
    const net = socket as Partial<Socket>;
    net.setNoDelay?.(true);
    net.setTimeout?.(0);
    socket.on('error', (err) => {
      this.#error ??= err;
    });
    socket.on('end', () => socket.destroy());
    socket.on('close', () => this.#finish());
    socket.on('drain', () => this.emit('drain'));
    this.on('newListener', (event) => {
      if (event === 'text' || event === 'binary') queueMicrotask(() => this.#deliverHeld());
    });
    // Reading starts a turn later, so that a caller that awaited the connection can attach its listeners first.
    setImmediate(() => {
      this.#isReading = true;
      socket.on('data', (chunk: Buffer) => {
        countCarried(chunk.length);
        this.#parse(chunk);
      });
      if (!this.#isPaused) socket.resume();
      if (head.length > 0) this.#parse(Buffer.from(head));
      // Ended or gone before any listener existed.
      if (socket.readableEnded) socket.destroy();
      if (socket.destroyed) this.#finish();
    });
  }

  /** The bytes accepted by send and not yet accepted by the kernel. */
  get bufferedBytes(): number {
    return this.#socket.writableLength;
  }

  /** True until a close frame was sent or received or the socket closed. */
  get open(): boolean {
    return !this.#sentClose && !this.#gotClose && !this.#ended && !this.#failed;
  }

  /** Whether this side closed or dropped the connection before the other side did. */
  get closedHere(): boolean {
    return this.#closedHere;
  }

  /** Sends one text message. False asks the caller to wait for 'drain'. Does nothing after the close. */
  sendText(message: string): boolean {
    return this.#send(OP.text, [Buffer.from(message, 'utf8')]);
  }

  /** Sends one binary message made of `parts`, which must not change until they are written. */
  sendBinary(...parts: readonly Uint8Array[]): boolean {
    return this.#send(OP.binary, parts);
  }

  /** Sends a ping of at most 125 bytes. The answer arrives as 'pong'. */
  ping(payload: Uint8Array = Buffer.alloc(0)): boolean {
    if (payload.length > 125) throw new RangeError('a WebSocket ping holds at most 125 bytes');
    return this.#send(OP.ping, [payload]);
  }

  /**
   * Starts the closing handshake. `closed` resolves when it is done, at the latest after the close timeout. A reason
   * longer than 123 bytes is cut.
   */
  close(code = 1000, reason = ''): void {
    if (this.#sentClose || this.#ended) return;
    if (!validCloseCode(code)) throw new RangeError(`invalid WebSocket close code: ${code}`);
    this.#closedHere = !this.#socket.destroyed;
    this.#sendClose(code, reason);
    if (this.#gotClose) this.#socket.end();
    this.#closeTimer = setTimeout(() => this.#socket.destroy(), this.#closeTimeoutMs);
    this.#socket.resume();
  }

  /** Drops the socket immediately, without a closing handshake. */
  destroy(error?: Error): void {
    if (!this.#gotClose && !this.#error && !this.#socket.destroyed) this.#closedHere = true;
    this.#error ??= error;
    this.#socket.destroy();
  }

  /** Stops reading, so that the peer gets backpressure. Control frames wait as well. */
  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    // a socket that flows before anything listens loses its bytes
    if (this.#isReading) this.#socket.resume();
  }

  /** Turns the connection into a byte pipe (see byteStream). It rejects text from now on. */
  setByteSink(sink: ByteSink): void {
    if (this.#sink) throw new Error('the WebSocket is a byte stream already');
    this.#sink = sink;
    const held = this.#held;
    this.#held = [];
    if (this.#message.size > 0) held.push({ opcode: this.#partial, message: this.#message.take() });
    try {
      for (const { opcode, message } of held) this.#toSink(opcode, message);
    } catch (err) {
      this.#fail(err as WebSocketProtocolError);
    }
  }

  #send(opcode: number, parts: readonly Uint8Array[]): boolean {
    if (this.#sentClose || this.#ended || this.#socket.destroyed) return true;
    return this.#write(encodeFrame(opcode, parts, this.#client));
  }

  #write(buffers: readonly FrameBuffer[]): boolean {
    const socket = this.#socket;
    if (buffers.length === 1) return socket.write(buffers[0]!.bytes);
    socket.cork();
    for (const { bytes, written } of buffers) {
      if (bytes.length === 0) continue;
      countCarried(bytes.length);
      // Leave the memory of a failed write to the collector: somebody may still read it.
      if (written) socket.write(bytes, (err) => err ?? written());
      else socket.write(bytes);
    }
    socket.uncork();
    return !socket.writableNeedDrain;
  }

  #sendClose(code: number, reason: string): void {
    if (this.#sentClose || this.#ended || this.#socket.destroyed) return;
    const text = cutUtf8(reason, 123);
    const body = code === 1005 ? [] : [Buffer.from([code >> 8, code & 255]), text];
    this.#write(encodeFrame(OP.close, body, this.#client));
    this.#sentClose = { code, reason: text.toString('utf8') };
  }

  #parse(chunk: Buffer): void {
    if (this.#failed || this.#gotClose) return;
    try {
      this.#parser.push(chunk);
    } catch (err) {
      if (!(err instanceof WebSocketProtocolError)) throw err;
      this.#fail(err);
    }
  }

  /**
   * Answers a protocol error with its close code. Nothing after it can be parsed, so no answer is awaited.
   */
  #fail(err: WebSocketProtocolError): void {
    this.#failed = true;
    this.#error ??= err;
    this.#message.clear();
    this.#sendClose(err.code, err.message);
    this.#socket.end();
    this.#closeTimer ??= setTimeout(() => this.#socket.destroy(), this.#closeTimeoutMs);
    this.#socket.resume();
  }

  /** Rejects a message that is too long by the headers of its frames, before any of the excess is read. */
  #onFrame(size: number): void {
    if (this.#failed || this.#gotClose || this.#sink) return;
    if (this.#message.size + size > this.#maxMessage)
      throw new WebSocketProtocolError(1009, `the message exceeds the limit of ${this.#maxMessage} bytes`);
  }

  #onData(opcode: DataOpcode, payload: Buffer, end: boolean): void {
    if (this.#failed || this.#gotClose) return;
    if (this.#sink) {
      this.#toSink(opcode, payload);
      return;
    }
    this.#partial = opcode;
    if (!end || this.#message.size > 0) this.#message.append(payload);
    if (!end) return;
    const message = this.#message.size > 0 ? this.#message.take() : payload;
    if (opcode === OP.text && !isUtf8(message)) throw new WebSocketProtocolError(1007, 'text is not UTF-8');
    if (this.#sentClose) return;
    if (this.#held.length > 0 || (this.listenerCount('text') === 0 && this.listenerCount('binary') === 0)) {
      this.#held.push({ opcode, message });
      this.#socket.pause();
      return;
    }
    this.#deliver(opcode, message);
  }

  #toSink(opcode: DataOpcode, payload: Buffer): void {
    if (opcode === OP.text) throw new WebSocketProtocolError(1003, 'this stream accepts only binary messages');
    if (payload.length > 0 && !this.#sink!.bytes(payload)) this.#socket.pause();
  }

  #deliver(opcode: DataOpcode, message: Buffer): void {
    if (opcode === OP.text) this.emit('text', message.toString('utf8'));
    else this.emit('binary', message);
  }

  #deliverHeld(): void {
    if (this.#held.length === 0) return;
    const held = this.#held;
    this.#held = [];
    for (const { opcode, message } of held) this.#deliver(opcode, message);
    this.#socket.resume();
  }

  #onControl(opcode: number, payload: Buffer): void {
    if (this.#failed || this.#gotClose) return;
    if (opcode === OP.ping) {
      // A peer that pings without reading the answers must not grow our memory.
      if (this.#socket.writableLength < 1024 * 1024) this.#send(OP.pong, [payload]);
      return;
    }
    if (opcode === OP.pong) {
      this.emit('pong', payload);
      return;
    }
    this.#onClose(payload);
  }

  #onClose(payload: Buffer): void {
    let code = 1005;
    if (payload.length === 1) throw new WebSocketProtocolError(1002, 'a close frame of one byte');
    if (payload.length >= 2) {
      code = payload.readUInt16BE(0);
      if (!validCloseCode(code)) throw new WebSocketProtocolError(1002, `close code ${code} must not be sent`);
      if (!isUtf8(payload.subarray(2))) throw new WebSocketProtocolError(1007, 'the close reason is not UTF-8');
    }
    this.#gotClose = { code, reason: payload.subarray(2).toString('utf8') };
    this.#sendClose(code, '');
    this.#closeTimer ??= setTimeout(() => this.#socket.destroy(), this.#closeTimeoutMs);
    // The server drops the connection first, so that its own address stays in TIME_WAIT.
    if (!this.#client) this.#socket.end();
  }

  #finish(): void {
    if (this.#ended) return;
    clearTimeout(this.#closeTimer);
    const { code, reason } = this.#gotClose ?? { code: 1006, reason: this.#error?.message ?? 'the connection broke' };
    const clean = this.#gotClose !== undefined && this.#sentClose !== undefined;
    this.#ended = this.#error && !clean ? { code, reason, clean, error: this.#error } : { code, reason, clean };
    this.#resolveClosed(this.#ended);
    this.emit('close', this.#ended);
  }
}

function cutUtf8(text: string, max: number): Buffer {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= max) return bytes;
  let end = max;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}
