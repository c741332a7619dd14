import { Duplex } from 'node:stream';
import { RoundTrip, WindowGauge } from '../round-trip.ts';
import { endConnection } from './end-connection.ts';
import { ResumeError } from './error.ts';
import { encodeAck, encodeHeader, FRAME, FrameReader } from './frames.ts';
import { ReplayBuffer } from './replay-buffer.ts';

export { ResumeError, type ResumeErrorCode } from './error.ts';

/** How many bytes either side may send before it has received a larger window. */
export const FIRST_WINDOW = 256 * 1024;
/** The largest window: 8 MiB allow 80 MB/s over a round trip of 100 ms, and limit a session's memory. */
const MAX_WINDOW = 8 * 1024 * 1024;
const MAX_FRAME = 128 * 1024;
/** Smaller writes of one turn are sent together. */
const JOINED = 16 * 1024;
const ACK_EVERY = 128 * 1024;
const ACK_DELAY_MS = 40;

/** The memory that windows may grow into, shared by the sessions of a process. */
export interface WindowBudget {
  left: number;
}

export interface ResumableEvents {
  /** Another connection carries the session. */
  attached: [];
  /** The connection is gone. The session waits for another. */
  detached: [];
}

/**
 * A byte stream with half-close and backpressure that outlives its connections: each side keeps what the other has not
 * yet acknowledged and sends it again on the next connection. Both directions count bytes from 0. The end of a
 * direction counts as one more. `connectResumable` and `ResumableSessions` create it, attach connections, and end it if
 * none comes. A connection must copy the bytes it sends, as any socket does: the memory of acknowledged bytes is
 * reused.
 */
export class ResumableStream extends Duplex {
  readonly #budget: WindowBudget;
  #taken = 0;
  #connection: Duplex | undefined;
  #release: (() => void) | undefined;
  #over = false;

  readonly #replay = new ReplayBuffer();
  /** How many bytes the peer has received. The end counts as one more. */
  #acked = 0;
  /** The peer accepts bytes up to here. We keep at most #keep of them. */
  #limit = FIRST_WINDOW;
  #keep = FIRST_WINDOW;
  #writing: (() => void) | undefined;
  #flushing = false;
  #ending: (() => void) | undefined;
  #finSent = false;

  // Receiving.
  #received = 0;
  #queue: Buffer[] = [];
  #queued = 0;
  #wanted = false;
  #finReceived = false;
  #window = FIRST_WINDOW;
  #granted = FIRST_WINDOW;
  readonly #gauge = new WindowGauge();
  #roundTrip = new RoundTrip();
  #toldReceived = 0;
  #ackTimer: NodeJS.Timeout | undefined;
  #heardAt = performance.now();
  #isKnown = false;

  constructor(budget: WindowBudget = { left: 64 * 1024 * 1024 }) {
    super({ allowHalfOpen: true, readableHighWaterMark: 64 * 1024, writableHighWaterMark: 128 * 1024 });
    this.#budget = budget;
    // Without a listener an error would end the process. Users of the stream see it through 'close' or a listener.
    this.on('error', () => {});
  }

  get attached(): boolean {
    return this.#connection !== undefined;
  }

  /** The round trip to the peer in ms. 0 while it is unknown. */
  get roundTripMs(): number {
    return this.#roundTrip.ms;
  }

  /** How many bytes of the peer have arrived. The end counts as one more. The peer needs this number to resume. */
  get received(): number {
    return this.#received;
  }

  /** The time of the peer's last sign of life, as performance.now(). */
  get heardAt(): number {
    return this.#heardAt;
  }

  /** How many bytes have arrived in both directions. */
  get carried(): number {
    return this.#received + this.#acked;
  }

  /** Whether the peer has sent anything. Before that it may not know of the session. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Whether both directions are over and the peer has acknowledged it, so that nothing is left to resume. */
  get complete(): boolean {
    return this.#finReceived && this.#finSent && this.#acked > this.#replay.end;
  }

