// What a node has of its network: UDP sockets, the addresses under which others reach them, the latencies of regions and
// the choice of its home.
import { type Clock, errorText, type Logger } from '@ropewalk/kit';
import { type Endpoint, formatEndpoint, isMappedIPv4 } from '../address.ts';
import type { MeasureRegion } from '../derp/dial.ts';
import { isHomeRegion, type RelayMap } from '../derp/map.ts';
import { hexOf } from '../names.ts';
import { HomeChoice } from './home.ts';
import { checkNetwork, type RegionLatency, StunClient } from './network-check.ts';
import type { Relays } from './relays.ts';
import { hostOf, isReachable, type OpenUdp, type UdpSocket } from './udp.ts';

export interface NetworkOptions {
  clock: Clock;
  random: () => number;
  log: Logger;
  relays: Relays;
  measure: MeasureRegion;
  /** Undefined: no UDP. */
  udp: OpenUdp | undefined;
  interfaces: () => Buffer[];
  onPacket: (packet: Buffer, host: string, port: number) => void;
  /** The home, endpoints or latencies may have changed. */
  onChange: () => void;
  /** The machine's addresses changed, or it slept. */
  onMove: () => void;
  /** `dueAt` may be earlier than before. */
  onDue: () => void;
}

/** How often the network is checked while paths are searched, and while they are not. Random parts spread many nodes. */
const ACTIVE_CHECK_MS = 20_000;
const ACTIVE_CHECK_JITTER_MS = 6_000;
const IDLE_CHECK_MS = 5 * 60_000;
const IDLE_CHECK_JITTER_MS = 60_000;
const ACTIVE_MS = 60_000;
/** How often the machine's addresses are compared. */
const POLL_MS = 10_000;
/** How often paths that fail make this node look at its network. */
const MIN_DOUBT_MS = 5_000;
/** Networks may have changed their mapping of an address that STUN saw longer ago. */
const FRESH_MS = 27_000;
/** An address that STUN saw is published for this long. */
const SEEN_MS = 310_000;
/** Another home is considered when the connection to this one is missing for this long. */
const HOME_LOST_MS = 5_000;
/** The first choice of a home waits this long after the first answer, for regions that are nearly as close. */
const FIRST_CHOICE_MS = 100;
/** Maximum number of endpoints that are published. */
const MAX_PUBLISHED = 32;
/** Latencies that differ by less are not published again. */
const LATENCY_CHANGE_SHARE = 0.25;
const LATENCY_CHANGE_MS = 2;
const FAMILIES = [4, 6] as const;
const NEVER = Number.POSITIVE_INFINITY;

