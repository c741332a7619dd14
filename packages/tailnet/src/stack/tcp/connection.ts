// One TCP connection (RFC 9293) without its place in the stack: the handshake, what arrives, and when to answer. What
// leaves and what was lost is the sender's business. Offsets count from the first byte of either direction.
//
// - `opening`: our SYN waits for an answer. `deciding`: the peer's SYN waits for the application. `answering`: our
//   answer to the SYN waits for its acknowledgment. `open`: until both FINs are acknowledged, or a RST. `closed`.
// - Answers are not sent for each packet but when the stack has received a group of packets and flushes it, so that one
//   acknowledgment answers a group.
import { SecondLimit } from '../counts.ts';
import { type Budget, type Network, NetworkError } from '../network.ts';
import { type Alarm, createAlarm } from '../timers.ts';
import { ReceiveQueue } from './receive-queue.ts';
import { RoundTrip } from './round-trip.ts';
import {
  controlSegment,
  dataSegment,
  FLAG,
  headerOf,
  MAX_MSS,
  MSS,
  type Outgoing,
  type Route,
  type Segment,
  segmentBytes,
  synSegment,
  TIMESTAMP_OPTION_BYTES,
} from './segment.ts';
import { MAX_BURST, Sender, type Sent } from './sender.ts';

/** So many timeouts in a row make long segments suspect. */
const LONG_TIMEOUTS = 2;
/** Windows up to 65,535 << 7, 8 MiB. */
const WINDOW_SCALE = 7;
const MAX_UNSCALED_WINDOW = 65_535;
/** A peer's segments are not smaller, whatever it says, so that it cannot make us send many tiny packets. */
const MIN_MSS = 536;
const DELAYED_ACK_MS = 40;
/** So many segments of the start are acknowledged immediately, because the sender needs it to become fast. */
const QUICK_ACKS = 16;
/** Acknowledgments of one group of packets that leave immediately to show a gap. */
const MAX_DUPLICATE_ACKS = 3;
const MAX_SYN_RETRIES = 6;
const MAX_UNANSWERED = 10;
/** Answers per second to segments that do not fit (RFC 5961). */
const MAX_CHALLENGE_ACKS = 10;
const KEEPALIVE_IDLE_MS = 7_200_000;
const KEEPALIVE_INTERVAL_MS = 75_000;
const KEEPALIVE_PROBES = 9;
/** A peer that was silent for this long was perhaps unreachable. */
const SILENCE_MS = 1_000;
/** The application may write until this much was never sent. */
const MAX_UNSENT = 256 * 1024;
const NEVER = Number.POSITIVE_INFINITY;

export type State = 'opening' | 'deciding' | 'answering' | 'open' | 'closed';

/** The events of a connection, for its stream. */
export interface ConnectionEvents {
  onOpen(): void;
  /** There are bytes to read, or the peer has ended its direction. */
  onReadable(): void;
  onWritable(): void;
  /** The peer has acknowledged everything, the end included. */
  onFinished(): void;
  onFailed(error: NetworkError): void;
}

/** What a connection needs of the stack. */
export interface ConnectionHost {
  readonly network: Network;
  readonly sendBudget: Budget;
  readonly receiveBudget: Budget;
  /** Calls `flush` soon. */
  soon(connection: Connection): void;
  /** The handshake has completed. */
  opened(connection: Connection): void;
  /** The connection no longer receives. `waits`: late segments of the peer must not meet a new connection. */
  ended(connection: Connection, waits: boolean): void;
}