  /**
   * Resumes over another connection. `peerReceived` is what the peer claims to have received. Throws ResumeError if
   * that is impossible.
   */
  attach(connection: Duplex, peerReceived: number): void {
    if (this.destroyed) throw new ResumeError('closed', 'the session has ended');
    if (peerReceived < this.#acked || peerReceived > this.#replay.end + (this.#writableDone ? 1 : 0)) {
      throw new ResumeError(
        'protocol',
        `the peer claims to have ${peerReceived} bytes, outside ${this.#acked} to ${this.#replay.end}`,
      );
    }
    this.#letGo()?.destroy();
    this.#connection = connection;
    this.#acknowledged(peerReceived);
    this.#replay.rewind();
    this.#finSent = peerReceived > this.#replay.end;
    this.#heardAt = performance.now();
    this.#roundTrip = new RoundTrip();
    const reader = new FrameReader({
      data: (piece) => this.#receive(piece),
      frame: (type, payload) => this.#onFrame(type, payload),
    });
    const onData = (chunk: Buffer) => {
      this.#heardAt = performance.now();
      this.#isKnown = true;
      try {
        reader.push(chunk);
      } catch (err) {
        this.destroy(err as Error);
      }
    };
    const onDrain = () => this.#flush();
    const onGone = () => {
      if (this.#connection !== connection) return;
      this.#letGo();
      connection.destroy();
      if (this.complete) this.#finish();
      else {
        // Without a connection, as much can be written as fits the window.
        this.#flush();
        this.emit('detached');
      }
    };
    connection.on('data', onData);
    connection.on('drain', onDrain);
    connection.on('end', onGone);
    connection.on('error', onGone);
    connection.on('close', onGone);
    this.#release = () => {
      connection.off('data', onData);
      connection.off('drain', onDrain);
      connection.off('end', onGone);
      connection.off('error', onGone);
      connection.off('close', onGone);
      connection.on('error', () => {});
      connection.resume();
    };
    if (connection.destroyed || connection.readableEnded) {
      onGone();
      return;
    }
    this.#sendAck();
    this.#measure();
    this.#flush();
    this.emit('attached');
  }

  /** Gives up the connection. Call it when the connection is known to be dead. */
  detach(): void {
    const connection = this.#letGo();
    if (!connection) return;
    connection.destroy();
    this.emit('detached');
  }

  /**
   * Takes nothing more from the connection until it is given up, or until the returned function is called. Bytes for the
   * peer are still sent.
   */
  hold(): () => void {
    const connection = this.#connection;
    connection?.pause();
    return () => {
      if (connection && connection === this.#connection) connection.resume();
    };
  }

  /** Asks the peer for a sign of life. See heardAt. */
  ping(): void {
    if (this.#connection) this.#sendPing(this.#connection);
  }

  get #writableDone(): boolean {
    return this.#ending !== undefined || this.writableFinished;
  }

  #letGo(): Duplex | undefined {
    const connection = this.#connection;
    this.#release?.();
    this.#connection = undefined;
    this.#release = undefined;
    return connection;
  }

