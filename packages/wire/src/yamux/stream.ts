import { Duplex } from 'node:stream';
import { ByteCollector } from '../byte-collector.ts';
import { type RoundTrip, WindowGauge } from '../round-trip.ts';
import { FLAG, INITIAL_WINDOW, TYPE, YamuxError } from './frames.ts';

/** The functions of a session that its streams use. */
export interface YamuxStreamHost {
  /** Queues the stream for its turn to send data. */
  schedule(stream: YamuxStream): void;
  control(type: number, flags: number, streamId: number, length: number): void;
  data(streamId: number, parts: readonly Buffer[], length: number): void;
  /** Removes a stream that was reset or whose directions are both over. */
  forget(stream: YamuxStream): void;
  /** Whether a window may use `bytes` more of the session's memory. Returned when the stream is removed. */
  takeWindow(bytes: number): boolean;
  giveWindow(bytes: number): void;
  /** The round trip to the peer, measured occasionally while streams request it. */
  roundTrip(): RoundTrip;
}

type Done = (error?: Error | null) => void;

/** Larger frames only delay the other streams of the session. */
const MAX_FRAME = 128 * 1024;
/** A larger window gains nothing: this one allows 160 MB/s over a round trip of 100 ms. */
const MAX_WINDOW = 16 * 1024 * 1024;
/** Smaller waiting pieces are joined, so that a peer of tiny frames does not cost an object for each. */
const SMALL_PIECE = 2 * 1024;

/**
 * One stream of a session: a Duplex with half-close and backpressure both ways. Ending it sends FIN. Destroying it
 * before both directions ended resets it. When the session ends, the stream is destroyed with YamuxError('closed').
 */
export class YamuxStream extends Duplex {
  readonly id: number;
  readonly #host: YamuxStreamHost;
  /** How many bytes the peer may have under way to us. Grows for a long round trip. */
  #window: number;
  #grown = 0;
  #received = 0;
  readonly #gauge = new WindowGauge();
  // Received bytes that the reader has not requested. The sum of these and what the peer may still send never exceeds
  // the window.
  #queue: Buffer[] = [];
  readonly #small: ByteCollector;
  #queued = 0;
  #wanted = false;
  #recvWindow: number;
  #sendWindow = INITIAL_WINDOW;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #pendingDone: Done | undefined;
  #scheduled = false;
  #finReceived = false;
  #finSent = false;
  #gone = false;

  /** Sessions create streams. See YamuxSession.openStream. */
  constructor(id: number, host: YamuxStreamHost, window: number) {
    super({ allowHalfOpen: true, readableHighWaterMark: 16 * 1024, writableHighWaterMark: 64 * 1024 });
    this.id = id;
    this.#host = host;
    this.#window = window;
    this.#recvWindow = window;
    this.#small = new ByteCollector(MAX_WINDOW);
    // Without a listener an error would end the process, and the peer can cause errors at will.
    this.on('error', () => {});
  }

  /** Whether data and window allow a frame now. */
  get canSend(): boolean {
    return this.#pendingBytes > 0 && this.#sendWindow > 0 && !this.#gone;
  }

  /** Session only: a data frame of this length begins. Throws if the peer exceeds its window. */
  receiveHeader(length: number): void {
    if (length > this.#recvWindow) {
      throw new YamuxError('protocol', `stream ${this.id}: ${length} bytes exceed the window of ${this.#recvWindow}`);
    }
    this.#recvWindow -= length;
  }