export class Network {
  readonly #options: NetworkOptions;
  readonly #home: HomeChoice;
  readonly #stun: StunClient;
  readonly #end = new AbortController();
  readonly #sockets = new Map<4 | 6, UdpSocket>();
  #opening: Promise<unknown> | undefined;
  /** Public addresses by their text, and when STUN saw them. */
  readonly #seen = new Map<string, { endpoint: Endpoint; at: number }>();
  /** In ms, by region and family, such as `999-v4`. */
  readonly #latencies = new Map<string, number>();
  #map: RelayMap = new Map();
  #interfaces: Buffer[] = [];
  #checking: Promise<void> | undefined;
  #isOutdated = false;
  #checkAt = NEVER;
  #pollAt = NEVER;
  #homeLostAt = NEVER;
  #activeAt = Number.NEGATIVE_INFINITY;
  /** When the running check began, and when a path last failed. What STUN servers answered before may be wrong. */
  #checkingSince = Number.NEGATIVE_INFINITY;
  #doubtedAt = Number.NEGATIVE_INFINITY;

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.#home = new HomeChoice(() => this.#now());
    this.#stun = new StunClient(options.clock, (packet, { address, port }) =>
      this.send(packet, { host: hostOf(address), port }),
    );
  }

  get usesUdp(): boolean {
    return this.#options.udp !== undefined;
  }

  /** The monotonic time, in ms, at which `tick` has something to do. Infinity if never. */
  get dueAt(): number {
    return Math.min(this.#checkAt, this.#pollAt, this.#homeLostAt);
  }

  /** The UDP addresses under which peers may reach this node. */
  get endpoints(): Endpoint[] {
    const now = this.#now();
    const seen = [...this.#seen.values()].filter(({ at }) => now - at < SEEN_MS).map(({ endpoint }) => endpoint);
    const isIPv4 = ({ address }: Endpoint) => isMappedIPv4(address);
    const local = this.#sockets.get(4)?.port;
    // a router may pass the same port to this machine
    const mapped = local === undefined ? [] : seen.filter(isIPv4).map(({ address }) => ({ address, port: local }));
    const own = this.#interfaces.map((address) => ({
      address,
      port: this.#sockets.get(isMappedIPv4(address) ? 4 : 6)?.port ?? 0,
    }));
    const all = [...seen.filter(isIPv4), ...mapped, ...seen.filter((endpoint) => !isIPv4(endpoint)), ...own];
    const unique = new Map(all.filter(isReachable).map((endpoint) => [formatEndpoint(endpoint), endpoint]));
    return [...unique.values()].slice(0, MAX_PUBLISHED);
  }

  /** In seconds, by region and family, as nodes publish them. */
  get latencies(): Record<string, number> {
    return Object.fromEntries([...this.#latencies].map(([name, ms]) => [name, ms / 1_000]));
  }

  /** Opens the sockets. */
  async open(): Promise<void> {
    this.#interfaces = this.#options.interfaces();
    this.#pollAt = this.#now() + POLL_MS;
    this.#options.onDue();
    await this.#openSockets();
  }

  setMap(map: RelayMap): void {
    this.#map = map;
    for (const name of this.#latencies.keys()) if (!map.has(Number.parseInt(name, 10))) this.#latencies.delete(name);
    const homes = [...map.values()].filter(isHomeRegion);
    // a single region needs no measurement
    if (homes.length <= 1) this.#options.relays.setHome(homes[0]?.id);
    // a check that is running does not measure new regions
    this.#isOutdated = true;
    void this.#startCheck();
  }

  /** Sends a datagram. Returns false if there is no socket of the family. */
  send(packet: Buffer, { host, port }: { host: string; port: number }): boolean {
    const socket = this.#sockets.get(host.includes(':') ? 6 : 4);
    socket?.send(packet, port, host);
    return socket !== undefined;
  }

  receiveStun(packet: Buffer): void {
    this.#stun.receive(packet);
  }

  /** Resolves when the public addresses are fresh. Checks the network regularly from now on, for a while. */
  async refresh(): Promise<void> {
    this.#activeAt = this.#now();
    const hasStun = [...this.#map.values()].some(({ servers }) => servers.some(({ stunPort }) => stunPort));
    const freshSince = Math.max(this.#now() - FRESH_MS, this.#doubtedAt);
    if (!hasStun || !this.usesUdp || this.#stun.answeredAt > freshSince) return;
    if (this.#checkingSince < this.#doubtedAt) await this.#checking;
    await this.#startCheck();
  }

  /** A path failed: perhaps the machine's addresses changed, or a router on the way has another one. */
  doubt(): void {
    const now = this.#now();
    if (now - this.#doubtedAt < MIN_DOUBT_MS) return;
    this.#doubtedAt = now;
    if (!this.#poll()) this.#options.relays.probe({ hasMoved: false });
  }

  /** Checks everything again: the machine slept, or its addresses changed. */
  recheck(): void {
    this.#seen.clear();
    this.#interfaces = this.#options.interfaces();
    this.#options.onMove();
    this.#isOutdated = true;
    void this.#startCheck();
    this.#options.onChange();
  }

  /** A connection to a relay was opened or ended. */
  relaysChanged(): void {
    const { home } = this.#options.relays;
    if (home === undefined || this.#options.relays.isConnected(home)) this.#homeLostAt = NEVER;
    else if (this.#homeLostAt === NEVER) this.#homeLostAt = this.#now() + HOME_LOST_MS;
    this.#options.onDue();
  }

  tick(): void {
    const now = this.#now();
    if (now >= this.#homeLostAt) {
      this.#homeLostAt = NEVER;
      const { home } = this.#options.relays;
      if (home !== undefined) this.#home.forget(home);
      void this.#startCheck();
    }
    if (now >= this.#pollAt) {
      this.#pollAt = now + POLL_MS;
      this.#poll();
    }
    if (now >= this.#checkAt) void this.#startCheck();
  }

  close(): void {
    this.#end.abort(new Error('The node ended'));
    for (const socket of this.#sockets.values()) socket.close();
    this.#sockets.clear();
    this.#checkAt = NEVER;
    this.#pollAt = NEVER;
    this.#homeLostAt = NEVER;
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  /** Whether the machine's addresses changed. */
  #poll(): boolean {
    const text = (addresses: Buffer[]) => addresses.map(hexOf).sort().join();
    const hasMoved = text(this.#options.interfaces()) !== text(this.#interfaces);
    if (hasMoved) this.recheck();
    return hasMoved;
  }

  /** Opens the sockets that are missing. */
  #openSockets(): Promise<unknown> {
    const { udp, log } = this.#options;
    if (!udp || this.#end.signal.aborted) return Promise.resolve();
    const open = async (family: 4 | 6) => {
      const events = {
        onPacket: this.#options.onPacket,
        onError: (error: Error) => {
          log.debug('A UDP socket failed', { family, error: error.message });
          this.#sockets.delete(family);
        },
      };
      try {
        const socket = await udp(family, events);
        if (this.#end.signal.aborted) socket.close();
        else this.#sockets.set(family, socket);
      } catch (err) {
        log.debug('Could not open a UDP socket', { family, error: errorText(err) });
      }
    };
    const missing = FAMILIES.filter((family) => !this.#sockets.has(family));
    this.#opening ??= Promise.all(missing.map(open)).then(() => {
      this.#opening = undefined;
      this.#options.onChange();
    });
    return this.#opening;
  }

  /** Starts a check, unless one is running. Never rejects. */
  #startCheck(): Promise<void> {
    if (this.#end.signal.aborted || this.#map.size === 0) return Promise.resolve();
    this.#checkAt = NEVER;
    if (!this.#checking) {
      this.#isOutdated = false;
      this.#checkingSince = this.#now();
    }
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
      if (this.#end.signal.aborted) return;
      const isActive = this.#now() - this.#activeAt < ACTIVE_MS;
      const [period, jitter] = isActive
        ? [ACTIVE_CHECK_MS, ACTIVE_CHECK_JITTER_MS]
        : [IDLE_CHECK_MS, IDLE_CHECK_JITTER_MS];
      this.#checkAt = this.#isOutdated ? this.#now() : this.#now() + period + this.#options.random() * jitter;
      this.#options.onDue();
    });
    return this.#checking;
  }

  async #check(): Promise<void> {
    const { clock, measure, relays } = this.#options;
    await this.#openSockets();
    let isChoosing = relays.home !== undefined;
    const map = this.#map;
    const found = await checkNetwork({
      ...{ map, clock, measure, stun: this.#stun, signal: this.#end.signal },
      ping: (region) => (relays.isConnected(region) ? relays.ping(region) : undefined),
      onLatency: (latency) => {
        this.#noteLatency(latency);
        if (!isChoosing) void this.#chooseSoon();
        isChoosing = true;
      },
    });
    if (this.#end.signal.aborted) return;
    const now = this.#now();
    for (const [name, { at }] of this.#seen) if (now - at >= SEEN_MS) this.#seen.delete(name);
    for (const endpoint of found) this.#seen.set(formatEndpoint(endpoint), { endpoint, at: now });
    this.#choose();
  }

  async #chooseSoon(): Promise<void> {
    await this.#options.clock.sleep(FIRST_CHOICE_MS, this.#end.signal).catch(() => {});
    if (this.#options.relays.home === undefined) this.#choose();
  }

  #choose(): void {
    const { relays, onChange } = this.#options;
    if (this.#end.signal.aborted) return;
    const home = this.#home.choose(this.#map, relays.home, (region) => relays.isConnected(region));
    if (home !== relays.home) relays.setHome(home);
    this.relaysChanged();
    onChange();
  }

  #noteLatency({ region, family, ms }: RegionLatency): void {
    this.#home.note(region, ms);
    const name = `${region}-v${family}`;
    const old = this.#latencies.get(name);
    const change = Math.abs(ms - (old ?? NEVER));
    if (change > LATENCY_CHANGE_MS && change > LATENCY_CHANGE_SHARE * (old ?? 0)) this.#latencies.set(name, ms);
  }
}
