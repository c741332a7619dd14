// The sending half of a connection: which bytes leave when, and which of them were lost.
//
// - Offsets count from the first byte of the connection. The FIN counts as one byte.
// - `Sent` is a transmitted segment. Its bounds stay when it is sent again, unless the path carries only shorter ones now.
// - Losses are detected by time (RACK, RFC 8985): a segment is lost if one that left later has arrived, and a bit more
//   than a round trip has passed. This includes retransmissions, which the rules of RFC 6675 leave to the timeout. After
//   three selective acknowledgments, no extra time is granted unless the path is known to reorder, as in RFC 6675.
// - A tail loss probe replaces most timeouts.
import { type AckSample, Bbr } from './bbr.ts';
import { Deque } from './deque.ts';
import type { RoundTrip } from './round-trip.ts';
import { SendQueue } from './send-queue.ts';

const STATE = { inFlight: 0, selectivelyAcked: 1, lost: 2, acked: 3 } as const;
type State = (typeof STATE)[keyof typeof STATE];

export interface Sent {
  start: number;
  end: number;
  state: State;
  sentAt: number;
  /** Which transmission of the connection it was. */
  order: number;
  transmissions: number;
  isFin: boolean;
  // for the rate of delivery, when it was sent
  delivered: number;
  deliveredAt: number;
  firstSentAt: number;
  isAppLimited: boolean;
}

const DUPLICATES_THRESHOLD = 3;
/** How early a packet may leave: about the resolution of timers. */
const PACING_SLACK_MS = 1;
/** After a pause, this many packets may leave together. Queues on the way have room for 256. */
export const MAX_BURST = 64;
/** Segments in flight, so that single bytes cannot hold much memory. */
const MAX_SEGMENTS = 16_384;
/** How long a peer may delay its answer to a single segment. */
const MAX_DELAYED_ACK_MS = 200;
const MIN_PROBE_MS = 2;
const MAX_REORDER_FACTOR = 8;
const NEVER = Number.POSITIVE_INFINITY;

/** What an acknowledgment changed. */
export interface Acked {
  /** Whether it acknowledged new bytes in order. */
  isAdvance: boolean;
  isFinAcked: boolean;
}

export interface SenderStats {
  retransmissions: number;
  timeouts: number;
  probes: number;
  spuriousTimeouts: number;
}

export class Sender {
  readonly stats: SenderStats = { retransmissions: 0, timeouts: 0, probes: 0, spuriousTimeouts: 0 };
  #mss: number;
  /** What every path carries. */
  readonly #shortMss: number;
  readonly #queue = new SendQueue();
  readonly #roundTrip: RoundTrip;
  readonly #bbr: Bbr;
  readonly #hasSack: boolean;
  /** By offset: everything that is not acknowledged in order. */
  #segments = new Deque<Sent>();
  /** By time of transmission. Entries whose order differs from their segment's were sent again since. */
  #flight = new Deque<{ segment: Sent; order: number }>();
  #lost = new Deque<Sent>();
  #next = 0;
  #isEnding = false;
  #windowEnd = 0;
  #maxWindow = 0;
  #inflight = 0;
  #order = 0;
  #selectivelyAcked = 0;
  #nextSendAt = 0;
  /** Whether something waits for its time. */
  #isPaced = false;
  #expirations = 0;
  #timeoutAt = NEVER;
  #probeAt = NEVER;
  #isProbing = false;
  #reorderAt = NEVER;
  #windowProbeAt = NEVER;
  #windowProbes = 0;
  #unanswered = 0;
  // rate of delivery
  #delivered = 0;
  #deliveredAt = 0;
  #firstSentAt = 0;
  #appLimitedUntil = 0;
  // RACK
  #rackOrder = -1;
  #rackRtt = 0;
  #farthest = 0;
  #isReordering = false;
  #reorderFactor = 1;
  #recoveryEnd = -1;
  /** The state before a timeout, until the next acknowledgment shows whether it was spurious. */
  #beforeTimeout: { cwnd: number; timestamp: number } | undefined;
  // of the acknowledgment that is being processed
  #newest: Sent | undefined;
  #newlyDelivered = 0;
  #newlyLost = 0;
  #rtt: number | undefined;

