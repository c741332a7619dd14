// Congestion control after BBR (draft-ietf-ccwg-bbr). It measures the bottleneck's bandwidth and the round trip of the
// path, sends at that bandwidth, and limits the bytes in flight to a small multiple of their product.
//
// Loss-based control cannot do what tunnels need. NewReno at 100 ms and 0.5 % loss has a window of sqrt(1.5 / 0.005) = 17
// packets, which is 0.2 MB/s, and CUBIC is not faster at that loss. A random loss says nothing about the bandwidth.
//
// Phases: `startup` doubles the rate every round trip until the bandwidth stops growing. `drain` empties the queue that
// startup made. `probe` cruises, and in every cycle of eight round trips sends faster during one and slower during the
// next. `probeRtt` briefly sends less, so that the round trip of an empty queue can be measured.
//
// Losses count when a round loses more than 2 %: then a queue overflows, and `#maxInflight` bounds the bytes in flight
// from there on. Units: bytes, ms, and bytes per ms.

/** What one acknowledgment says. */
export interface AckSample {
  now: number;
  /** All bytes delivered since the connection began. */
  delivered: number;
  /** Bytes that this acknowledgment delivered, and those it showed to be lost. */
  newlyDelivered: number;
  newlyLost: number;
  /** Bytes in flight after it and before it. */
  inflight: number;
  priorInflight: number;
  /** The round trip of the newest delivered segment. Undefined if it is ambiguous. */
  rtt: number | undefined;
  /** The rate of delivery. Undefined if it cannot be known. */
  rate: number | undefined;
  /** Whether the application had too little to send for the rate to be the path's. */
  isAppLimited: boolean;
  /** `delivered` when the newest delivered segment was sent. */
  deliveredAtSend: number;
}

type Phase = 'startup' | 'drain' | 'probe' | 'probeRtt';

const HIGH_GAIN = 2.77;
const DRAIN_GAIN = 0.35;
const PROBE_GAINS = [1.25, 0.75, 1, 1, 1, 1, 1, 1] as const;
const CWND_GAIN = 2;
/** Slightly below the measured bandwidth, so that queues shrink. */
const PACING_MARGIN = 0.99;
const BANDWIDTH_ROUNDS = 10;
const MIN_RTT_MS = 10_000;
const PROBE_RTT_MS = 200;
const PROBE_RTT_SHARE = 0.5;
/** Startup ends after so many rounds in which bandwidth grew by less than a quarter. */
const FULL_ROUNDS = 3;
const FULL_GROWTH = 1.25;
/** A queue overflows if a round loses at least these. */
const LOSS_SHARE = 0.02;
const LOSS_PACKETS = 6;
const BACKOFF = 0.7;
/**
 * The path's round trip counts at least this much. Below it, turns of the event loop and timers of 1 ms decide when
 * packets leave, not the path.
 */
const MIN_HORIZON_MS = 5;
const INITIAL_PACKETS = 32;
const MIN_PACKETS = 4;
const MAX_CWND = 16 * 1024 * 1024;
const MAX_AGGREGATION_MS = 100;

export class Bbr {
  #mss: number;
  /** What may leave before anything is known of the path. */
  readonly #initial: number;
  #phase: Phase = 'startup';
  #cwnd: number;
  /** Bytes per ms. */
  #pacingRate: number;
  #pacingGain = HIGH_GAIN;
  /** Candidates for the greatest bandwidth, by round, with decreasing rates. */
  #rates: { round: number; rate: number }[] = [];
  #minRtt = Number.POSITIVE_INFINITY;
  #minRttAt = 0;
  #round = 0;
  #roundEnd = 0;
  #isRoundStart = false;
  #fullBandwidth = 0;
  #fullRounds = 0;
  #isFull = false;
  #cycle = 0;
  #cycleAt = 0;
  #probeRttUntil: number | undefined;
  #lostInRound = 0;
  #deliveredInRound = 0;
  #inflightInRound = 0;
  #isBackedOff = false;
  #maxInflight = Number.POSITIVE_INFINITY;
  // acknowledgments that come in groups
  #aggregationAt = 0;
  #aggregated = 0;
  #extra = 0;
  #extraRound = 0;

