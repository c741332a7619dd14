// The direct paths to one peer. Sends nothing itself and sets no timer.
//
// - A candidate is a UDP address of the peer: published, called (named in a call-me-maybe) or the source of a ping.
// - The best candidate carries packets. It is trusted for a while after each pong. While it is not, packets also go over
//   the relay.
// - Only a peer to which packets are sent is pinged: each few seconds on its best path, and on all of them to find one.
// - A path carries packets of MTU bytes. Longer ones leave on it after a ping of their length was answered (decision 0088).
import { randomBytes } from 'node:crypto';
import { type Endpoint, formatEndpoint, isMappedIPv4 } from '../address.ts';
import { DISCO_TX_BYTES } from '../disco.ts';
import { DATA_OVERHEAD_BYTES, MTU } from '../wireguard/session.ts';
import { hostOf, isLoopback, isPrivate, isReachable } from './udp.ts';

export interface PathsOptions {
  now: () => number;
  /** Sends a disco ping to an address of the peer, in a datagram of this length if one is given. */
  ping: (tx: Buffer, to: Target, datagramBytes?: number) => void;
  /** The longest packet that may leave this machine for an address. At least MTU, which is the default. */
  linkBytes?: (to: Target) => number;
  /** Asks the peer over the relay to ping this node's addresses. */
  callMeMaybe: () => void;
  /** The path of packets changed. */
  onChange?: () => void;
  /** The best path does not answer. Called before other paths are searched. */
  onFailure?: () => void;
}

/** Where to send a datagram. */
export interface Target {
  readonly endpoint: Endpoint;
  readonly host: string;
  readonly port: number;
  /** Its text, such as `192.0.2.1:41641`. */
  readonly name: string;
}

interface Candidate extends Target {
  isPublished: boolean;
  isCalled: boolean;
  receivedAt: number;
  pingedAt: number;
  /** The last ping because of a ping from there, and because of a call. */
  returnedPingAt: number;
  calledPingAt: number;
  /** The last round trip, in ms. */
  latency: number | undefined;
  /** The longest packet that it carries, as far as is known, and when a longer one may be tried. */
  packetBytes: number;
  tryLongerAt: number;
}

/** A pong keeps a path trusted for this long. */
export const TRUST_MS = 6_500;
export const HEARTBEAT_MS = 3_000;
/** Paths are kept up for this long after the last packet. */
export const ACTIVE_MS = 45_000;
/** How often all candidates are pinged while there is no trusted path. */
export const SEARCH_MS = 5_000;
/** … while there is one that is slow. */
const IMPROVE_MS = 60_000;
const FAST_MS = 5;
const PING_TIMEOUT_MS = 5_000;
/** A candidate that only a ping named is forgotten after this time. */
const RECEIVED_MS = 45_000;
/** A heartbeat that is unanswered for this long, or 3 usual round trips, makes the path untrusted. */
const SUSPECT_MS = 1_000;
/** A best path without a pong for this long is given up. */
const GIVE_UP_MS = 15_000;
/** How long a path whose long ping was lost, or that lost long packets, carries short ones only. */
export const SHORT_MS: number = 10 * 60_000;
/** A peer's calls and pings make this node send to addresses that the peer names: at most one ping in this time for each. */
const MIN_PING_MS = 1_000;
/** Maximum number of candidates. */
export const MAX_CANDIDATES = 64;
/** Maximum number of pings without an answer. The oldest are forgotten. */
const MAX_PINGS = 256;
const NEVER = Number.POSITIVE_INFINITY;
const BEFORE = Number.NEGATIVE_INFINITY;

interface Ping {
  candidate: Candidate;
  at: number;
  /** The packet that its answer allows. Undefined for a ping of usual length. */
  packetBytes: number | undefined;
}

export class Paths {
  readonly #options: PathsOptions;
  readonly #candidates = new Map<string, Candidate>();
  readonly #pings = new Map<string, Ping>();
  #best: Candidate | undefined;
  #trustedUntil = BEFORE;
  #confirmedAt = BEFORE;
  /** When the oldest ping of the best path without an answer was sent. */
  #unansweredAt = NEVER;
  #sentAt = BEFORE;
  #searchedAt = BEFORE;
  #heartbeatAt = NEVER;

  constructor(options: PathsOptions) {
    this.#options = options;
  }