  /** Session only: a piece of a data frame. */
  receivePayload(piece: Buffer): void {
    if (this.#gone || this.#finReceived || this.destroyed) return;
    this.#received += piece.length;
    if (this.#wanted && this.#queued === 0) {
      this.#wanted = this.push(piece);
      this.#grant();
      return;
    }
    this.#queued += piece.length;
    if (piece.length < SMALL_PIECE) this.#small.append(piece);
    else {
      this.#queueSmall();
      this.#queue.push(piece);
    }
  }

  /** Session only: the peer ends its direction. Throws on a second FIN. */
  receiveFin(): void {
    if (this.#finReceived) throw new YamuxError('protocol', `stream ${this.id}: a second FIN`);
    this.#finReceived = true;
    if (this.#queued === 0) this.push(null);
    this.#forgetWhenOver();
  }

  /** Session only: the peer dropped the stream. Sends no RST. */
  abort(error: Error): void {
    this.#gone = true;
    this.destroy(error);
  }

  /** Session only: the session ended. What a peer sent and ended before can still be read. */
  sessionEnded(error: Error): void {
    this.#gone = true;
    if (!this.#finReceived || this.#pendingDone) this.destroy(error);
  }

  /** Session only: the peer accepts `delta` more bytes. */
  receiveWindow(delta: number): void {
    this.#sendWindow = Math.min(this.#sendWindow + delta, 0xffffffff);
    this.#requestTurn();
  }

  /** Session only: sends one frame of pending data, if data and window allow. */
  takeTurn(): void {
    this.#scheduled = false;
    if (!this.canSend) return;
    const length = Math.min(this.#pendingBytes, this.#sendWindow, MAX_FRAME);
    const parts: Buffer[] = [];
    let left = length;
    while (left > 0) {
      const part = this.#pending[0]!;
      if (part.length <= left) {
        parts.push(part);
        this.#pending.shift();
        left -= part.length;
      } else {
        parts.push(part.subarray(0, left));
        this.#pending[0] = part.subarray(left);
        left = 0;
      }
    }
    this.#sendWindow -= length;
    this.#pendingBytes -= length;
    this.#host.data(this.id, parts, length);
    if (this.#pendingBytes > 0) {
      this.#requestTurn();
      return;
    }
    const done = this.#pendingDone;
    this.#pendingDone = undefined;
    done?.();
  }

  override _read(): void {
    this.#wanted = true;
    this.#queueSmall();
    while (this.#wanted && this.#queue.length > 0) {
      const piece = this.#queue.shift()!;
      this.#queued -= piece.length;
      this.#wanted = this.push(piece);
    }
    if (this.#queued === 0 && this.#finReceived) this.push(null);
    else this.#grant();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#queueWrite([chunk], chunk.length, done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: Done): void {
    let size = 0;
    for (const { chunk } of chunks) size += chunk.length;
    this.#queueWrite(
      chunks.map(({ chunk }) => chunk),
      size,
      done,
    );
  }

  override _final(done: Done): void {
    if (!this.#gone && !this.#finSent) {
      this.#finSent = true;
      this.#host.control(TYPE.windowUpdate, FLAG.fin, this.id, 0);
      this.#forgetWhenOver();
    }
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    if (!this.#gone && !(this.#finSent && this.#finReceived)) {
      this.#host.control(TYPE.windowUpdate, FLAG.rst, this.id, 0);
    }
    this.#gone = true;
    this.#host.forget(this);
    this.#host.giveWindow(this.#grown);
    this.#grown = 0;
    this.#queue = [];
    this.#small.clear();
    this.#queued = 0;
    this.#pending = [];
    this.#pendingBytes = 0;
    const pending = this.#pendingDone;
    this.#pendingDone = undefined;
    done(error);
    pending?.(error ?? new YamuxError('reset', `stream ${this.id} was dropped`));
  }

  #queueSmall(): void {
    if (this.#small.size > 0) this.#queue.push(this.#small.take());
  }

  #queueWrite(parts: Buffer[], size: number, done: Done): void {
    if (this.#gone || size === 0) {
      done(this.#gone ? new YamuxError('closed', `stream ${this.id} is gone`) : null);
      return;
    }
    this.#pending = parts;
    this.#pendingBytes = size;
    this.#pendingDone = done;
    this.#requestTurn();
  }

  #requestTurn(): void {
    if (this.#scheduled || !this.canSend) return;
    this.#scheduled = true;
    this.#host.schedule(this);
  }

  /** Announces the room that the reader has freed to the peer, if it is worth a frame. */
  #grant(): void {
    if (this.#gone || this.#finReceived) return;
    const short = this.#gauge.isShort(this.#received - this.#queued, this.#window, this.#host.roundTrip());
    if (short && this.#window < MAX_WINDOW && this.#host.takeWindow(this.#window)) {
      this.#grown += this.#window;
      this.#window *= 2;
    }
    const delta = this.#window - this.#queued - this.#recvWindow;
    if (delta < this.#window / 2) return;
    this.#recvWindow += delta;
    this.#host.control(TYPE.windowUpdate, 0, this.id, delta);
  }

  #forgetWhenOver(): void {
    if (this.#finSent && this.#finReceived) this.#host.forget(this);
  }
}