  /** `mss`: the payload of the first segments. */
  constructor(options: { mss: number; roundTrip: RoundTrip; window: number; hasSack: boolean }) {
    this.#mss = options.mss;
    this.#shortMss = options.mss;
    this.#roundTrip = options.roundTrip;
    this.#windowEnd = options.window;
    this.#maxWindow = options.window;
    this.#hasSack = options.hasSack;
    this.#bbr = new Bbr(options.mss, options.roundTrip.smoothed);
  }

  /** The first offset that is not acknowledged, and the first that was never sent. */
  get unacknowledged(): number {
    return this.#segments.first?.start ?? this.#next;
  }

  get next(): number {
    return this.#next;
  }

  /** Bytes of the application that are kept, and those of them that were never sent. */
  get buffered(): number {
    return this.#queue.end - this.#queue.start;
  }

  get unsent(): number {
    return Math.max(0, this.#queue.end - this.#next);
  }

  get hasSentFin(): boolean {
    return this.#next > this.#queue.end;
  }

  get inflight(): number {
    return this.#inflight;
  }

  get bbr(): Bbr {
    return this.#bbr;
  }

  /** The payload of a full segment. */
  get mss(): number {
    return this.#mss;
  }

  get hasLongSegments(): boolean {
    return this.#mss > this.#shortMss;
  }

  /** Timeouts since the last acknowledgment of new bytes. */
  get expirations(): number {
    return this.#expirations;
  }

  /** Timeouts and window probes since the peer's last segment. */
  get unanswered(): number {
    return this.#unanswered;
  }

  get dueAt(): number {
    return Math.min(this.#timeoutAt, this.#probeAt, this.#reorderAt, this.#windowProbeAt);
  }

  /** When pacing lets the next packet leave, if something waits for it. */
  get pacedAt(): number {
    return this.#isPaced ? this.#nextSendAt - PACING_SLACK_MS : NEVER;
  }

  push(chunk: Uint8Array): void {
    this.#queue.push(chunk);
  }

  /** A FIN follows the last byte. */
  end(): void {
    this.#isEnding = true;
  }

  /** Sets the payload of full segments. Longer ones that were sent are split, so that they can be sent again. */
  setMss(mss: number): void {
    if (mss === this.#mss) return;
    const isShorter = mss < this.#mss;
    this.#mss = mss;
    this.#bbr.mss = mss;
    if (isShorter) this.#split();
  }

  #split(): void {
    const partsOf = new Map<Sent, Sent[]>();
    const segments = new Deque<Sent>();
    this.#selectivelyAcked = 0;
    for (const segment of this.#segments) {
      const parts = this.#partsOf(segment);
      partsOf.set(segment, parts);
      for (const part of parts) {
        segments.push(part);
        if (part.state === STATE.selectivelyAcked) this.#selectivelyAcked++;
      }
    }
    const flight = new Deque<{ segment: Sent; order: number }>();
    for (const { segment, order } of this.#flight)
      for (const part of partsOf.get(segment) ?? []) flight.push({ segment: part, order });
    const lost = new Deque<Sent>();
    for (const segment of this.#lost) for (const part of partsOf.get(segment) ?? []) lost.push(part);
    this.#segments = segments;
    this.#flight = flight;
    this.#lost = lost;
  }

  /** The segment itself, or several of at most `mss` bytes. The last one has the FIN. */
  #partsOf(segment: Sent): Sent[] {
    const { start, end, isFin } = segment;
    const lastByte = end - (isFin ? 1 : 0);
    if (lastByte - start <= this.#mss) return [segment];
    const parts: Sent[] = [];
    for (let at = start; at < lastByte; at += this.#mss) {
      const isLast = at + this.#mss >= lastByte;
      parts.push({ ...segment, start: at, end: isLast ? end : at + this.#mss, isFin: isLast && isFin });
    }
    return parts;
  }

  copy(segment: Sent, packet: Buffer, at: number): void {
    this.#queue.copy(segment.start, segment.end - segment.start - (segment.isFin ? 1 : 0), packet, at);
  }

  // sending

  /** The segment that is to leave now, if any. It counts as sent. */
  take(now: number): Sent | undefined {
    const again = this.#nextLost();
    const length = again ? again.end - again.start : this.#newLength();
    this.#isPaced = false;
    if (length === 0) {
      if (this.#inflight < this.#bbr.cwnd && this.unsent === 0)
        this.#appLimitedUntil = Math.max(1, this.#delivered + this.#inflight);
      this.#armWindowProbe(now);
      return undefined;
    }
    if (this.#inflight > 0 && this.#inflight + length > this.#bbr.cwnd) return undefined;
    if (this.#nextSendAt > now + PACING_SLACK_MS) {
      this.#isPaced = true;
      return undefined;
    }
    if (again) this.#lost.shift();
    const segment = again ?? this.#newSegment(length);
    this.#transmitted(segment, now);
    return segment;
  }

  #nextLost(): Sent | undefined {
    while (this.#lost.first && this.#lost.first.state !== STATE.lost) this.#lost.shift();
    return this.#lost.first;
  }

  /** How many bytes a new segment has, with the FIN. 0 if there is nothing that may be sent. */
  #newLength(): number {
    const { unsent } = this;
    if (this.#segments.length >= MAX_SEGMENTS) return 0;
    const wanted = Math.min(unsent, this.#mss);
    const allowed = Math.min(wanted, Math.max(0, this.#windowEnd - this.#next));
    // a small segment because of a small window only if nothing else makes progress (RFC 9293, 3.8.6.2.1)
    if (allowed < wanted && this.#segments.length > 0 && allowed < this.#maxWindow / 2) return 0;
    const isLast = this.#isEnding && allowed === unsent && this.#next <= this.#queue.end;
    const isFin = isLast && this.#windowEnd > this.#next + allowed;
    return allowed + (isFin ? 1 : 0);
  }

  #newSegment(length: number): Sent {
    const end = this.#next + length;
    const segment: Sent = {
      start: this.#next,
      end,
      state: STATE.inFlight,
      sentAt: 0,
      order: 0,
      transmissions: 0,
      isFin: end > this.#queue.end,
      delivered: 0,
      deliveredAt: 0,
      firstSentAt: 0,
      isAppLimited: false,
    };
    this.#segments.push(segment);
    this.#next = end;
    return segment;
  }

  #transmitted(segment: Sent, now: number): void {
    const length = segment.end - segment.start;
    if (this.#inflight === 0) {
      this.#firstSentAt = now;
      this.#deliveredAt = now;
    }
    if (segment.transmissions > 0) this.stats.retransmissions++;
    segment.state = STATE.inFlight;
    segment.sentAt = now;
    segment.order = this.#order++;
    segment.transmissions++;
    segment.delivered = this.#delivered;
    segment.deliveredAt = this.#deliveredAt;
    segment.firstSentAt = this.#firstSentAt;
    segment.isAppLimited = this.#appLimitedUntil > this.#delivered;
    this.#inflight += length;
    this.#flight.push({ segment, order: segment.order });
    const rate = this.#bbr.pacingRate;
    const earliest = now - (MAX_BURST * this.#shortMss) / rate;
    this.#nextSendAt = Math.max(this.#nextSendAt, earliest) + length / rate;
    this.#windowProbeAt = NEVER;
    if (this.#timeoutAt === NEVER) this.#armTimeout(now);
    this.#armProbe(now);
  }

  // timers

  #armTimeout(now: number): void {
    this.#timeoutAt = this.#segments.length > 0 ? now + this.#roundTrip.timeout(this.#expirations) : NEVER;
  }

  /** The tail loss probe asks for an answer if the last segments were lost. */
  #armProbe(now: number): void {
    const { smoothed } = this.#roundTrip;
    this.#probeAt = NEVER;
    if (!this.#hasSack || smoothed === undefined || this.#isProbing || this.#expirations > 0) return;
    if (this.#segments.length === 0 || this.#recoveryEnd > this.unacknowledged) return;
    const delay = this.#segments.length === 1 ? MAX_DELAYED_ACK_MS : 0;
    this.#probeAt = Math.min(now + Math.max(2 * smoothed + delay, MIN_PROBE_MS), this.#timeoutAt);
  }

  #armWindowProbe(now: number): void {
    const isBlocked =
      this.#segments.length === 0 && (this.unsent > 0 || (this.#isEnding && this.#next <= this.#queue.end));
    if (!isBlocked) {
      this.#windowProbeAt = NEVER;
      this.#windowProbes = 0;
    } else if (this.#windowProbeAt === NEVER) this.#windowProbeAt = now + this.#roundTrip.timeout(this.#windowProbes);
  }

  /**
   * Does what is due. Returns a segment that leaves although no rule lets it, `window` if the peer is to be asked for
   * its window, or nothing: `take` then has something, perhaps. `timestamp` is the one that segments have now.
   */
  tick(now: number, timestamp: number): Sent | 'window' | undefined {
    if (now >= this.#reorderAt) {
      this.#newlyLost = 0;
      this.#detectLosses(now);
      if (this.#newlyLost > 0) this.#reportLosses(now);
    }
    if (now >= this.#probeAt) {
      const probe = this.#probe(now);
      if (probe) return probe;
    }
    if (now >= this.#timeoutAt) {
      this.#expire(now, timestamp);
      return undefined;
    }
    if (now >= this.#windowProbeAt) {
      this.#windowProbes++;
      this.#unanswered++;
      this.#windowProbeAt = now + this.#roundTrip.timeout(this.#windowProbes);
      return 'window';
    }
    return undefined;
  }

  #probe(now: number): Sent | undefined {
    this.#probeAt = NEVER;
    this.#isProbing = true;
    const length = this.#newLength();
    const last = this.#segments.last;
    let segment: Sent | undefined;
    if (length > 0) segment = this.#newSegment(length);
    else if (last?.state === STATE.inFlight) {
      this.#inflight -= last.end - last.start;
      segment = last;
    }
    if (!segment) return undefined;
    this.stats.probes++;
    this.#transmitted(segment, now);
    this.#armTimeout(now);
    return segment;
  }

  #expire(now: number, timestamp: number): void {
    this.stats.timeouts++;
    this.#unanswered++;
    if (this.#expirations === 0) this.#beforeTimeout = { cwnd: this.#bbr.cwnd, timestamp };
    this.#expirations++;
    this.#loseAll(now);
  }

  /** Everything that has no answer is to be sent again. */
  #loseAll(now: number): void {
    const first = this.#segments.first;
    // a receiver may forget what it has acknowledged selectively
    const isReneging = first?.state === STATE.selectivelyAcked;
    this.#lost.clear();
    for (const segment of this.#segments) {
      if (segment.state === STATE.selectivelyAcked && !isReneging) continue;
      if (segment.state === STATE.selectivelyAcked) this.#selectivelyAcked--;
      segment.state = STATE.lost;
      this.#lost.push(segment);
    }
    this.#flight.clear();
    this.#inflight = 0;
    this.#isProbing = false;
    this.#probeAt = NEVER;
    this.#reorderAt = NEVER;
    this.#recoveryEnd = this.#next;
    this.#nextSendAt = now;
    this.#bbr.onTimeout();
    this.#armTimeout(now);
  }

  // acknowledgments

  /** The window of a peer's segment, as an offset that may be sent up to. */
  setWindow(end: number, window: number): void {
    if (end > this.#windowEnd) this.#windowProbes = 0;
    this.#windowEnd = end;
    this.#maxWindow = Math.max(this.#maxWindow, window);
  }

  /** The peer sent something: it is there, even if its window stays closed. */
  answered(): void {
    this.#unanswered = 0;
  }

  /** What has no answer after a timeout may leave again now, because the path to the peer may have changed. */
  retry(now: number): void {
    if (this.#expirations > 0) this.#loseAll(now);
  }

  /**
   * Takes an acknowledgment of everything before `ack` and of the blocks in `sacks`, which are pairs of offsets.
   * `echo` is the timestamp that the peer returned.
   */
  acknowledge(ack: number, sacks: readonly number[], now: number, echo: number | undefined): Acked {
    const priorInflight = this.#inflight;
    const before = this.unacknowledged;
    this.#newest = undefined;
    this.#newlyDelivered = 0;
    this.#newlyLost = 0;
    this.#rtt = undefined;
    if (ack > before && this.#beforeTimeout) this.#checkTimeout(echo);
    let isFinAcked = false;
    for (let first = this.#segments.first; first && first.end <= ack; first = this.#segments.first) {
      this.#segments.shift();
      this.#deliver(first, STATE.acked, now);
      isFinAcked ||= first.isFin;
    }
    this.#acknowledgePart(ack);
    if (ack > before) this.#queue.release(Math.min(ack, this.#queue.end));
    if (this.#hasSack) this.#markSacks(ack, sacks, now);
    if (this.#newlyDelivered === 0 && ack <= before) return { isAdvance: false, isFinAcked };
    this.#detectLosses(now);
    this.#bbr.onAck(this.#sample(now, priorInflight));
    this.#firstSentAt = this.#newestSentAt(this.#firstSentAt);
    if (ack > before) {
      this.#expirations = 0;
      if (ack >= this.#recoveryEnd) this.#recoveryEnd = -1;
    }
    this.#isProbing = false;
    this.#armTimeout(now);
    this.#armProbe(now);
    return { isAdvance: ack > before, isFinAcked };
  }

  /** The acknowledgment ends inside a segment: its end stays. */
  #acknowledgePart(ack: number): void {
    const first = this.#segments.first;
    if (!first || first.start >= ack) return;
    if (first.state === STATE.inFlight) this.#inflight -= ack - first.start;
    this.#newlyDelivered += ack - first.start;
    this.#delivered += ack - first.start;
    first.start = ack;
  }

  #deliver(segment: Sent, state: State, now: number): void {
    const length = segment.end - segment.start;
    if (segment.state === STATE.inFlight) this.#inflight -= length;
    const isNew = segment.state !== STATE.selectivelyAcked;
    if (!isNew) this.#selectivelyAcked--;
    segment.state = state;
    if (state === STATE.selectivelyAcked) this.#selectivelyAcked++;
    if (!isNew) return;
    this.#delivered += length;
    this.#newlyDelivered += length;
    this.#deliveredAt = now;
    if (segment.transmissions === 1 && segment.end < this.#farthest) this.#isReordering = true;
    this.#farthest = Math.max(this.#farthest, segment.end);
    const rtt = now - segment.sentAt;
    // the answer may be to an earlier transmission
    if (segment.transmissions > 1 && rtt < this.#roundTrip.min) return;
    if (!this.#newest || segment.order > this.#newest.order) {
      this.#newest = segment;
      this.#rtt = segment.transmissions === 1 ? rtt : undefined;
    }
    if (segment.order <= this.#rackOrder) return;
    this.#rackOrder = segment.order;
    this.#rackRtt = rtt;
  }

  #markSacks(ack: number, sacks: readonly number[], now: number): void {
    for (let i = 0; i + 1 < sacks.length; i += 2) {
      const start = sacks[i]!;
      const end = sacks[i + 1]!;
      // a duplicate (RFC 2883): what was sent again had only been late
      if (i === 0 && end > start && (end <= ack || (sacks.length >= 4 && start >= sacks[2]! && end <= sacks[3]!))) {
        if (this.#isReordering) this.#reorderFactor = Math.min(this.#reorderFactor + 1, MAX_REORDER_FACTOR);
        continue;
      }
      if (start < ack || end <= start || end > this.#next) continue;
      for (let index = this.#indexOf(start); index < this.#segments.length; index++) {
        const segment = this.#segments.at(index)!;
        if (segment.end > end) break;
        if (segment.state !== STATE.selectivelyAcked) this.#deliver(segment, STATE.selectivelyAcked, now);
      }
    }
  }

  /** The index of the first segment that begins at or after an offset. */
  #indexOf(offset: number): number {
    let low = 0;
    let high = this.#segments.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#segments.at(middle)!.start < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #newestSentAt(otherwise: number): number {
    return this.#newest?.sentAt ?? otherwise;
  }

  #sample(now: number, priorInflight: number): AckSample {
    const newest = this.#newest;
    let rate: number | undefined;
    if (newest) {
      const interval = Math.max(newest.sentAt - newest.firstSentAt, now - newest.deliveredAt);
      if (interval > 0) rate = (this.#delivered - newest.delivered) / interval;
    }
    if (this.#rtt !== undefined) this.#roundTrip.sample(this.#rtt);
    return {
      now,
      delivered: this.#delivered,
      newlyDelivered: this.#newlyDelivered,
      newlyLost: this.#newlyLost,
      inflight: this.#inflight,
      priorInflight,
      rtt: this.#rtt,
      rate,
      isAppLimited: newest?.isAppLimited ?? false,
      deliveredAtSend: newest?.delivered ?? 0,
    };
  }

  /** The answer to a segment that left before the timeout: nothing was lost (RFC 3522). */
  #checkTimeout(echo: number | undefined): void {
    const { cwnd, timestamp } = this.#beforeTimeout!;
    this.#beforeTimeout = undefined;
    if (echo === undefined || ((echo - timestamp) | 0) >= 0) return;
    this.stats.spuriousTimeouts++;
    this.#bbr.onSpuriousTimeout(cwnd);
    const waiting = [...this.#segments].filter((segment) => segment.state === STATE.lost);
    const flying = [...this.#flight].filter(({ segment, order }) => segment.order === order);
    this.#lost.clear();
    this.#flight.clear();
    for (const segment of waiting) {
      segment.state = STATE.inFlight;
      this.#inflight += segment.end - segment.start;
    }
    const all = [...flying, ...waiting.map((segment) => ({ segment, order: segment.order }))];
    for (const entry of all.sort((a, b) => a.order - b.order)) this.#flight.push(entry);
  }

  // losses

  #reorderWindow(): number {
    const { min, smoothed } = this.#roundTrip;
    if (!this.#isReordering && (this.#recoveryEnd >= 0 || this.#selectivelyAcked >= DUPLICATES_THRESHOLD)) return 0;
    if (min === NEVER) return 0;
    return Math.min((min / 4) * this.#reorderFactor, smoothed ?? NEVER);
  }

  #detectLosses(now: number): void {
    this.#reorderAt = NEVER;
    const wait = this.#rackRtt + this.#reorderWindow();
    for (let entry = this.#flight.first; entry; entry = this.#flight.first) {
      const { segment, order } = entry;
      if (segment.state === STATE.inFlight && segment.order === order) {
        if (order >= this.#rackOrder) return;
        if (now < segment.sentAt + wait) {
          this.#reorderAt = segment.sentAt + wait;
          return;
        }
        const length = segment.end - segment.start;
        segment.state = STATE.lost;
        this.#inflight -= length;
        this.#newlyLost += length;
        this.#lost.push(segment);
        if (this.#recoveryEnd < 0) this.#recoveryEnd = this.#next;
      }
      this.#flight.shift();
    }
  }

  /** Losses that a timer showed, without an acknowledgment. */
  #reportLosses(now: number): void {
    this.#newest = undefined;
    this.#newlyDelivered = 0;
    this.#rtt = undefined;
    this.#bbr.onAck(this.#sample(now, this.#inflight + this.#newlyLost));
    this.#newlyLost = 0;
  }

  /** Forgets everything. */
  close(): void {
    this.#queue.clear();
    this.#segments.clear();
    this.#flight.clear();
    this.#lost.clear();
    this.#inflight = 0;
    this.#next = this.#queue.end;
    this.#timeoutAt = NEVER;
    this.#probeAt = NEVER;
    this.#reorderAt = NEVER;
    this.#windowProbeAt = NEVER;
    this.#isPaced = false;
  }
}
