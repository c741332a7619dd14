// One WireGuard peer: takes packets of the tunnel and gives messages for the network, and the reverse. It opens no
// socket and sets no timer.
//
// - The initiator asks for a handshake, the responder answers. Either side may initiate.
// - `current` is the session for sending. `previous` still receives. `next` is a responder's session until the initiator
//   has used it, because the response may have been lost.
import { randomBytes } from 'node:crypto';
import { type Clock, systemClock } from '@ropewalk/kit';
import type { KeyPair } from '../keys.ts';
import {
  type Consumed,
  consumeInitiation,
  consumeResponse,
  createInitiation,
  createResponse,
  INITIATION_BYTES,
  type Initiated,
  MESSAGE,
  RESPONSE_BYTES,
  type SessionKeys,
  StaticKeys,
  timestampOf,
} from './handshake.ts';
import { COOKIE_REPLY_BYTES, MacChecker, MacWriter } from './macs.ts';
import { indexOfData, KEEPALIVE_BYTES, MAX_PACKET_BYTES, Session, trimPacket } from './session.ts';

export interface PeerOptions {
  keys: KeyPair;
  /** The peer's public key, 32 bytes. */
  peer: Uint8Array;
  clock?: Pick<Clock, 'now' | 'monotonic'>;
  /** A number from 0 to 1, which spreads retries. Default Math.random. */
  random?: () => number;
  /** A message for the peer, in a buffer that its receiver may keep. */
  onMessage: (message: Buffer) => void;
  /** An IP packet from the peer. The source address in it is the receiver's to check. */
  onPacket: (packet: Buffer) => void;
  /** A handshake completed: the peer is reachable. */
  onHandshake?: () => void;
}

/** A load under which handshakes require a cookie. `source` is the sender's address in any form. */
export interface Load {
  source: Uint8Array;
}

export interface PeerStats {
  /** When the last handshake completed. */
  handshakeAt: Date | undefined;
  /** Bytes of messages, without those that were rejected. */
  bytesReceived: number;
  bytesSent: number;
  /** Sessions whose keys are kept. */
  sessions: number;
  /** Messages that were rejected, and packets that were dropped while no session came about. */
  rejected: number;
  dropped: number;
}

const REKEY_AFTER_MS = 120_000;
const REJECT_AFTER_MS = 180_000;
const REKEY_TIMEOUT_MS = 5_000;
const REKEY_JITTER_MS = 334;
/**
 * The first retries come sooner. A relay drops what comes while the peer's connection to it moves to another server, and a
 * new connection would wait for a whole timeout. Responders accept an initiation each 20 ms.
 */
const EARLY_RETRIES_MS = [1_000, 2_000] as const;
/** Retries go on for this long. */
const REKEY_ATTEMPT_MS = 90_000;
const KEEPALIVE_MS = 10_000;
/** An initiator that receives replaces its session early, so that it never lacks one. */
const REKEY_ON_RECEIVE_MS = REJECT_AFTER_MS - KEEPALIVE_MS - REKEY_TIMEOUT_MS;
const WIPE_AFTER_MS = 3 * REJECT_AFTER_MS;
const MIN_INITIATION_MS = 20;
/** Maximum number of packets that wait for a session. The oldest are dropped. */
const MAX_WAITING = 128;
const EMPTY: Buffer = Buffer.alloc(0);
const NEVER = Number.POSITIVE_INFINITY;