export class Connection {
  readonly route: Route;
  readonly key: string;
  /** Whether the peer began. */
  readonly isPassive: boolean;
  readonly #host: ConnectionHost;
  readonly #alarm: Alarm;
  readonly #roundTrip = new RoundTrip();
  readonly #received = new ReceiveQueue();
  readonly #initial: number;
  readonly #out: Outgoing;
  readonly #timestampOffset: number;
  #events: ConnectionEvents | undefined;
  #state: State;
  #sender: Sender | undefined;
  #isFlushing = false;
  #error: NetworkError | undefined;
  // the peer's options
  #peerInitial = 0;
  #peerMss = MIN_MSS;
  #peerScale = 0;
  #hasScale = true;
  #hasSack = true;
  #recentTimestamp = 0;
  #peerWindow = 0;
  // the handshake
  #synSentAt = 0;
  #synRetries = 0;
  #synAt = NEVER;
  #deadlineAt = NEVER;
  // the window and its last update (RFC 9293: SND.WL1, SND.WL2)
  #windowSeq = 0;
  #windowAck = 0;
  #edge = 0;
  // acknowledgments
  #ackNow = false;
  #unacked = 0;
  #quickAcks = QUICK_ACKS;
  #delayedAckAt = NEVER;
  #duplicateAcks = 0;
  #lastAck = 0;
  /** When the rest of a burst leaves. */
  #burstAt = NEVER;
  readonly #challenges = new SecondLimit(MAX_CHALLENGE_ACKS);
  // ends
  #finOffset: number | undefined;
  #isFinReceived = false;
  #isEnding = false;
  #isFinAcked = false;
  #wasFirstToEnd = false;
  // keepalive
  #keepAliveMs = KEEPALIVE_IDLE_MS;
  #keepAliveIntervalMs = KEEPALIVE_INTERVAL_MS;
  #keepAliveAt = NEVER;
  #keepAlives = 0;
  #receivedAt = 0;
  #accounted = { sent: 0, received: 0 };

  constructor(host: ConnectionHost, options: { route: Route; key: string; initial: number; isActive: boolean }) {
    this.#host = host;
    this.route = options.route;
    this.key = options.key;
    this.#initial = options.initial;
    this.isPassive = !options.isActive;
    this.#state = options.isActive ? 'opening' : 'deciding';
    this.#timestampOffset = Math.floor(host.network.random() * 2 ** 32);
    this.#alarm = createAlarm((now) => this.#ring(now));
    const header = headerOf(options.route);
    this.#out = { header, seq: 0, ack: 0, window: 0, timestamps: { value: 0, echo: 0 } };
  }

  get state(): State {
    return this.#state;
  }

  /** Why it is closed, if both sides did not end it. */
  get error(): NetworkError | undefined {
    return this.#error;
  }

  get sender(): Sender | undefined {
    return this.#sender;
  }

  get roundTripMs(): number | undefined {
    return this.#roundTrip.smoothed;
  }