  /** The monotonic time, in ms, at which `tick` has something to do. Infinity if never. */
  get dueAt(): number {
    return Math.min(this.#heartbeatAt, this.#suspectAt());
  }

  /** The best path, its last round trip in ms, and whether it is trusted now. */
  get best(): { target: Target; latency: number; isTrusted: boolean } | undefined {
    const best = this.#best;
    return best && { target: best, latency: best.latency ?? 0, isTrusted: this.#isTrusted(this.#options.now()) };
  }

  /** The names of all candidates. */
  get candidates(): string[] {
    return [...this.#candidates.keys()];
  }

  /** The address for a packet, and whether it must also go over the relay. */
  route(now: number): { direct: Target | undefined; isRelayed: boolean } {
    return { direct: this.#best, isRelayed: !this.#isTrusted(now) };
  }

  /** The longest packet for the peer now. The first call asks the best path whether it carries longer ones. */
  packetBytes(now: number): number {
    const best = this.#best;
    if (!best || !this.#isTrusted(now)) return MTU;
    if (best.packetBytes === MTU && now >= best.tryLongerAt) this.#tryLonger(best, now);
    return best.packetBytes;
  }

  /** Long packets to the peer are lost: only short ones leave on its best path for a while. */
  shorten(): void {
    if (!this.#best) return;
    this.#best.packetBytes = MTU;
    this.#best.tryLongerAt = this.#options.now() + SHORT_MS;
  }

  /** Notes that a packet is sent to the peer, so that its paths are looked after. */
  noteSent(now: number): void {
    this.#sentAt = now;
    if (this.#heartbeatAt !== NEVER) return;
    this.#heartbeatAt = now;
    this.#confirmedAt = now;
  }

  /** Takes the addresses that the peer publishes. */
  setPublished(endpoints: readonly Endpoint[]): void {
    this.#replace('isPublished', endpoints);
    if (this.#isActive(this.#options.now())) this.#search(this.#options.now());
  }

  /** Takes the addresses of a call-me-maybe, and pings them. None: all that were called before are no longer valid. */
  setCalled(endpoints: readonly Endpoint[]): void {
    this.#replace('isCalled', endpoints);
    const now = this.#options.now();
    for (const candidate of this.#candidates.values())
      if (candidate.isCalled && now - candidate.calledPingAt >= MIN_PING_MS) {
        candidate.calledPingAt = now;
        this.#ping(candidate, now);
      }
  }

  /** Takes the address from which a ping of the peer came. */
  receivePing(endpoint: Endpoint): void {
    const now = this.#options.now();
    const candidate = this.#candidate(endpoint);
    if (!candidate) return;
    candidate.receivedAt = now;
    if (!this.#isActive(now) || this.#isTrusted(now) || now - candidate.returnedPingAt < MIN_PING_MS) return;
    // an earlier ping may have failed, because only now the peer's router lets packets through
    candidate.returnedPingAt = now;
    this.#ping(candidate, now);
  }

  /** Takes a pong. Returns the round trip in ms. Undefined if no ping has this `tx`. */
  pong(tx: Buffer): number | undefined {
    const name = tx.toString('latin1');
    const ping = this.#pings.get(name);
    if (!ping) return undefined;
    this.#pings.delete(name);
    const now = this.#options.now();
    const { candidate, at, packetBytes } = ping;
    if (packetBytes !== undefined) {
      candidate.packetBytes = packetBytes;
      return now - at;
    }
    if (this.#candidates.get(candidate.name) !== candidate) return now - at;
    candidate.latency = now - at;
    const best = this.#best;
    if (candidate === best || !best || !this.#isTrusted(now) || isBetter(candidate, best))
      this.#confirm(candidate, now);
    return now - at;
  }

  /** Pings the best path, for a person who asks. Undefined if no path is trusted. Otherwise the `tx` of the ping. */
  pingBest(): Buffer | undefined {
    const now = this.#options.now();
    return this.#best && this.#isTrusted(now) ? this.#ping(this.#best, now) : undefined;
  }

  /** Doubts the best path, and looks for paths: after a change of this machine's network. */
  doubt(): void {
    const now = this.#options.now();
    this.#trustedUntil = BEFORE;
    this.#searchedAt = BEFORE;
    for (const candidate of this.#candidates.values()) {
      candidate.packetBytes = MTU;
      candidate.tryLongerAt = BEFORE;
    }
    if (this.#isActive(now)) this.#heartbeatAt = now;
  }

  tick(): void {
    const now = this.#options.now();
    this.#forget(now);
    if (now >= this.#suspectAt()) {
      this.#trustedUntil = BEFORE;
      this.#options.onFailure?.();
      this.#search(now);
      this.#options.onChange?.();
    }
    if (now < this.#heartbeatAt) return;
    if (!this.#isActive(now)) {
      this.#heartbeatAt = NEVER;
      return;
    }
    this.#heartbeatAt = now + HEARTBEAT_MS;
    const best = this.#best;
    if (best && now - this.#confirmedAt >= GIVE_UP_MS) this.#lose();
    else if (best) this.#ping(best, now);
    if (!this.#isTrusted(now)) this.#search(now);
    else if ((best?.latency ?? 0) > FAST_MS && now - this.#searchedAt >= IMPROVE_MS) this.#search(now);
  }

  #isActive(now: number): boolean {
    return now - this.#sentAt < ACTIVE_MS;
  }

  #isTrusted(now: number): boolean {
    return this.#best !== undefined && now < this.#trustedUntil;
  }

  /** When the best path becomes untrusted, unless a pong comes. Infinity if it is not trusted. */
  #suspectAt(): number {
    if (this.#unansweredAt >= this.#trustedUntil) return NEVER;
    return this.#unansweredAt + Math.max(SUSPECT_MS, 3 * (this.#best?.latency ?? 0));
  }

  #confirm(candidate: Candidate, now: number): void {
    const isChange = candidate !== this.#best || !this.#isTrusted(now);
    this.#best = candidate;
    this.#confirmedAt = now;
    this.#trustedUntil = now + TRUST_MS;
    this.#unansweredAt = NEVER;
    if (isChange) this.#options.onChange?.();
  }

  #lose(): void {
    this.#best = undefined;
    this.#trustedUntil = BEFORE;
    this.#unansweredAt = NEVER;
    this.#options.onChange?.();
  }

  /** Pings all candidates, and asks the peer to do the same. */
  #search(now: number): void {
    if (now - this.#searchedAt < SEARCH_MS) return;
    this.#searchedAt = now;
    for (const candidate of this.#candidates.values())
      if (now - candidate.pingedAt >= MIN_PING_MS) this.#ping(candidate, now);
    this.#options.callMeMaybe();
  }

  #ping(candidate: Candidate, now: number): Buffer {
    candidate.pingedAt = now;
    if (candidate === this.#best && this.#unansweredAt === NEVER) this.#unansweredAt = now;
    const tx = this.#newPing({ candidate, at: now, packetBytes: undefined });
    this.#options.ping(tx, candidate);
    return tx;
  }

  /** Once: a second ping may arrive in fragments, after the first one has shown this machine that the path is narrow. */
  #tryLonger(candidate: Candidate, now: number): void {
    candidate.tryLongerAt = now + SHORT_MS;
    const packetBytes = this.#options.linkBytes?.(candidate) ?? MTU;
    if (packetBytes <= MTU) return;
    const tx = this.#newPing({ candidate, at: now, packetBytes });
    this.#options.ping(tx, candidate, packetBytes + DATA_OVERHEAD_BYTES);
  }

  #newPing(ping: Ping): Buffer {
    const tx = randomBytes(DISCO_TX_BYTES);
    const [oldest] = this.#pings.keys();
    if (this.#pings.size >= MAX_PINGS && oldest !== undefined) this.#pings.delete(oldest);
    this.#pings.set(tx.toString('latin1'), ping);
    return tx;
  }

  #replace(kind: 'isPublished' | 'isCalled', endpoints: readonly Endpoint[]): void {
    for (const candidate of this.#candidates.values()) candidate[kind] = false;
    for (const endpoint of endpoints) {
      const candidate = this.#candidate(endpoint);
      if (candidate) candidate[kind] = true;
    }
    this.#forget(this.#options.now());
  }

  /** The candidate of an address, which may be new. Undefined if the address is not usable, or there are too many. */
  #candidate(endpoint: Endpoint): Candidate | undefined {
    if (!isReachable(endpoint)) return undefined;
    const name = formatEndpoint(endpoint);
    const known = this.#candidates.get(name);
    if (known) return known;
    if (this.#candidates.size >= MAX_CANDIDATES && !this.#dropOldest()) return undefined;
    // addresses arrive as views of packets
    const address = Buffer.from(endpoint.address);
    const candidate: Candidate = {
      ...{ endpoint: { address, port: endpoint.port }, host: hostOf(address), port: endpoint.port, name },
      ...{ isPublished: false, isCalled: false, receivedAt: BEFORE, pingedAt: BEFORE },
      ...{ returnedPingAt: BEFORE, calledPingAt: BEFORE, latency: undefined },
      ...{ packetBytes: MTU, tryLongerAt: BEFORE },
    };
    this.#candidates.set(name, candidate);
    return candidate;
  }

  /** Makes room: forgets the candidate that was only the source of a ping, and longest ago. */
  #dropOldest(): boolean {
    const unnamed = [...this.#candidates.values()].filter(
      (candidate) => !isNamed(candidate) && candidate !== this.#best,
    );
    const oldest = unnamed.toSorted((a, b) => a.receivedAt - b.receivedAt)[0];
    return oldest !== undefined && this.#candidates.delete(oldest.name);
  }

  #forget(now: number): void {
    for (const candidate of this.#candidates.values())
      if (!isNamed(candidate) && now - candidate.receivedAt >= RECEIVED_MS && candidate !== this.#best)
        this.#candidates.delete(candidate.name);
    for (const [name, { at }] of this.#pings) {
      if (now - at < PING_TIMEOUT_MS) break;
      this.#pings.delete(name);
    }
  }
}

function isNamed({ isPublished, isCalled }: Candidate): boolean {
  return isPublished || isCalled;
}

/** Loopback, private networks and IPv6 count as faster by these shares, because they need less of the network. */
const LOOPBACK_SHARE = 0.5;
const PRIVATE_SHARE = 0.2;
const IPV6_SHARE = 0.1;
/** A path must be faster by this share, so that two equal ones do not take turns. */
const FASTER_SHARE = 0.01;

function isBetter(candidate: Candidate, best: Candidate): boolean {
  return costOf(candidate) < (1 - FASTER_SHARE) * costOf(best);
}

function costOf({ endpoint: { address }, latency }: Candidate): number {
  const share = isLoopback(address) ? LOOPBACK_SHARE : isPrivate(address) ? PRIVATE_SHARE : 0;
  return (latency ?? NEVER) * (1 - share - (isMappedIPv4(address) ? 0 : IPV6_SHARE));
}