export class Peer {
  readonly #options: PeerOptions;
  readonly #static: StaticKeys;
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly #macs: MacWriter;
  readonly #checker: MacChecker;
  #current: Session | undefined;
  #previous: Session | undefined;
  #next: Session | undefined;
  #initiated: Initiated | undefined;
  #waiting: Buffer[] = [];
  #persistentMs = 0;
  /** The peer's newest timestamp, and when it came. */
  #greatest = EMPTY;
  #consumedAt = Number.NEGATIVE_INFINITY;
  /** Our newest timestamp. */
  #timestamp = EMPTY;
  #initiatedAt = Number.NEGATIVE_INFINITY;
  /** When the first attempt of the current series began. Undefined if no response is awaited. */
  #attemptingSince: number | undefined;
  /** Initiations in the current series. */
  #attempts = 0;
  #wantsKeepalive = false;
  // times in monotonic ms at which timers are due
  #retryAt = NEVER;
  #keepaliveAt = NEVER;
  #unansweredAt = NEVER;
  #persistentAt = NEVER;
  #wipeAt = NEVER;
  readonly #stats: Omit<PeerStats, 'sessions'> = {
    handshakeAt: undefined,
    bytesReceived: 0,
    bytesSent: 0,
    rejected: 0,
    dropped: 0,
  };

  private constructor(options: PeerOptions, keys: StaticKeys) {
    this.#options = options;
    this.#static = keys;
    this.#clock = options.clock ?? systemClock;
    this.#macs = new MacWriter(keys.peer);
    this.#checker = new MacChecker(keys.own.publicKey);
  }

  /** Undefined if no session is possible with this public key. */
  static create(options: PeerOptions): Peer | undefined {
    const keys = StaticKeys.between(options.keys, options.peer);
    return keys && new Peer(options, keys);
  }

  get stats(): PeerStats {
    return { ...this.#stats, sessions: this.#sessions().length };
  }

  /** The monotonic time, in ms, at which `tick` has something to do. Infinity if never. */
  get dueAt(): number {
    return Math.min(this.#retryAt, this.#keepaliveAt, this.#unansweredAt, this.#persistentAt, this.#wipeAt);
  }

  /** Sends a keepalive whenever the connection was silent for this long. 0: never, the default. */
  setPersistentKeepalive(ms: number): void {
    this.#persistentMs = ms;
    this.#persistentAt = ms > 0 ? this.#now() + ms : NEVER;
  }

  /**
   * Sends an IP packet, or keeps it until there is a session. Returns false if it is longer than
   * MAX_PACKET_BYTES. The packet must not be changed later.
   */
  send(packet: Buffer): boolean {
    if (packet.length > MAX_PACKET_BYTES) return false;
    if (this.#waiting.length === MAX_WAITING) {
      this.#waiting.shift();
      this.#stats.dropped++;
    }
    this.#waiting.push(packet);
    this.#flush();
    return true;
  }

  /** Initiates a handshake, unless one began within the last 5 seconds. */
  initiate(): void {
    if (this.#now() - this.#initiatedAt >= REKEY_TIMEOUT_MS) this.#beginHandshake();
  }

  /**
   * Replaces the session, which the peer may have forgotten. A handshake that began within the last 5 seconds goes on, and
   * earlier attempts do not count.
   */
  renew(): void {
    const now = this.#now();
    const isUnderWay = this.#attemptingSince !== undefined && now - this.#initiatedAt < REKEY_TIMEOUT_MS;
    this.#attemptingSince = now;
    if (!isUnderWay) this.#sendInitiation();
  }

  /** Takes a message from the network. Messages that are not the peer's have no effect. */
  receive(message: Buffer, load?: Load): void {
    if (!this.#receive(message, load)) {
      this.#stats.rejected++;
      return;
    }
    this.#stats.bytesReceived += message.length;
  }

  /** Does everything that is due. */
  tick(): void {
    const now = this.#now();
    if (now >= this.#wipeAt) this.#wipe();
    if (now >= this.#keepaliveAt) {
      this.#keepaliveAt = NEVER;
      this.#sendKeepalive();
      if (this.#wantsKeepalive) {
        this.#wantsKeepalive = false;
        this.#keepaliveAt = now + KEEPALIVE_MS;
      }
    }
    if (now >= this.#unansweredAt) {
      this.#unansweredAt = NEVER;
      this.initiate();
    }
    if (now >= this.#persistentAt) {
      this.#persistentAt = now + this.#persistentMs;
      this.#sendKeepalive();
    }
    if (now >= this.#retryAt) this.#retry(now);
  }

  /** Forgets all sessions and packets, for a peer that is gone. `send` or a new initiation of the peer starts it again. */
  stop(): void {
    this.#wipe();
    this.#dropWaiting();
    this.#retryAt = NEVER;
    this.#attemptingSince = undefined;
    this.setPersistentKeepalive(0);
  }

  #now(): number {
    return this.#clock.monotonic();
  }

  #jitter(): number {
    return (this.#options.random ?? Math.random)() * REKEY_JITTER_MS;
  }

  #emit(message: Buffer): void {
    this.#stats.bytesSent += message.length;
    this.#options.onMessage(message);
  }

  // sending

  /** The session for sending, if it is young enough. */
  #usable(): Session | undefined {
    return this.#current && this.#now() - this.#current.since < REJECT_AFTER_MS ? this.#current : undefined;
  }

  #flush(): void {
    const session = this.#usable();
    if (!session) {
      this.initiate();
      return;
    }
    const packets = this.#waiting;
    this.#waiting = [];
    if (packets.length === 0) return;
    const now = this.#now();
    this.#keepaliveAt = NEVER;
    this.#noteTraffic(now);
    if (packets.some((packet) => packet.length > 0) && this.#unansweredAt === NEVER)
      this.#unansweredAt = now + KEEPALIVE_MS + REKEY_TIMEOUT_MS + this.#jitter();
    // sealed before any is given away, because a receiver may stop this peer
    for (const message of packets.map((packet) => session.seal(packet))) this.#emit(message);
    if (session.isInitiator && now - session.since >= REKEY_AFTER_MS) this.initiate();
  }

  #sendKeepalive(): void {
    if (this.#waiting.length === 0) this.#waiting.push(EMPTY);
    this.#flush();
  }

  #noteTraffic(now: number): void {
    if (this.#persistentMs > 0) this.#persistentAt = now + this.#persistentMs;
  }

  // handshakes

  #beginHandshake(): void {
    if (this.#attemptingSince === undefined) this.#attempts = 0;
    this.#attemptingSince ??= this.#now();
    this.#sendInitiation();
  }

  #retry(now: number): void {
    this.#retryAt = NEVER;
    if (now - (this.#attemptingSince ?? now) < REKEY_ATTEMPT_MS) {
      this.#sendInitiation();
      return;
    }
    this.#attemptingSince = undefined;
    this.#initiated = undefined;
    this.#dropWaiting();
  }

  #sendInitiation(): void {
    const now = this.#now();
    this.#initiatedAt = now;
    this.#retryAt = now + (EARLY_RETRIES_MS[this.#attempts++] ?? REKEY_TIMEOUT_MS) + this.#jitter();
    const created = createInitiation(this.#static, this.#freshIndex(), this.#nextTimestamp());
    if (!created) return;
    this.#initiated = created.state;
    this.#macs.write(created.message, now);
    this.#noteTraffic(now);
    this.#emit(created.message);
  }

  /** Each timestamp is greater than the last one, also if the clock was set back. */
  #nextTimestamp(): Buffer {
    let timestamp = timestampOf(this.#clock.now().getTime());
    if (timestamp.compare(this.#timestamp) <= 0) {
      timestamp = Buffer.from(this.#timestamp);
      const nanoseconds = timestamp.readUInt32BE(8) + 1;
      timestamp.writeUInt32BE(nanoseconds, 8);
    }
    this.#timestamp = timestamp;
    return timestamp;
  }

  #freshIndex(): number {
    for (;;) {
      const index = randomBytes(4).readUInt32LE(0);
      const taken = [this.#current, this.#previous, this.#next, this.#initiated];
      if (taken.every((other) => other?.index !== index)) return index;
    }
  }

  // receiving

  #receive(message: Buffer, load: Load | undefined): boolean {
    if (message.length < KEEPALIVE_BYTES) return false;
    switch (message.readUInt32LE(0)) {
      case MESSAGE.data:
        return this.#receiveData(message);
      case MESSAGE.initiation:
        return (
          message.length === INITIATION_BYTES && this.#isAdmitted(message, load) && this.#receiveInitiation(message)
        );
      case MESSAGE.response:
        return message.length === RESPONSE_BYTES && this.#isAdmitted(message, load) && this.#receiveResponse(message);
      case MESSAGE.cookieReply:
        return message.length === COOKIE_REPLY_BYTES && this.#macs.takeCookie(message, this.#now());
      default:
        return false;
    }
  }

  #isAdmitted(message: Buffer, load: Load | undefined): boolean {
    if (!this.#checker.check(message)) return false;
    const now = this.#now();
    if (!load || this.#checker.checkCookie(message, load.source, now)) return true;
    this.#emit(this.#checker.reply(message, load.source, now));
    return false;
  }

  #receiveInitiation(message: Buffer): boolean {
    const now = this.#now();
    if (now - this.#consumedAt < MIN_INITIATION_MS) return false;
    const consumed = consumeInitiation(this.#static, message);
    if (!consumed || consumed.timestamp.compare(this.#greatest) <= 0) return false;
    this.#greatest = consumed.timestamp;
    this.#consumedAt = now;
    return this.#respond(consumed, now);
  }

  #respond(consumed: Consumed, now: number): boolean {
    const index = this.#freshIndex();
    const created = createResponse(this.#static, consumed, index);
    if (!created) return false;
    this.#next?.wipe();
    this.#next = this.#session(index, consumed.index, false, created.keys, now);
    this.#macs.write(created.message, now);
    this.#noteTraffic(now);
    this.#emit(created.message);
    return true;
  }

  #receiveResponse(message: Buffer): boolean {
    const consumed = this.#initiated && consumeResponse(this.#static, this.#initiated, message);
    if (!consumed) return false;
    const { index } = this.#initiated!;
    this.#initiated = undefined;
    const session = this.#session(index, consumed.index, true, consumed.keys, this.#now());
    this.#replaceCurrent(session);
    // the responder may send only after it has received something. `onHandshake` may have stopped this peer.
    if (this.#current === session) this.#sendKeepalive();
    return true;
  }

  #session(index: number, peerIndex: number, isInitiator: boolean, keys: SessionKeys, since: number): Session {
    this.#wipeAt = since + WIPE_AFTER_MS;
    return new Session({ index, peerIndex, isInitiator, keys, since });
  }

  #replaceCurrent(session: Session): void {
    if (this.#previous !== this.#current) this.#previous?.wipe();
    this.#previous = this.#current;
    this.#current = session;
    this.#attemptingSince = undefined;
    this.#retryAt = NEVER;
    this.#unansweredAt = NEVER;
    this.#stats.handshakeAt = this.#clock.now();
    this.#noteTraffic(this.#now());
    this.#options.onHandshake?.();
  }

  #receiveData(message: Buffer): boolean {
    const index = indexOfData(message);
    const session = this.#sessions().find((candidate) => candidate.index === index);
    const now = this.#now();
    if (!session || now - session.since >= REJECT_AFTER_MS) return false;
    const padded = session.open(message);
    if (!padded) return false;
    if (session === this.#next) {
      this.#next = undefined;
      this.#replaceCurrent(session);
      if (this.#current !== session) return true; // `onHandshake` stopped this peer
      if (this.#waiting.length > 0) this.#flush();
    }
    this.#unansweredAt = NEVER;
    this.#noteTraffic(now);
    if (session.isInitiator && now - session.since >= REKEY_ON_RECEIVE_MS) this.initiate();
    if (padded.length === 0) return true;
    if (this.#keepaliveAt === NEVER) this.#keepaliveAt = now + KEEPALIVE_MS;
    else this.#wantsKeepalive = true;
    const packet = trimPacket(padded);
    if (!packet) return false;
    this.#options.onPacket(packet);
    return true;
  }

  #sessions(): Session[] {
    return [this.#current, this.#previous, this.#next].filter((session) => session !== undefined);
  }

  #wipe(): void {
    for (const session of this.#sessions()) session.wipe();
    this.#current = undefined;
    this.#previous = undefined;
    this.#next = undefined;
    this.#initiated = undefined;
    this.#keepaliveAt = NEVER;
    this.#unansweredAt = NEVER;
    this.#wipeAt = NEVER;
  }

  #dropWaiting(): void {
    this.#stats.dropped += this.#waiting.length;
    this.#waiting = [];
  }
}
