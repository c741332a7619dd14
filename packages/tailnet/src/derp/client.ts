// One connection to a relay, as a client. A connection that ended is not repaired: its owner makes a new one.
import type { Duplex } from 'node:stream';
import { type Clock, systemClock } from '@ropewalk/kit';
import { Box } from '../box.ts';
import { type KeyPair, sameSecret } from '../keys.ts';
import {
  DerpError,
  DerpFrameReader,
  decodePacket,
  decodePeerGone,
  decodePing,
  decodeRestarting,
  decodeServerInfo,
  decodeServerKey,
  encodeClientInfo,
  encodeFrame,
  encodeSend,
  FRAME,
  HEADER_BYTES,
  PING_BYTES,
  type Restart,
} from './frames.ts';

export interface DerpClientOptions {
  keys: KeyPair;
  /** The relay's public key, if it is known in advance. Another relay is rejected. */
  relayKey?: Uint8Array;
  /** Only measures the relay. Default false. */
  isProber?: boolean;
  clock?: Pick<Clock, 'monotonic'>;
  /** A packet from the client with this key. Both are views of received bytes, which the receiver may keep and change. */
  onPacket: (source: Buffer, packet: Buffer) => void;
  /** A client that sent packets has disconnected, or a destination is absent. `reason` is one of GONE. */
  onPeerGone?: (key: Buffer, reason: number) => void;
  /** What is wrong with this connection. Empty: nothing. */
  onHealth?: (problem: string) => void;
  /** The relay stops and announces when to come back. */
  onRestart?: (restart: Restart) => void;
}

const SIGN_IN_MS = 10_000;
/** The relay sends a keepalive each minute. */
const SILENCE_MS = 120_000;
/** How long a close waits for the relay to accept what was sent. */
const CLOSE_MS = 5_000;
const TICK_MS = 1_000;
/** Maximum number of bytes that wait for a slow connection. Further packets are dropped, as on any network. */
const MAX_WAITING_BYTES = 512 * 1024;
/** The default timeout of a ping. A slow relay answers only the latest ping. */
export const PING_MS = 10_000;
/** Maximum number of pings without an answer. */
const MAX_PINGS = 16;

interface WaitingPing {
  sentAt: number;
  timeoutMs: number;
  done: (ms: number) => void;
  failed: (err: DerpError) => void;
}

export class DerpClient {
  /** Resolves when the client is signed in. Rejects with DerpError if the connection ends before. */
  readonly ready: Promise<void>;
  /** Resolves when the connection ended: with the error, or without one if either side closed it. Never rejects. */
  readonly closed: Promise<DerpError | undefined>;
  readonly #stream: Duplex;
  readonly #options: DerpClientOptions;
  readonly #now: () => number;
  readonly #reader = new DerpFrameReader((type, frame) => this.#receive(type, frame));
  readonly #timer: NodeJS.Timeout;
  readonly #since: number;
  readonly #pings = new Map<string, WaitingPing>();
  readonly #isReady = Promise.withResolvers<void>();
  readonly #isClosed = Promise.withResolvers<DerpError | undefined>();
  #state: 'serverKey' | 'serverInfo' | 'open' | 'closed' = 'serverKey';
  #box: Box | undefined;
  #receivedAt: number;
  #corked = false;
  #nextPing = 1n;
  #dropped = 0;