  // Duplex

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#enqueue([chunk], done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.#enqueue(
      chunks.map(({ chunk }) => chunk),
      done,
    );
  }

  override _final(done: () => void): void {
    this.#ending = done;
    this.#flush();
  }

  override _read(): void {
    this.#wanted = true;
    while (this.#wanted && this.#queue.length > 0) {
      const piece = this.#queue.shift()!;
      this.#queued -= piece.length;
      this.#wanted = this.push(piece);
    }
    if (this.#queue.length === 0 && this.#finReceived) this.push(null);
    this.#grant();
  }

  override _destroy(err: Error | null, done: (err?: Error | null) => void): void {
    // Bytes written before the connection was given up count as sent, as with a socket.
    if (!err) this.#flush();
    this.#over = true;
    clearTimeout(this.#ackTimer);
    this.#budget.left += this.#taken;
    this.#taken = 0;
    const connection = this.#letGo();
    if (connection) {
      if (!this.complete) this.#frame(connection, FRAME.close, Buffer.alloc(0));
      endConnection(connection);
    }
    this.#replay.clear();
    this.#queue = [];
    this.#queued = 0;
    const waiting = [this.#writing, this.#ending];
    this.#writing = undefined;
    this.#ending = undefined;
    done(err);
    for (const release of waiting) release?.();
  }

  // Sending.

  #enqueue(chunks: Buffer[], done: () => void): void {
    for (const chunk of chunks) this.#replay.append(chunk);
    const unsent = this.#replay.end - this.#replay.sent;
    if (!this.#connection || unsent > JOINED || this.#replay.end > this.#limit) {
      this.#writing = done;
      this.#flush();
      return;
    }
    // Small writes of one turn are sent together: SSH makes three of each packet.
    if (!this.#flushing) {
      this.#flushing = true;
      process.nextTick(() => {
        this.#flushing = false;
        this.#flush();
      });
    }
    done();
  }

  #flush(): void {
    if (this.#over) return;
    const connection = this.#connection;
    const limit = Math.min(this.#limit, this.#mayKeep());
    if (connection) {
      connection.cork();
      while (this.#replay.sent < this.#replay.end && this.#replay.sent < limit && !connection.writableNeedDrain) {
        this.#sendData(
          connection,
          Math.min(MAX_FRAME, limit - this.#replay.sent, this.#replay.end - this.#replay.sent),
        );
      }
      if (this.#ending && this.#replay.sent === this.#replay.end && !this.#finSent) {
        this.#finSent = true;
        this.#frame(connection, FRAME.fin, Buffer.alloc(0));
      }
      connection.uncork();
    }
    if (this.#writing && (this.#replay.sent === this.#replay.end || (!connection && this.#replay.end < limit))) {
      const done = this.#writing;
      this.#writing = undefined;
      done();
    }
  }

  /** Up to where may be sent so that the bytes can be sent again. */
  #mayKeep(): number {
    const needed = Math.min(this.#limit, this.#replay.end) - this.#acked;
    while (this.#keep < needed && this.#keep < MAX_WINDOW && this.#take(this.#keep)) this.#keep *= 2;
    return this.#acked + this.#keep;
  }

  #sendData(connection: Duplex, length: number): void {
    connection.write(encodeHeader(FRAME.data, length));
    this.#replay.send(length, (piece) => connection.write(piece));
  }

  #acknowledged(upTo: number): void {
    this.#replay.acknowledge(Math.min(upTo, this.#replay.end));
    this.#acked = Math.max(this.#acked, upTo);
    if (this.#acked > this.#replay.end && this.#ending) {
      const done = this.#ending;
      this.#ending = undefined;
      done();
    }
  }

  // Receiving.

  #onFrame(type: number, payload: Buffer): void {
    switch (type) {
      case FRAME.ack: {
        const received = Number(payload.readBigUInt64BE(0));
        if (received < this.#acked || received > this.#replay.sent + (this.#finSent ? 1 : 0)) {
          throw new ResumeError('protocol', 'the peer acknowledges bytes that were not sent');
        }
        this.#limit = Math.max(this.#limit, Number(payload.readBigUInt64BE(8)));
        this.#acknowledged(received);
        if (this.complete) this.#finish();
        else this.#flush();
        return;
      }
      case FRAME.fin:
        if (this.#finReceived) throw new ResumeError('protocol', 'a second end');
        this.#finReceived = true;
        this.#received++;
        if (this.#queue.length === 0) this.push(null);
        this.#sendAck();
        if (this.complete) this.#finish();
        return;
      case FRAME.ping:
        if (this.#connection) this.#frame(this.#connection, FRAME.pong, payload);
        return;
      case FRAME.pong:
        this.#roundTrip.measured(Math.max(0, performance.now() - payload.readDoubleBE(0)));
        return;
      case FRAME.close:
        this.#letGo()?.destroy();
        this.destroy(new ResumeError('closed', 'the other side has ended the session'));
        return;
    }
  }

  #receive(piece: Buffer): void {
    if (this.#finReceived) throw new ResumeError('protocol', 'data after the end');
    this.#received += piece.length;
    if (this.#received > this.#granted) throw new ResumeError('protocol', 'the peer exceeds its window');
    if (this.#wanted && this.#queue.length === 0) this.#wanted = this.push(piece);
    else {
      this.#queue.push(piece);
      this.#queued += piece.length;
    }
    if (this.destroyed) return;
    this.#grant();
    if (this.#received - this.#toldReceived >= ACK_EVERY) this.#sendAck();
    else this.#ackTimer ??= setTimeout(() => this.#sendAck(), ACK_DELAY_MS).unref();
  }

  /** Sends the peer more credit if enough was read. A window that is used up within a round trip grows. */
  #grant(): void {
    const read = this.#received - this.#queued;
    if (this.#gauge.isShort(read, this.#window, this.#roundTrip)) {
      if (this.#window < MAX_WINDOW && this.#take(this.#window)) this.#window *= 2;
    }
    this.#measure();
    if (read + this.#window - this.#granted >= this.#window / 2) this.#sendAck();
  }

  #sendAck(): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    const connection = this.#connection;
    if (!connection || this.#over) return;
    // The end takes no room and needs none.
    this.#granted = Math.max(this.#granted, this.#received - this.#queued + this.#window);
    this.#toldReceived = this.#received;
    connection.write(encodeAck(this.#received, this.#granted));
  }

  #measure(): void {
    if (this.#connection && this.#roundTrip.due()) this.#sendPing(this.#connection);
  }

  #sendPing(connection: Duplex): void {
    const payload = Buffer.alloc(8);
    payload.writeDoubleBE(performance.now());
    this.#frame(connection, FRAME.ping, payload);
  }

  #frame(connection: Duplex, type: number, payload: Buffer): void {
    if (connection.destroyed || connection.writableEnded) return;
    connection.write(Buffer.concat([encodeHeader(type, payload.length), payload]));
  }

  #take(bytes: number): boolean {
    if (this.#budget.left < bytes) return false;
    this.#budget.left -= bytes;
    this.#taken += bytes;
    return true;
  }

  /** Finishes the session when the connection has nothing left to deliver. The reader may still have to read. */
  #finish(): void {
    const connection = this.#letGo();
    if (connection) endConnection(connection);
  }
}
