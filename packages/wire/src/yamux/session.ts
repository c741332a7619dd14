import { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import { RoundTrip } from '../round-trip.ts';
import {
  encodeHeader,
  FLAG,
  GO_AWAY,
  INITIAL_WINDOW,
  TYPE,
  YamuxError,
  type YamuxHeader,
  YamuxParser,
} from './frames.ts';
import { YamuxStream } from './stream.ts';

export interface YamuxOptions {
  /** The dialing side is the client (odd stream ids). */
  role: 'client' | 'server';
  /**
   * Called for each stream that the peer opens. Without it (and without a 'stream' listener) the session resets them.
   */
  onStream?: (stream: YamuxStream) => void;
  /**
   * Pings the peer every `intervalMs` (default 30 s) and gives up when a ping takes longer than `timeoutMs` (default 10
   * s).
   */
  keepAlive?: { intervalMs: number; timeoutMs: number } | false;
  /** How long the peer may take to acknowledge a stream before the session ends, in ms (default 75,000). */
  streamOpenTimeoutMs?: number;
  /** How many streams may wait for the peer's acknowledgement at the same time (default 256, which upstream allows). */
  acceptBacklog?: number;
  /** How many streams of the peer may be open at the same time (default 4,096). The session resets others. */
  maxIncomingStreams?: number;
  /**
   * The receive window per stream in bytes, at least the protocol's 256 KiB. An update raises it when the stream opens.
   */
  maxWindow?: number;
  /**
   * By how many bytes the windows of all streams together may grow for a long round trip (default 0). Only our own
   * peers expect that.
   */
  growth?: number;
}

export interface YamuxClose {
  reason: string;
  /** Absent if this side closed the session or the peer ended the connection cleanly. */
  error?: Error;
}

export interface YamuxEvents {
  stream: [stream: YamuxStream];
  goAway: [];
  /** The last open stream has ended. */
  idle: [];
  close: [close: YamuxClose];
}

interface PendingPing {
  sentAt: number;
  settle: (result: number | Error) => void;
}

/** The limit of unread control frames that a peer makes us send. Beyond it the session drops the peer. */
const MAX_UNREAD = 8 * 1024 * 1024;
const FLUSH_MS = 5_000;

/** A yamux session over a byte stream, which it owns from now on. */
export class YamuxSession extends EventEmitter<YamuxEvents> {
  /** Resolves with the reason when the connection is gone. Never rejects. */
  readonly closed: Promise<YamuxClose>;
  /** The time of the last answer to a ping, as performance.now(). */
  lastPong: number | undefined;
  readonly #conn: Duplex;
  readonly #client: boolean;
  readonly #openTimeoutMs: number;
  readonly #backlog: number;
  readonly #maxIncoming: number;
  readonly #window: number;
  #growth: number;
  readonly #roundTrip = new RoundTrip();
  readonly #streams = new Map<number, YamuxStream>();
  readonly #unacked = new Map<number, NodeJS.Timeout>();
  readonly #pings = new Map<number, PendingPing>();
  readonly #resolveClosed: (close: YamuxClose) => void;
  #ready: YamuxStream[] = [];
  #running = false;
  #incoming = 0;
  #receiving: YamuxStream | undefined;
  #finAfterPayload = false;
  #nextId: number;
  #nextPing = 1;
  #corked = false;
  #held = false;
  #localGoAway = false;
  #remoteGoAway = false;
  #ending: YamuxClose | undefined;
  #keepAlive: NodeJS.Timeout | undefined;

  constructor(conn: Duplex, options: YamuxOptions) {
    super();
    this.#conn = conn;
    this.#client = options.role === 'client';
    this.#nextId = this.#client ? 1 : 2;
    this.#openTimeoutMs = options.streamOpenTimeoutMs ?? 75_000;
    this.#backlog = options.acceptBacklog ?? 256;
    this.#maxIncoming = options.maxIncomingStreams ?? 4_096;
    this.#window = Math.max(options.maxWindow ?? INITIAL_WINDOW, INITIAL_WINDOW);
    this.#growth = options.growth ?? 0;
    if (options.onStream) this.on('stream', options.onStream);
    let resolve: (close: YamuxClose) => void = () => {};
    this.closed = new Promise((r) => {
      resolve = r;
    });
    this.#resolveClosed = resolve;
    const parser = new YamuxParser({
      header: (header) => this.#onHeader(header),
      payload: (piece, end) => this.#onPayload(piece, end),
    });
    conn.on('data', (chunk: Buffer) => {
      if (this.#ending) return;
      try {
        parser.push(chunk);
      } catch (err) {
        if (!(err instanceof YamuxError)) throw err;
        this.#fail(err);
      }
    });
    conn.on('drain', () => this.#runReady());
    conn.on('error', (error) => this.#shutdown({ reason: error.message, error }));
    conn.on('end', () => {
      this.#shutdown({ reason: 'the peer ended the connection' });
      conn.end();
    });
    conn.on('close', () => this.#onClosed());
    if (conn.closed) process.nextTick(() => this.#onClosed());
    const keepAlive = options.keepAlive ?? { intervalMs: 30_000, timeoutMs: 10_000 };
    if (keepAlive) this.#startKeepAlive(keepAlive);
  }

  /** The number of open streams of both sides. */
  get streamCount(): number {
    return this.#streams.size;
  }

  get isClosed(): boolean {
    return this.#ending !== undefined;
  }

  /**
   * Whether the session ended, or is about to end, because of a protocol error, a silent peer or a broken connection.
   */
  get failed(): boolean {
    return this.#ending?.error !== undefined;
  }

  /**
   * Opens a stream, which can be written immediately. Throws YamuxError: closed, go_away (the peer accepts no more),
   * backlog.
   */
  openStream(): YamuxStream {
    if (this.#ending) throw new YamuxError('closed', `the session is closed: ${this.#ending.reason}`);
    if (this.#remoteGoAway) throw new YamuxError('go_away', 'the peer accepts no more streams');
    if (this.#unacked.size >= this.#backlog) {
      throw new YamuxError('backlog', `${this.#unacked.size} streams already wait for the peer`);
    }
    if (this.#nextId > 0xffffffff) throw new YamuxError('closed', 'the session has used all stream ids');
    const id = this.#nextId;
    this.#nextId += 2;
    const stream = this.#addStream(id);
    const timer = setTimeout(() => {
      this.#shutdown({
        reason: 'the peer did not acknowledge a stream in time',
        error: new YamuxError('timeout', `stream ${id} was not acknowledged within ${this.#openTimeoutMs} ms`),
      });
      this.#conn.destroy();
    }, this.#openTimeoutMs);
    this.#unacked.set(id, timer.unref());
    this.#control(TYPE.windowUpdate, FLAG.syn, id, this.#window - INITIAL_WINDOW);
    return stream;
  }

  /** Measures the round trip to the peer in ms. Rejects with YamuxError (timeout, closed) or the signal's reason. */
  ping(options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<number> {
    const { timeoutMs = 10_000, signal } = options;
    return new Promise((resolve, reject) => {
      if (this.#ending) throw new YamuxError('closed', `the session is closed: ${this.#ending.reason}`);
      signal?.throwIfAborted();
      if (this.#pings.size >= 1_024) throw new YamuxError('backlog', 'too many pings wait for the peer');
      const id = this.#nextPing;
      this.#nextPing = (this.#nextPing + 1) >>> 0;
      const aborted = () => settle(signal?.reason as Error);
      const timer = setTimeout(
        () => settle(new YamuxError('timeout', `no answer to a ping within ${timeoutMs} ms`)),
        timeoutMs,
      );
      const settle = (result: number | Error) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', aborted);
        this.#pings.delete(id);
        if (typeof result === 'number') {
          this.#roundTrip.measured(result);
          resolve(result);
        } else reject(result);
      };
      signal?.addEventListener('abort', aborted, { once: true });
      this.#pings.set(id, { sentAt: performance.now(), settle });
      this.#control(TYPE.ping, FLAG.syn, 0, id);
    });
  }

  /**
   * Asks the peer to open no more streams. Open streams go on. An upstream client does not reconnect after this alone:
   * follow with close().
   */
  goAway(): void {
    if (this.#ending || this.#localGoAway) return;
    this.#localGoAway = true;
    this.#control(TYPE.goAway, 0, 0, GO_AWAY.normal);
  }

  /** Ends the session: flushes pending writes, destroys open streams and ends the connection. */
  close(reason = 'closed by this side'): Promise<YamuxClose> {
    if (!this.#ending) {
      this.#shutdown({ reason });
      this.#endConnection();
    }
    return this.closed;
  }

  /** Drops the connection immediately. */
  destroy(error?: Error): void {
    this.#shutdown(error ? { reason: error.message, error } : { reason: 'dropped by this side' });
    this.#conn.destroy();
  }

  #addStream(id: number): YamuxStream {
    const stream = new YamuxStream(
      id,
      {
        schedule: (s) => this.#schedule(s),
        control: (type, flags, streamId, length) => this.#control(type, flags, streamId, length),
        data: (streamId, parts, length) => this.#data(streamId, parts, length),
        forget: (s) => this.#forget(s),
        takeWindow: (bytes) => {
          if (this.#growth < bytes) return false;
          this.#growth -= bytes;
          return true;
        },
        giveWindow: (bytes) => {
          this.#growth += bytes;
        },
        roundTrip: () => this.#measuredRoundTrip(),
      },
      this.#window,
    );
    this.#streams.set(id, stream);
    return stream;
  }

  #measuredRoundTrip(): RoundTrip {
    if (this.#growth > 0 && !this.#ending && this.#roundTrip.due()) void this.ping().catch(() => {});
    return this.#roundTrip;
  }

  #forget(stream: YamuxStream): void {
    if (this.#streams.get(stream.id) !== stream) return;
    this.#streams.delete(stream.id);
    if (this.#isIncoming(stream.id)) this.#incoming--;
    // The peer need not acknowledge a stream that it will find reset.
    else this.#acknowledged(stream.id);
    if (this.#streams.size === 0) this.emit('idle');
  }

  #isIncoming(id: number): boolean {
    return (id & 1) !== (this.#client ? 1 : 0);
  }

  #acknowledged(id: number): void {
    clearTimeout(this.#unacked.get(id));
    this.#unacked.delete(id);
  }

  #onHeader({ type, flags, streamId, length }: YamuxHeader): void {
    this.#receiving = undefined;
    this.#finAfterPayload = false;
    if (this.#ending) return;
    if (type === TYPE.ping) this.#onPing(flags, length);
    else if (type === TYPE.goAway) this.#onGoAway(length);
    else this.#onStreamFrame(type, flags, streamId, length);
  }

  #onStreamFrame(type: number, flags: number, streamId: number, length: number): void {
    if (flags & FLAG.syn) this.#onSyn(streamId);
    const stream = this.#streams.get(streamId);
    if (!stream) return;
    if (flags & FLAG.ack) this.#acknowledged(streamId);
    if (type === TYPE.data) {
      stream.receiveHeader(length);
      this.#receiving = stream;
      this.#finAfterPayload = length > 0 && (flags & FLAG.fin) !== 0;
    } else if (length > 0) {
      stream.receiveWindow(length);
    }
    if (flags & FLAG.fin && !this.#finAfterPayload) stream.receiveFin();
    if (flags & FLAG.rst) {
      stream.abort(new YamuxError('reset', `the peer dropped stream ${streamId}`));
      this.#forget(stream);
    }
  }

  #onPayload(piece: Buffer, end: boolean): void {
    const stream = this.#receiving;
    stream?.receivePayload(piece);
    if (!end) return;
    this.#receiving = undefined;
    if (this.#finAfterPayload) stream?.receiveFin();
    this.#finAfterPayload = false;
  }

  #onSyn(id: number): void {
    if (id === 0 || !this.#isIncoming(id))
      throw new YamuxError('protocol', `the peer opened stream ${id}, which is not one of its ids`);
    if (this.#streams.has(id)) throw new YamuxError('protocol', `the peer opened stream ${id} twice`);
    if (this.#localGoAway || this.#incoming >= this.#maxIncoming || this.listenerCount('stream') === 0) {
      this.#control(TYPE.windowUpdate, FLAG.rst, id, 0);
      return;
    }
    this.#incoming++;
    const stream = this.#addStream(id);
    this.#hold();
    this.#control(TYPE.windowUpdate, FLAG.ack, id, this.#window - INITIAL_WINDOW);
    this.emit('stream', stream);
  }

  #onPing(flags: number, id: number): void {
    if (flags & FLAG.syn) {
      this.#control(TYPE.ping, FLAG.ack, 0, id);
      return;
    }
    const ping = this.#pings.get(id);
    if (!ping) return;
    this.lastPong = performance.now();
    ping.settle(this.lastPong - ping.sentAt);
  }

  #onGoAway(code: number): void {
    if (code !== GO_AWAY.normal) throw new YamuxError('protocol', `the peer ended the session with code ${code}`);
    this.#remoteGoAway = true;
    this.emit('goAway');
  }

  #startKeepAlive({ intervalMs, timeoutMs }: { intervalMs: number; timeoutMs: number }): void {
    this.#keepAlive = setInterval(() => {
      this.ping({ timeoutMs }).catch((error: Error) => {
        if (this.#ending) return;
        this.#shutdown({ reason: error.message, error });
        this.#conn.destroy();
      });
    }, intervalMs).unref();
  }

  /** Sends the frames of one turn of the event loop in one write. */
  #cork(): void {
    if (this.#corked) return;
    this.#corked = true;
    this.#conn.cork();
    process.nextTick(() => {
      this.#corked = false;
      this.#conn.uncork();
    });
  }

  /** Sends the acknowledgement of a stream together with its first answer, if that does not wait for anything. */
  #hold(): void {
    if (this.#held) return;
    this.#held = true;
    this.#conn.cork();
    setImmediate(() => {
      this.#held = false;
      this.#conn.uncork();
    });
  }

  #control(type: number, flags: number, streamId: number, length: number): void {
    if (this.#ending || this.#conn.destroyed) return;
    this.#cork();
    this.#conn.write(encodeHeader(type, flags, streamId, length));
    if (this.#conn.writableLength > MAX_UNREAD) {
      this.destroy(new YamuxError('protocol', 'the peer does not read the answers that it requests'));
    }
  }

  #data(streamId: number, parts: readonly Buffer[], length: number): void {
    if (this.#ending || this.#conn.destroyed) return;
    this.#cork();
    this.#conn.write(encodeHeader(TYPE.data, 0, streamId, length));
    for (const part of parts) this.#conn.write(part);
  }

  #schedule(stream: YamuxStream): void {
    this.#ready.push(stream);
    this.#runReady();
  }

  /** Gives each waiting stream one frame in turn, for as long as the connection accepts more. */
  #runReady(): void {
    if (this.#running) return;
    this.#running = true;
    let next = 0;
    while (next < this.#ready.length && !this.#conn.writableNeedDrain && !this.#ending) {
      this.#ready[next++]!.takeTurn();
    }
    this.#ready.splice(0, next);
    this.#running = false;
  }

  #fail(error: YamuxError): void {
    this.#control(TYPE.goAway, 0, 0, GO_AWAY.protocolError);
    this.#shutdown({ reason: error.message, error });
    this.#endConnection();
  }

  #endConnection(): void {
    const conn = this.#conn;
    if (this.#corked) process.nextTick(() => conn.end());
    else conn.end();
    // A peer that neither reads nor closes must not keep the connection.
    const timer = setTimeout(() => conn.destroy(), FLUSH_MS);
    conn.once('close', () => clearTimeout(timer));
  }

  #shutdown(close: YamuxClose): void {
    if (this.#ending) return;
    this.#ending = close;
    clearInterval(this.#keepAlive);
    for (const timer of this.#unacked.values()) clearTimeout(timer);
    this.#unacked.clear();
    const error = new YamuxError('closed', `the session ended: ${close.reason}`, { cause: close.error });
    for (const { settle } of [...this.#pings.values()]) settle(error);
    for (const stream of [...this.#streams.values()]) stream.sessionEnded(error);
    this.#streams.clear();
    this.#ready = [];
  }

  #onClosed(): void {
    this.#shutdown({ reason: 'the connection broke', error: new YamuxError('closed', 'the connection broke') });
    this.#resolveClosed(this.#ending!);
    this.emit('close', this.#ending!);
  }
}