  /** For a connection that ended: the next sequence numbers of both directions, and the peer's newest timestamp. */
  get last(): { seq: number; ack: number; timestamp: number } {
    return { seq: this.#seqOf(this.#sender?.next ?? 0), ack: this.#ackNumber(), timestamp: this.#recentTimestamp };
  }

  attach(events: ConnectionEvents): void {
    this.#events = events;
  }

  // opening

  /** Sends the SYN. The connection fails if it is not open after `timeoutMs`. */
  open(timeoutMs: number): void {
    const now = this.#host.network.now();
    this.#deadlineAt = now + timeoutMs;
    this.#sendSyn(now);
  }

  /** Takes the peer's SYN. The answer leaves with `answer`. */
  takeSyn(segment: Segment): void {
    this.#takeOptions(segment);
    this.#peerInitial = segment.seq;
    this.#peerWindow = segment.window;
  }

  /** Refuses the SYN unless it is answered within this time. */
  awaitDecision(timeoutMs: number): void {
    this.#deadlineAt = this.#host.network.now() + timeoutMs;
    this.#arm();
  }

  /** Answers the SYN. */
  answer(timeoutMs: number): void {
    if (this.#state !== 'deciding') return;
    const now = this.#host.network.now();
    this.#state = 'answering';
    this.#deadlineAt = now + timeoutMs;
    this.#sendSyn(now);
  }

  #takeOptions(segment: Segment): void {
    this.#peerMss = Math.max(MIN_MSS, Math.min(segment.mss === 0 ? MIN_MSS : segment.mss, MAX_MSS));
    this.#hasScale = segment.windowScale >= 0;
    this.#peerScale = Math.max(0, segment.windowScale);
    this.#hasSack = segment.isSackPermitted;
    if (segment.hasTimestamps) this.#recentTimestamp = segment.timestamp;
    else this.#out.timestamps = undefined;
  }

  #sendSyn(now: number): void {
    if (this.#synRetries > MAX_SYN_RETRIES) {
      this.#timedOut('No answer to the handshake');
      return;
    }
    this.#synSentAt = now;
    this.#synAt = now + this.#roundTrip.timeout(this.#synRetries++);
    const out = this.#out;
    out.seq = this.#initial;
    out.ack = (this.#peerInitial + 1) >>> 0;
    out.window = Math.min(this.#freeWindow(), MAX_UNSCALED_WINDOW);
    this.#edge = this.#received.next + out.window;
    this.#stamp(now);
    const flags = this.#state === 'opening' ? FLAG.syn : FLAG.syn | FLAG.ack;
    const options = { windowScale: this.#hasScale ? WINDOW_SCALE : undefined, isSackPermitted: this.#hasSack };
    this.#host.network.send(synSegment(out, flags, options));
    this.#arm();
  }

  #receiveOpening(segment: Segment, now: number): void {
    const isAckRight = segment.is(FLAG.ack) && segment.ack === (this.#initial + 1) >>> 0;
    if (segment.is(FLAG.ack) && !isAckRight) {
      if (!segment.is(FLAG.rst)) this.#sendReset(segment.ack);
      return;
    }
    if (segment.is(FLAG.rst)) {
      if (isAckRight) this.#close(new NetworkError('ECONNREFUSED', 'The peer refuses the connection'));
      return;
    }
    if (!segment.is(FLAG.syn)) return;
    this.takeSyn(segment);
    if (isAckRight) {
      this.#established(now);
      this.#ackNow = true;
      return;
    }
    // both sides open at the same time
    this.#state = 'answering';
    this.#synRetries = 0;
    this.#sendSyn(now);
  }

  #established(now: number): void {
    this.#state = 'open';
    this.#synAt = NEVER;
    this.#deadlineAt = NEVER;
    if (this.#synRetries === 1) this.#roundTrip.sample(now - this.#synSentAt);
    const mss = this.#mssOf(MSS);
    const window = this.#peerWindow;
    this.#sender = new Sender({ mss, roundTrip: this.#roundTrip, window, hasSack: this.#hasSack });
    this.#windowSeq = this.#peerInitial;
    this.#windowAck = this.#initial;
    this.#noteReceived(now);
    this.#host.opened(this);
    this.#events?.onOpen();
    this.#host.soon(this);
  }

  /** The payload of segments up to this length for the peer. */
  #mssOf(segment: number): number {
    return Math.min(this.#peerMss, segment) - (this.#out.timestamps ? TIMESTAMP_OPTION_BYTES : 0);
  }

  // numbers

  #seqOf(offset: number): number {
    return (this.#initial + 1 + offset) >>> 0;
  }

  #peerOffset(seq: number): number {
    const { next } = this.#received;
    return next + ((seq - this.#peerSeq(next)) | 0);
  }

  #peerSeq(offset: number): number {
    return (this.#peerInitial + 1 + offset) >>> 0;
  }

  #ackNumber(): number {
    return this.#peerSeq(this.#received.next + (this.#isFinReceived ? 1 : 0));
  }

  #timestamp(now: number): number {
    return (Math.floor(now) + this.#timestampOffset) >>> 0;
  }

  #stamp(now: number): void {
    const { timestamps } = this.#out;
    if (!timestamps) return;
    timestamps.value = this.#timestamp(now);
    timestamps.echo = this.#recentTimestamp;
  }

  // receiving

  receive(segment: Segment, packet: Buffer): void {
    const now = this.#host.network.now();
    if (this.#state === 'opening') this.#receiveOpening(segment, now);
    else if (this.#state === 'deciding') this.#receiveDeciding(segment);
    else if (this.#state !== 'closed') this.#receive(segment, packet, now);
    if (this.#state === 'open') this.#host.soon(this);
  }

  #receiveDeciding(segment: Segment): void {
    if (segment.is(FLAG.rst) && segment.seq === (this.#peerInitial + 1) >>> 0)
      this.#close(new NetworkError('ECONNRESET', 'The peer gave up'));
  }

  #receive(segment: Segment, packet: Buffer, now: number): void {
    const offset = this.#peerOffset(segment.seq);
    if (this.#isOld(segment)) {
      this.#challenge(now, segment.end > segment.start);
      return;
    }
    if (!this.#fits(segment, offset)) {
      this.#receiveMisfit(segment, packet, offset, now);
      return;
    }
    if (segment.is(FLAG.rst)) {
      if (segment.seq !== this.#ackNumber()) this.#challenge(now);
      else this.#receiveReset();
      return;
    }
    if (segment.is(FLAG.syn)) {
      this.#challenge(now);
      return;
    }
    if (!segment.is(FLAG.ack)) return;
    if (this.#state === 'answering') {
      if (segment.ack !== (this.#initial + 1) >>> 0) {
        this.#sendReset(segment.ack);
        return;
      }
      this.#peerWindow = segment.window << this.#peerScale;
      this.#established(now);
      if (this.state !== 'open') return; // the application has ended it
    }
    if (!this.#receiveAck(segment, now)) return;
    this.#noteReceived(now);
    if (segment.hasTimestamps && ((segment.seq - this.#lastAck) | 0) <= 0) this.#recentTimestamp = segment.timestamp;
    if (segment.end > segment.start) this.#receivePayload(packet.subarray(segment.start, segment.end), offset);
    if (segment.is(FLAG.fin)) this.#finOffset ??= offset + segment.end - segment.start;
    this.#takeFin();
    this.#closeIfDone();
  }

  /** A segment that wrapped sequence numbers ago (PAWS). */
  #isOld(segment: Segment): boolean {
    if (!this.#out.timestamps || !segment.hasTimestamps || segment.is(FLAG.rst)) return false;
    return ((segment.timestamp - this.#recentTimestamp) | 0) < 0;
  }

  #fits(segment: Segment, offset: number): boolean {
    const next = this.#received.next + (this.#isFinReceived ? 1 : 0);
    if (segment.length === 0) return offset >= next && offset <= Math.max(this.#edge, next);
    return offset < this.#edge && offset + segment.length > next;
  }

  #receiveMisfit(segment: Segment, packet: Buffer, offset: number, now: number): void {
    if (segment.is(FLAG.rst)) return;
    if (this.#state === 'answering') {
      // our answer to the SYN was lost
      if (segment.is(FLAG.syn) && segment.seq === this.#peerInitial) this.#sendSyn(now);
      return;
    }
    this.#noteReceived(now);
    const hasPayload = segment.end > segment.start;
    // notes what came twice
    if (hasPayload && offset < this.#received.next && !this.#isFinReceived)
      this.#received.push(
        offset,
        packet.subarray(segment.start, Math.min(segment.end, segment.start + this.#received.next - offset)),
      );
    this.#challenge(now, hasPayload || segment.is(FLAG.fin));
  }

  /** An acknowledgment for a segment that does not fit. Those without payload are limited: two stacks could go on for ever. */
  #challenge(now: number, isUnlimited = false): void {
    if (this.#state !== 'open') return;
    if (isUnlimited || this.#challenges.take(now)) this.#ackNow = true;
  }

  #receiveReset(): void {
    const isRefused = this.#state === 'answering';
    this.#close(new NetworkError('ECONNRESET', isRefused ? 'The peer gave up' : 'The peer reset the connection'));
  }

  /** False if the segment is to be ignored. */
  #receiveAck(segment: Segment, now: number): boolean {
    const sender = this.#sender!;
    const base = sender.unacknowledged;
    const ack = base + ((segment.ack - this.#seqOf(base)) | 0);
    if (ack > sender.next) {
      this.#challenge(now);
      return false;
    }
    const isFresh =
      ((segment.seq - this.#windowSeq) | 0) > 0 ||
      (segment.seq === this.#windowSeq && ((segment.ack - this.#windowAck) | 0) >= 0);
    if (isFresh && ack >= base) {
      const window = segment.window << this.#peerScale;
      this.#windowSeq = segment.seq;
      this.#windowAck = segment.ack;
      sender.setWindow(ack + window, window);
    }
    const { sacks } = segment;
    for (let i = 0; i < sacks.length; i++) sacks[i] = base + ((sacks[i]! - this.#seqOf(base)) | 0);
    if (ack < base && sacks.length === 0) return true;
    const echo = this.#out.timestamps && segment.hasTimestamps ? segment.echo : undefined;
    const { isAdvance, isFinAcked } = sender.acknowledge(Math.max(ack, base), sacks, now, echo);
    if (isFinAcked) {
      this.#isFinAcked = true;
      this.#events?.onFinished();
    }
    if (isAdvance) this.#account();
    return true;
  }

  #receivePayload(payload: Buffer, offset: number): void {
    const received = this.#received;
    if (this.#isFinReceived || (this.#finOffset !== undefined && offset + payload.length > this.#finOffset)) return;
    const isNext = offset <= received.next;
    const limit = this.#host.receiveBudget.allowance(received.held);
    // what fills the first gap is taken while the application reads: dropping it would stop the connection for good
    if ((isNext ? received.readyHeld : received.held + payload.length) > limit) {
      this.#ackNow = true;
      return;
    }
    const hadGaps = received.hasGaps;
    const room = this.#edge - offset;
    received.push(offset, payload.length > room ? payload.subarray(0, room) : payload);
    this.#account();
    this.#unacked++;
    if (!isNext || hadGaps || received.hasDuplicate) {
      this.#ackNow = true;
      if (!isNext && this.#duplicateAcks++ < MAX_DUPLICATE_ACKS) this.#sendAck(this.#host.network.now());
    } else if (this.#quickAcks > 0) {
      this.#quickAcks--;
      this.#ackNow = true;
    }
  }

  #takeFin(): void {
    if (this.#finOffset !== this.#received.next || this.#isFinReceived) return;
    this.#isFinReceived = true;
    this.#ackNow = true;
    this.#wasFirstToEnd = (this.#sender?.hasSentFin ?? false) || this.#isFinAcked;
  }

  #closeIfDone(): void {
    if (!this.#isFinAcked || !this.#isFinReceived || this.#state !== 'open') return;
    if (this.#ackNow) this.#sendAck(this.#host.network.now());
    this.#close(undefined);
  }

  // the application

  /** Whether the application may write more. */
  get isWritable(): boolean {
    const sender = this.#sender;
    if (!sender || this.#state !== 'open') return false;
    return sender.unsent < MAX_UNSENT && sender.buffered < this.#host.sendBudget.allowance(sender.buffered);
  }

  /** Whether the peer has ended its direction and everything was read. */
  get isAtEnd(): boolean {
    return this.#isFinReceived && this.#received.readyBytes === 0;
  }

  get isFinished(): boolean {
    return this.#isFinAcked;
  }

  write(chunk: Uint8Array): void {
    if (this.#state !== 'open' || this.#isEnding) return;
    this.#sender!.push(chunk);
    this.#account();
    this.#soon();
  }

  /** A flush that is under way sends it already. */
  #soon(): void {
    if (!this.#isFlushing && this.#state === 'open') this.#host.soon(this);
  }

  /** Ends the own direction, after everything that was written. */
  end(): void {
    if (this.#state !== 'open' || this.#isEnding) return;
    this.#isEnding = true;
    this.#sender!.end();
    this.#soon();
  }

  read(): Buffer | undefined {
    const chunk = this.#received.read();
    if (!chunk) return undefined;
    this.#account();
    this.#soon();
    return chunk;
  }

  /** An idle connection asks every now and then whether the peer is there. 0: never. */
  setKeepAlive(idleMs: number, intervalMs: number = KEEPALIVE_INTERVAL_MS): void {
    this.#keepAliveMs = idleMs;
    this.#keepAliveIntervalMs = intervalMs;
    this.#keepAliveAt = idleMs > 0 ? this.#host.network.now() + idleMs : NEVER;
    this.#arm();
  }

  /**
   * The path to the peer changed, or this machine slept: sends again what has no answer, or asks whether the peer still has
   * the connection.
   */
  retry(): void {
    const sender = this.#sender;
    if (this.#state !== 'open' || !sender) return;
    const now = this.#host.network.now();
    if (sender.unacknowledged < sender.next) sender.retry(now);
    else this.#sendProbe(now);
    this.#soon();
  }

  /** Resets the connection and forgets everything that waits. Without an effect if it is closed. */
  abort(error?: NetworkError): void {
    this.#resetPeer();
    this.#close(error);
    this.#received.clear();
    this.#account();
  }

  // sending

  /** Gives arrived bytes to the application, and sends everything that may be sent. */
  flush(): void {
    // the last bytes, if both sides have ended the connection
    if (this.#state === 'closed' && !this.#error) this.#events?.onReadable();
    if (this.#state !== 'open' || this.#isFlushing) return;
    this.#isFlushing = true;
    try {
      if (this.#received.readyBytes > 0 || this.#isFinReceived) this.#events?.onReadable();
      if (this.#state !== 'open') return;
      const now = this.#host.network.now();
      const isSent = this.#sendData(now);
      this.#acknowledge(now, isSent);
      this.#duplicateAcks = 0;
      this.#arm();
    } finally {
      this.#isFlushing = false;
    }
    if (this.isWritable) this.#events?.onWritable();
  }

  #sendData(now: number): boolean {
    const sender = this.#sender!;
    this.#fitSegments();
    const maxBytes = MAX_BURST * MSS;
    let count = 0;
    let bytes = 0;
    for (; count < MAX_BURST && bytes < maxBytes; count++) {
      const sent = sender.take(now);
      if (!sent) break;
      bytes += sent.end - sent.start;
      this.#sendSegment(sent, now);
    }
    // the rest after other connections have had their turn
    if (count === MAX_BURST || bytes >= maxBytes) this.#burstAt = now + 1;
    else this.#burstAt = NEVER;
    return count > 0;
  }

  /** Segments are as long as the path allows. Only who sends many bytes asks the path. */
  #fitSegments(): void {
    const sender = this.#sender!;
    if (this.#peerMss <= MSS || (sender.unsent <= sender.mss && !sender.hasLongSegments)) return;
    sender.setMss(this.#mssOf(segmentBytes(this.#host.network.packetBytes(this.route.peer))));
  }

  /** After two timeouts the path may have lost segments because of their length. */
  #shortenSegments(): void {
    const sender = this.#sender!;
    if (!sender.hasLongSegments || sender.expirations < LONG_TIMEOUTS) return;
    this.#host.network.longPacketsLost(this.route.peer);
    sender.setMss(this.#mssOf(MSS));
  }

  #sendSegment(sent: Sent, now: number): void {
    const sender = this.#sender!;
    const length = sent.end - sent.start - (sent.isFin ? 1 : 0);
    const isLast = sent.end >= sender.next && sender.unsent === 0;
    const flags = FLAG.ack | (isLast && length > 0 ? FLAG.psh : 0) | (sent.isFin ? FLAG.fin : 0);
    this.#prepare(this.#seqOf(sent.start), now);
    this.#host.network.send(dataSegment(this.#out, flags, length, (packet, at) => sender.copy(sent, packet, at)));
  }

  /** Fills the part of the header that every segment of an open connection has. */
  #prepare(seq: number, now: number): void {
    const out = this.#out;
    const { next } = this.#received;
    out.seq = seq;
    out.ack = this.#ackNumber();
    const scale = this.#hasScale ? WINDOW_SCALE : 0;
    const free = Math.max(this.#freeWindow(), this.#edge - next);
    out.window = Math.min(free >>> scale, MAX_UNSCALED_WINDOW);
    this.#edge = Math.max(this.#edge, next + (out.window << scale));
    this.#lastAck = out.ack;
    this.#stamp(now);
  }

  #freeWindow(): number {
    const { held } = this.#received;
    return Math.max(0, this.#host.receiveBudget.allowance(held) - held);
  }

  #sendAck(now: number): void {
    this.#prepare(this.#seqOf(this.#sender!.next), now);
    const blocks: number[] = [];
    if (this.#hasSack) this.#received.sackBlocks(blocks);
    for (let i = 0; i < blocks.length; i++) blocks[i] = this.#peerSeq(blocks[i]!);
    this.#host.network.send(controlSegment(this.#out, FLAG.ack, blocks));
    this.#acknowledged();
  }

  #acknowledged(): void {
    this.#ackNow = false;
    this.#unacked = 0;
    this.#delayedAckAt = NEVER;
  }

  #acknowledge(now: number, isSent: boolean): void {
    const mustShowGaps = this.#ackNow && (this.#received.hasGaps || this.#received.hasDuplicate);
    if (isSent && !mustShowGaps) this.#acknowledged();
    else if (this.#ackNow || this.#unacked >= 2 || this.#hasMuchMoreWindow()) this.#sendAck(now);
    else if (this.#unacked > 0 && this.#delayedAckAt === NEVER) this.#delayedAckAt = now + DELAYED_ACK_MS;
  }

  /** Whether the application has read so much that the peer needs a new window. */
  #hasMuchMoreWindow(): boolean {
    const known = this.#edge - this.#received.next;
    const free = this.#freeWindow();
    return free - known >= Math.min(this.#host.receiveBudget.maxEach / 4, known < 2 * MSS ? 2 * MSS : NEVER);
  }

  #sendReset(seq: number): void {
    const out = this.#out;
    out.seq = seq;
    out.ack = this.#ackNumber();
    out.window = 0;
    this.#stamp(this.#host.network.now());
    this.#host.network.send(controlSegment(out, this.#state === 'opening' ? FLAG.rst : FLAG.rst | FLAG.ack));
  }

  /** Sends a RST to a peer that may know the connection, or waits for the answer to its SYN. */
  #resetPeer(): void {
    if (this.#state === 'deciding') this.#sendReset(0);
    else if (this.#state === 'answering' || this.#state === 'open')
      this.#sendReset(this.#seqOf(this.#sender?.next ?? 0));
  }

  // timers

  #noteReceived(now: number): void {
    // the timeout of a peer that was away has grown
    if (now - this.#receivedAt >= SILENCE_MS) this.#sender?.retry(now);
    this.#receivedAt = now;
    this.#keepAlives = 0;
    if (this.#keepAliveMs > 0) this.#keepAliveAt = now + this.#keepAliveMs;
    this.#sender?.answered();
  }

  #arm(): void {
    if (this.#state === 'closed') return;
    const sender = this.#sender;
    const at = Math.min(
      this.#synAt,
      this.#deadlineAt,
      this.#delayedAckAt,
      this.#keepAliveAt,
      this.#burstAt,
      sender ? Math.min(sender.dueAt, sender.pacedAt) : NEVER,
    );
    if (at !== this.#alarm.dueAt) this.#host.network.timers.set(this.#alarm, at);
  }

  #ring(now: number): void {
    if (this.#state === 'closed') return;
    if (now >= this.#deadlineAt) {
      this.#timedOut('The handshake took too long');
      return;
    }
    if (now >= this.#synAt) this.#sendSyn(now);
    if (now >= this.#delayedAckAt) this.#ackNow = true;
    if (this.#state !== 'open') {
      this.#arm();
      return;
    }
    const sender = this.#sender!;
    if (now >= sender.dueAt) {
      const sent = sender.tick(now, this.#timestamp(now));
      this.#shortenSegments();
      if (sender.unanswered > MAX_UNANSWERED) {
        this.#timedOut('The peer does not acknowledge');
        return;
      }
      if (sent === 'window') this.#sendProbe(now);
      else if (sent) this.#sendSegment(sent, now);
    }
    if (now >= this.#keepAliveAt && !this.#keepAlive(now)) return;
    this.flush();
  }

  /** False if the peer is gone. */
  #keepAlive(now: number): boolean {
    this.#keepAliveAt = Math.max(now, this.#receivedAt) + this.#keepAliveIntervalMs;
    if (this.#sender!.inflight > 0) return true;
    if (this.#keepAlives++ >= KEEPALIVE_PROBES) {
      this.#timedOut('The peer does not answer keepalives');
      return false;
    }
    this.#sendProbe(now);
    return true;
  }

  /** A segment before the window, which the peer answers with its window. */
  #sendProbe(now: number): void {
    this.#prepare(this.#seqOf(this.#sender!.unacknowledged - 1), now);
    this.#host.network.send(controlSegment(this.#out, FLAG.ack));
  }

  #timedOut(what: string): void {
    this.#resetPeer();
    this.#close(new NetworkError('ETIMEDOUT', what));
  }

  #close(error: NetworkError | undefined): void {
    if (this.#state === 'closed') return;
    const waits = error === undefined && this.#isFinAcked && this.#isFinReceived && this.#wasFirstToEnd;
    this.#state = 'closed';
    this.#error = error;
    this.#host.network.timers.cancel(this.#alarm);
    this.#host.ended(this, waits);
    this.#sender?.close();
    if (error) this.#received.clear();
    this.#account();
    if (error) this.#events?.onFailed(error);
    else this.#host.soon(this);
  }

  /** Counts what is held in the budgets of all connections. */
  #account(): void {
    const sent = this.#state === 'closed' ? 0 : (this.#sender?.buffered ?? 0);
    const received = this.#received.held;
    this.#host.sendBudget.used += sent - this.#accounted.sent;
    this.#host.receiveBudget.used += received - this.#accounted.received;
    this.#accounted.sent = sent;
    this.#accounted.received = received;
  }
}