  /** `stream` is a connection to a relay, after its upgrade. The client owns it from now on. */
  constructor(stream: Duplex, options: DerpClientOptions) {
    const clock = options.clock ?? systemClock;
    this.#stream = stream;
    this.#options = options;
    this.#now = () => clock.monotonic();
    this.#since = this.#now();
    this.#receivedAt = this.#since;
    this.ready = this.#isReady.promise;
    this.closed = this.#isClosed.promise;
    // whether anyone waits for the sign-in is the owner's choice
    this.ready.catch(() => {});
    this.#timer = setInterval(() => this.tick(), TICK_MS).unref();
    stream.on('data', (chunk: Buffer) => this.#read(chunk));
    stream.once('end', () => this.#end());
    stream.once('close', () => this.#end());
    stream.on('error', (cause) =>
      this.#end(new DerpError('closed', `The connection failed: ${cause.message}`, { cause })),
    );
  }

  /** Packets that were dropped because the connection was slow or not open. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Sends a packet to the client with this key. Returns false if it was dropped. */
  send(destination: Uint8Array, packet: Uint8Array): boolean {
    if (this.#state !== 'open' || this.#stream.writableLength > MAX_WAITING_BYTES) {
      this.#dropped++;
      return false;
    }
    this.#write(encodeSend(destination, packet));
    return true;
  }

  /** Reports whether this relay is the client's home. Without effect until the client is signed in. */
  notePreferred(isHome: boolean): void {
    if (this.#state === 'open') this.#write(encodeFrame(FRAME.notePreferred, Buffer.from([isHome ? 1 : 0])));
  }

  /** Measures the round trip to the relay, in ms. Rejects with DerpError after the timeout, or when the connection ends. */
  ping(timeoutMs: number = PING_MS): Promise<number> {
    if (this.#state !== 'open') return Promise.reject(new DerpError('closed', 'The connection is not open'));
    if (this.#pings.size >= MAX_PINGS) return Promise.reject(new DerpError('timeout', 'Too many pings have no answer'));
    const payload = Buffer.allocUnsafe(PING_BYTES);
    payload.writeBigUInt64BE(this.#nextPing++);
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#pings.set(payload.toString('hex'), { sentAt: this.#now(), timeoutMs, done: resolve, failed: reject });
    this.#write(encodeFrame(FRAME.ping, payload));
    return promise;
  }

  /** Ends the connection if the relay is silent for too long, and pings that have no answer. The client's timer calls it each second. */
  tick(): void {
    const now = this.#now();
    if (this.#state !== 'open' && now - this.#since > SIGN_IN_MS)
      this.#end(new DerpError('timeout', `The relay did not complete the sign-in within ${SIGN_IN_MS / 1000} s`));
    else if (now - this.#receivedAt > SILENCE_MS)
      this.#end(new DerpError('timeout', `The relay was silent for ${SILENCE_MS / 1000} s`));
    for (const [name, { sentAt, timeoutMs, failed }] of this.#pings) {
      if (now - sentAt <= timeoutMs) continue;
      this.#pings.delete(name);
      failed(new DerpError('timeout', `The relay did not answer the ping within ${timeoutMs / 1000} s`));
    }
  }

  /** Ends the connection after everything that was sent. */
  close(): void {
    this.#end();
  }

  #read(chunk: Buffer): void {
    this.#receivedAt = this.#now();
    if (this.#state === 'closed') return;
    try {
      this.#reader.push(chunk);
    } catch (err) {
      if (!(err instanceof DerpError)) throw err;
      this.#end(err);
    }
  }

  #receive(type: number, frame: Buffer): void {
    if (this.#state === 'serverKey') {
      this.#introduce(type, frame);
      return;
    }
    if (type === FRAME.serverInfo) {
      if (this.#state !== 'serverInfo') throw new DerpError('protocol', 'The relay completed the sign-in twice');
      decodeServerInfo(this.#box!, frame);
      this.#state = 'open';
      this.#isReady.resolve();
      return;
    }
    switch (type) {
      case FRAME.receive: {
        const { key, packet } = decodePacket(frame);
        this.#options.onPacket(key, packet);
        return;
      }
      case FRAME.ping:
        // a relay that asks faster than it reads gets no more answers
        if (this.#stream.writableLength <= MAX_WAITING_BYTES) this.#write(encodeFrame(FRAME.pong, decodePing(frame)));
        return;
      case FRAME.pong: {
        const name = decodePing(frame).toString('hex');
        const ping = this.#pings.get(name);
        this.#pings.delete(name);
        ping?.done(this.#now() - ping.sentAt);
        return;
      }
      case FRAME.peerGone: {
        const { key, reason } = decodePeerGone(frame);
        this.#options.onPeerGone?.(key, reason);
        return;
      }
      case FRAME.health:
        this.#options.onHealth?.(frame.toString('utf8', HEADER_BYTES));
        return;
      case FRAME.restarting:
        this.#options.onRestart?.(decodeRestarting(frame));
        return;
      default: // keepalives, and frames for other relays: without effect
    }
  }

  #introduce(type: number, frame: Buffer): void {
    if (type !== FRAME.serverKey) throw new DerpError('protocol', `Frame ${type} came before the relay's key`);
    const { keys, relayKey, isProber = false } = this.#options;
    const key = decodeServerKey(frame);
    if (relayKey && !sameSecret(key, relayKey)) throw new DerpError('unauthenticated', 'This is another relay');
    this.#box = Box.between(keys, key);
    if (!this.#box) throw new DerpError('protocol', "The relay's key is not usable");
    this.#state = 'serverInfo';
    this.#write(encodeClientInfo(keys.publicKey, this.#box, { canAckPings: true, isProber }));
  }

  #write(frame: Buffer): void {
    if (this.#stream.destroyed || this.#stream.writableEnded) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#stream.cork();
      setImmediate(() => {
        this.#corked = false;
        this.#stream.uncork();
      });
    }
    this.#stream.write(frame);
  }

  #end(error?: DerpError): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    clearInterval(this.#timer);
    this.#reader.stop();
    const reason = error ?? new DerpError('closed', 'The connection to the relay ended');
    this.#isReady.reject(reason);
    this.#isClosed.resolve(error);
    for (const { failed } of this.#pings.values()) failed(reason);
    this.#pings.clear();
    const destroy = () => this.#stream.destroy();
    if (error) destroy();
    else {
      this.#stream.end(destroy);
      setTimeout(destroy, CLOSE_MS).unref();
    }
  }
}