  /** `rtt`: the round trip of the handshake, if it is known. */
  constructor(mss: number, rtt: number | undefined) {
    this.#mss = mss;
    this.#initial = INITIAL_PACKETS * mss;
    this.#cwnd = this.#initial;
    this.#pacingRate = (HIGH_GAIN * this.#cwnd) / Math.max(rtt ?? 1, 1);
  }

  get cwnd(): number {
    return this.#cwnd;
  }

  /** Segments have another length from now on. */
  set mss(mss: number) {
    this.#mss = mss;
  }

  get pacingRate(): number {
    return this.#pacingRate;
  }

  /** The measured bandwidth. 0 before the first measurement. */
  get bandwidth(): number {
    return this.#rates[0]?.rate ?? 0;
  }

  get phase(): Phase {
    return this.#phase;
  }

  onAck(sample: AckSample): void {
    this.#updateRound(sample);
    this.#updateBandwidth(sample);
    this.#updateAggregation(sample);
    this.#updateLoss(sample);
    this.#updateFull(sample);
    this.#updateMinRtt(sample);
    this.#updatePhase(sample);
    this.#updateRates(sample);
  }

  /** The retransmission timer expired: begin again with one packet. The model of the path stays. */
  onTimeout(): void {
    this.#cwnd = this.#mss;
  }

  /** The timer had expired too early. */
  onSpuriousTimeout(cwnd: number): void {
    this.#cwnd = Math.max(this.#cwnd, cwnd);
  }

  /** Bytes that fill the path, times a gain. */
  #inflight(gain: number): number {
    const { bandwidth } = this;
    if (bandwidth === 0 || this.#minRtt === Number.POSITIVE_INFINITY) return this.#initial * gain;
    return gain * bandwidth * Math.max(this.#minRtt, MIN_HORIZON_MS) + 2 * this.#mss;
  }

  #updateRound(sample: AckSample): void {
    this.#isRoundStart = sample.newlyDelivered > 0 && sample.deliveredAtSend >= this.#roundEnd;
    if (!this.#isRoundStart) return;
    this.#roundEnd = sample.delivered;
    this.#round++;
    this.#lostInRound = 0;
    this.#deliveredInRound = 0;
    this.#inflightInRound = 0;
    this.#isBackedOff = false;
  }

  #updateBandwidth({ rate, isAppLimited }: AckSample): void {
    while (this.#rates.length > 1 && this.#round - this.#rates[0]!.round >= BANDWIDTH_ROUNDS) this.#rates.shift();
    if (rate === undefined || (isAppLimited && rate < this.bandwidth)) return;
    while (this.#rates.length > 0 && this.#rates.at(-1)!.rate <= rate) this.#rates.pop();
    this.#rates.push({ round: this.#round, rate });
  }

  /** How much more than the bandwidth arrives in one group of acknowledgments, so that the window spans the pause. */
  #updateAggregation({ now, newlyDelivered }: AckSample): void {
    if (this.#round - this.#extraRound >= BANDWIDTH_ROUNDS) {
      this.#extra = 0;
      this.#extraRound = this.#round;
    }
    let expected = this.bandwidth * (now - this.#aggregationAt);
    if (this.#aggregated <= expected) {
      this.#aggregated = 0;
      this.#aggregationAt = now;
      expected = 0;
    }
    this.#aggregated += newlyDelivered;
    const extra = Math.min(this.#aggregated - expected, this.#cwnd, this.bandwidth * MAX_AGGREGATION_MS);
    if (extra < this.#extra) return;
    this.#extra = extra;
    this.#extraRound = this.#round;
  }

  #updateLoss(sample: AckSample): void {
    this.#lostInRound += sample.newlyLost;
    this.#deliveredInRound += sample.newlyDelivered;
    this.#inflightInRound = Math.max(this.#inflightInRound, sample.priorInflight);
    if (sample.newlyLost === 0 || this.#isBackedOff) return;
    if (this.#lostInRound < LOSS_PACKETS * this.#mss) return;
    // a share of all bytes that the round has sent: most of them arrive after the first loss is seen
    if (this.#lostInRound < LOSS_SHARE * Math.max(this.#inflightInRound, this.#deliveredInRound)) return;
    this.#isBackedOff = true;
    this.#isFull = true;
    const enough = Math.min(this.#inflight(1), this.#inflightInRound);
    this.#maxInflight = Math.max(BACKOFF * this.#inflightInRound, enough, MIN_PACKETS * this.#mss);
  }

  #updateFull({ isAppLimited }: AckSample): void {
    if (this.#isFull || !this.#isRoundStart || isAppLimited) return;
    if (this.bandwidth >= this.#fullBandwidth * FULL_GROWTH) {
      this.#fullBandwidth = this.bandwidth;
      this.#fullRounds = 0;
      return;
    }
    this.#isFull = ++this.#fullRounds >= FULL_ROUNDS;
  }

  #updateMinRtt({ now, rtt, inflight }: AckSample): void {
    const isExpired = now - this.#minRttAt > MIN_RTT_MS;
    if (rtt !== undefined && (rtt <= this.#minRtt || isExpired)) {
      this.#minRtt = rtt;
      this.#minRttAt = now;
    }
    if (isExpired && this.#phase === 'probe') {
      this.#phase = 'probeRtt';
      this.#probeRttUntil = undefined;
    }
    if (this.#phase !== 'probeRtt') return;
    if (this.#probeRttUntil === undefined) {
      if (inflight <= this.#probeRttCwnd()) this.#probeRttUntil = now + Math.max(PROBE_RTT_MS, this.#minRtt);
    } else if (now >= this.#probeRttUntil) {
      this.#minRttAt = now;
      this.#phase = 'probe';
      this.#beginCycle(now, 2);
    }
  }

  #probeRttCwnd(): number {
    return Math.max(this.#inflight(PROBE_RTT_SHARE), MIN_PACKETS * this.#mss);
  }

  #beginCycle(now: number, cycle: number): void {
    this.#cycle = cycle % PROBE_GAINS.length;
    this.#cycleAt = now;
  }

  #updatePhase({ now, inflight, priorInflight, newlyLost }: AckSample): void {
    if (this.#phase === 'startup' && this.#isFull) this.#phase = 'drain';
    if (this.#phase === 'drain' && inflight <= this.#inflight(1)) {
      this.#phase = 'probe';
      this.#beginCycle(now, 2);
    }
    if (this.#phase === 'startup') this.#pacingGain = HIGH_GAIN;
    else if (this.#phase === 'drain') this.#pacingGain = DRAIN_GAIN;
    else if (this.#phase === 'probeRtt') this.#pacingGain = 1;
    else {
      const gain = PROBE_GAINS[this.#cycle]!;
      const isLong = now - this.#cycleAt > Math.max(this.#minRtt, MIN_HORIZON_MS);
      let isOver = isLong;
      if (gain > 1)
        isOver = isLong && (newlyLost > 0 || priorInflight >= Math.min(this.#inflight(gain), this.#maxInflight));
      else if (gain < 1) isOver = isLong || priorInflight <= this.#inflight(1);
      if (isOver) this.#beginCycle(now, this.#cycle + 1);
      this.#pacingGain = PROBE_GAINS[this.#cycle]!;
    }
  }

  #updateRates(sample: AckSample): void {
    const { bandwidth } = this;
    if (bandwidth > 0) {
      const rate = this.#pacingGain * bandwidth * PACING_MARGIN;
      // before the pipe is full, a slow first measurement must not slow the start
      if (this.#isFull || rate > this.#pacingRate) this.#pacingRate = rate;
    }
    this.#raiseMaxInflight(sample);
    const target = this.#inflight(CWND_GAIN) + (this.#isFull ? this.#extra : 0);
    let cwnd = this.#cwnd + sample.newlyDelivered;
    if (this.#isFull) cwnd = Math.min(cwnd, target);
    else if (this.#cwnd >= target && sample.delivered >= this.#initial) cwnd = this.#cwnd;
    cwnd = Math.min(cwnd, this.#maxInflight, MAX_CWND);
    if (this.#phase === 'probeRtt') cwnd = Math.min(cwnd, this.#probeRttCwnd());
    this.#cwnd = Math.max(cwnd, MIN_PACKETS * this.#mss);
  }

  /** While it probes without overflowing a queue, the bound on bytes in flight grows by a quarter per round. */
  #raiseMaxInflight({ newlyDelivered, priorInflight }: AckSample): void {
    if (this.#maxInflight === Number.POSITIVE_INFINITY || this.#isBackedOff || this.#phase !== 'probe') return;
    if (this.#pacingGain > 1 && priorInflight + 2 * this.#mss >= Math.min(this.#maxInflight, this.#cwnd))
      this.#maxInflight += newlyDelivered / 4;
  }
}
