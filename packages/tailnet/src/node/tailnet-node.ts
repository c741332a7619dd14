// A node of the tailnet: carries IP packets between this program and its peers. Packets go over relays first, and directly
// over UDP once disco has found a path. WireGuard's sessions do not depend on the path.
//
// - Who the peers are is the business of its owner, usually a CoordinatorClient: `setPeer`, `markLost`, `remove`.
// - One timer does everything that is due. A peer that is only known costs no timer and no cryptography.
import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type Clock, type Logger, silentLogger, systemClock } from '@ropewalk/kit';
import { type Node, NodeSchema } from '@ropewalk/wire/proto/tailnet';
import { formatEndpoint, formatHostPrefix, parseAddress } from '../address.ts';
import { Box } from '../box.ts';
import { type DialRegion, type MeasureRegion, regionDialer, regionMeasurer } from '../derp/dial.ts';
import type { RelayMap } from '../derp/map.ts';
import {
  DISCO_TX_BYTES,
  type DiscoMessage,
  discoSender,
  isDisco,
  MAX_ENDPOINTS,
  openDisco,
  relayEndpoint,
  sealDisco,
} from '../disco.ts';
import { destinationOf, sourceOf } from '../ipv6.ts';
import { encodeNodeKey, formatDiscoKey, KeyPair } from '../keys.ts';
import { hexOf, nameOf } from '../names.ts';
import { isStun } from '../stun.ts';
import { Peer as WireGuardPeer } from '../wireguard/peer.ts';
import { KEEPALIVE_BYTES, MTU } from '../wireguard/session.ts';
import { linkBytes } from './link.ts';
import { Network } from './network.ts';
import { Paths, type Target } from './paths.ts';
import { type KnownPeer, type PeerOptions, Peers, readNode } from './peers.ts';
import { type RelayStatus, Relays } from './relays.ts';
import { interfaceAddresses, type OpenUdp, openUdp } from './udp.ts';

export interface TailnetNodeOptions {
  /** The node key pair. Its public key names the node. */
  keys: KeyPair;
  /** Default: a new one. */
  discoKeys?: KeyPair;
  /** The number in the published node: `nodeIdOf` an agent's id, or a random one. */
  id: bigint;
  /** 16 bytes each. */
  addresses: readonly Uint8Array[];
  /** An IPv6 packet from one of a peer's addresses. `peer` is the peer's key. */
  onPacket: (packet: Buffer, peer: Buffer) => void;
  /** An address of 16 bytes is no longer that of its peer. Connections with it must end, before another peer gets it. */
  onAddressReleased?: (address: Buffer) => void;
  /**
   * Packets to an address of 16 bytes may have been lost, because its path or relay failed or this machine slept.
   * Connections with it should send again what has no answer.
   */
  onPathChange?: (address: Buffer) => void;
  /** Uses no UDP, so that all packets go over relays. */
  blockDirect?: boolean;
  /** Reaches relays only through WebSockets. */
  forceWebSockets?: boolean;
  /** Default: regionDialer(). */
  dial?: DialRegion;
  /** Default: regionMeasurer(). */
  measure?: MeasureRegion;
  /** Default: sockets of this machine. */
  udp?: OpenUdp;
  /** This machine's addresses. Default: those of its interfaces. */
  interfaces?: () => Buffer[];
  clock?: Clock;
  /** A number from 0 to 1, which spreads retries. Default Math.random. */
  random?: () => number;
  log?: Logger;
}

/** How packets reach a peer now. */
export type PeerPath = { kind: 'direct'; endpoint: string } | { kind: 'relay'; region: number };

export interface PeerStatus {
  /** 32 bytes. */
  key: Buffer;
  /** Undefined if there is neither a direct path nor a relay. */
  path: PeerPath | undefined;
  /** The round trip of the direct path, in ms. */
  latencyMs: number | undefined;
  handshakeAt: Date | undefined;
  bytesReceived: number;
  bytesSent: number;
  /** The coordinator lost it. */
  isLost: boolean;
}

export interface NodeStatus {
  home: number | undefined;
  relays: RelayStatus[];
  /** The UDP addresses that this node publishes. */
  endpoints: string[];
  /** Peers with which packets were exchanged. */
  peers: PeerStatus[];
  knownPeers: number;
  /** Packets that were ignored, by reason. */
  dropped: NodeDrops;
}

export interface NodeDrops {
  /** The sender or its UDP address is not known. */
  unknown: number;
  /** Not a disco message of its sender, or too many of them. */
  disco: number;
  /** The source address is not the peer's. */
  source: number;
  /** No peer has the destination address. */
  destination: number;
}

export interface PingResult {
  /** The round trip, in ms. */
  ms: number;
  path: PeerPath;
}

/** Why a ping failed. */
export class PingError extends Error {
  readonly code: 'unknown' | 'timeout' | 'unreachable' | 'closed';
  constructor(code: PingError['code'], message: string) {
    super(message);
    this.name = 'PingError';
    this.code = code;
  }
}

interface WaitingPing {
  peer: KnownPeer;
  at: number;
  resolve: (result: PingResult) => void;
  reject: (err: unknown) => void;
}

export const PING_TIMEOUT_MS = 5_000;
/** Maximum number of pings without an answer. */
const MAX_PINGS = 1_024;
/** Networks between peers forget a mapping of an idle connection, usually after 30 s or more. */
const KEEPALIVE_MS = 25_000;
/** A peer that the coordinator lost is removed this long after its last handshake. */
export const LOST_MS: number = 15 * 60_000;
/** The clocks differ by more than this after a sleep of the machine. */
const SLEEP_MS = 5_000;
/** The timer is later than this after this process was stopped. A busy process may be late by some seconds. */
const STOPPED_MS = 30_000;
/** The longest wait of the timer, so that it notices a sleep. */
const MAX_TIMER_MS = 60_000;
const NEVER = Number.POSITIVE_INFINITY;

export class TailnetNode {
  readonly #options: TailnetNodeOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #log: Logger;
  readonly #discoKeys: KeyPair;
  readonly #own: ReadonlySet<string>;
  readonly #peers: Peers;
  readonly #relays: Relays;
  readonly #network: Network;
  /** Peers with something to do at some time. */
  readonly #busy = new Set<KnownPeer>();
  /** By `tx`, as binary text. */
  readonly #pings = new Map<string, WaitingPing>();
  readonly #listeners = new Set<(node: Node) => void>();
  readonly #dropped: NodeDrops = { unknown: 0, disco: 0, source: 0, destination: 0 };
  #published: { node: Node; text: string } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = NEVER;
  /** The difference of both clocks, which grows while the machine sleeps. */
  #offset: number;
  #isClosed = false;

  constructor(options: TailnetNodeOptions) {
    const { clock = systemClock, random = Math.random, log = silentLogger } = options;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#log = log;
    this.#discoKeys = options.discoKeys ?? KeyPair.generate();
    this.#peers = new Peers((address) => options.onAddressReleased?.(Buffer.from(address, 'latin1')));
    this.#own = new Set(options.addresses.map(nameOf));
    this.#offset = this.#clockOffset();
    this.#relays = new Relays({
      ...{ keys: options.keys, clock, random, log, forceWebSockets: options.forceWebSockets ?? false },
      dial: options.dial ?? regionDialer(),
      onPacket: (region, source, packet) => this.#receiveRelayed(region, source, packet),
      onPeerGone: (region, key) => this.#peerGone(region, key),
      onChange: () => this.#relaysChanged(),
      onOpen: (region) => this.#relayOpened(region),
      onDue: () => this.#arm(this.#relays.dueAt),
    });
    this.#network = new Network({
      ...{ clock, random, log, relays: this.#relays },
      measure: options.measure ?? regionMeasurer(),
      udp: options.blockDirect ? undefined : (options.udp ?? openUdp),
      interfaces: options.interfaces ?? interfaceAddresses,
      onPacket: (packet, host, port) => this.#receiveDirect(packet, host, port),
      onChange: () => this.#publish(),
      onMove: () => this.#moved(),
      onDue: () => this.#arm(this.#network.dueAt),
    });
    void this.#network.open();
  }

  /** The node to publish. Undefined until a relay can be used. */
  get node(): Node | undefined {
    return this.#published?.node;
  }

  /** Calls the listener with the node to publish, now and after each change. Returns a function that ends that. */
  onChange(listener: (node: Node) => void): () => void {
    this.#listeners.add(listener);
    if (this.#published) listener(this.#published.node);
    return () => this.#listeners.delete(listener);
  }

  /** Takes the map of relays. Nothing works without one. */
  setRelayMap(map: RelayMap): void {
    if (this.#isClosed) return;
    this.#relays.setMap(map);
    this.#network.setMap(map);
  }

  /**
   * Adds a peer, or updates it. Returns false if the node is malformed or this node itself, or if there are too many peers.
   */
  setPeer(id: Uint8Array, node: Node, { keepAlive = false }: Partial<PeerOptions> = {}): boolean {
    const read = readNode(node);
    if (this.#isClosed || !read || read.key.equals(this.#options.keys.publicKey)) return false;
    const addresses = read.addresses.filter((address) => !this.#own.has(address));
    const before = this.#peers.byKey(read.key)?.node;
    const set = this.#peers.set(hexOf(id), { ...read, addresses }, { keepAlive });
    if (!set) {
      this.#log.warn('Ignored a peer: too many peers');
      return false;
    }
    if (set.gone) this.#forget(set.gone);
    const { peer } = set;
    if (before && !sameKey(before.discoKey, read.discoKey)) this.#resetPaths(peer);
    if (before?.home !== read.home) peer.absentRegion = undefined;
    peer.wireGuard?.setPersistentKeepalive(keepAlive ? KEEPALIVE_MS : 0);
    peer.paths?.setPublished(read.endpoints);
    this.#due(peer);
    return true;
  }

  /**
   * Notes that the coordinator lost a peer. It is removed 15 minutes after its last handshake, unless it is set again
   * before.
   */
  markLost(id: Uint8Array): void {
    const peer = this.#peers.markLost(hexOf(id), this.#clock.monotonic());
    if (peer) this.#due(peer);
  }

  /** Removes a peer, and forgets its sessions. */
  remove(id: Uint8Array): void {
    const gone = this.#peers.remove(hexOf(id));
    if (gone) this.#forget(gone);
  }

  /** The ids of all peers, in no order. */
  get ids(): Buffer[] {
    return [...this.#peers].flatMap(({ ids }) => [...ids.keys()].map((id) => Buffer.from(id, 'hex')));
  }

  /** The node key of a peer. Undefined if there is no peer with this id. */
  keyOf(id: Uint8Array): Buffer | undefined {
    return this.#peers.byId(hexOf(id))?.key;
  }

  /** How long ago the coordinator lost the peer with this address of 16 bytes, in ms. Undefined if it has not. */
  lostMs(address: Uint8Array): number | undefined {
    const lostAt = this.#peers.byAddress(nameOf(address))?.lostAt;
    return lostAt === undefined ? undefined : this.#clock.monotonic() - lostAt;
  }

  /**
   * Sends an IPv6 packet to the peer that has its destination address. Returns false if there is none, or the packet is
   * longer than MAX_PACKET_BYTES. The packet must not be changed later.
   */
  send(packet: Buffer): boolean {
    const destination = destinationOf(packet);
    const peer = destination === undefined ? undefined : this.#peers.byAddress(destination);
    this.#noticeSleep();
    const wireGuard = peer && this.#wireGuard(peer);
    if (!wireGuard || this.#isClosed) {
      this.#dropped.destination++;
      return false;
    }
    const isSent = wireGuard.send(packet);
    this.#due(peer);
    return isSent;
  }

  /** The longest packet that now reaches the peer with this address of 16 bytes. At least MTU. */
  packetBytes(address: Uint8Array): number {
    return this.#peers.byAddress(nameOf(address))?.paths?.packetBytes(this.#clock.monotonic()) ?? MTU;
  }

  /** Packets longer than MTU do not reach the peer with this address. */
  longPacketsLost(address: Uint8Array): void {
    this.#peers.byAddress(nameOf(address))?.paths?.shorten();
  }

  /**
   * Measures the round trip to a peer with a disco ping, on the path that packets take now. Rejects with PingError after 5
   * seconds, or with the signal's reason.
   */
  async ping(id: Uint8Array, { signal }: { signal?: AbortSignal } = {}): Promise<PingResult> {
    signal?.throwIfAborted();
    const peer = this.#peers.byId(hexOf(id));
    if (!peer) throw new PingError('unknown', 'No such peer');
    if (this.#isClosed) throw new PingError('closed', 'The node ended');
    const { promise, resolve, reject } = Promise.withResolvers<PingResult>();
    const tx = this.#startPing(peer);
    if (!tx || this.#pings.size >= MAX_PINGS) throw new PingError('unreachable', 'No path to the peer');
    const name = tx.toString('latin1');
    this.#pings.set(name, { peer, at: this.#clock.monotonic(), resolve, reject });
    const abort = () => reject(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    this.#arm(this.#clock.monotonic() + PING_TIMEOUT_MS);
    this.#due(peer);
    try {
      return await promise;
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#pings.delete(name);
    }
  }

  status(): NodeStatus {
    const active = [...this.#peers].filter(({ wireGuard }) => wireGuard !== undefined);
    return {
      home: this.#relays.home,
      relays: this.#relays.status(),
      endpoints: this.#network.endpoints.map(formatEndpoint),
      peers: active.map((peer) => this.#statusOf(peer)),
      knownPeers: this.#peers.size,
      dropped: { ...this.#dropped },
    };
  }

  /** Ends everything. Later calls have no effect. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const peer of this.#peers) peer.wireGuard?.stop();
    for (const { reject } of this.#pings.values()) reject(new PingError('closed', 'The node ended'));
    this.#listeners.clear();
    this.#busy.clear();
    this.#network.close();
    this.#relays.close();
  }

  /** Does everything that is due. The node's timer calls it. */
  tick(): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    const now = this.#clock.monotonic();
    const lateMs = now - this.#timerAt;
    this.#timerAt = NEVER;
    this.#noticeSleep(lateMs);
    if (now >= this.#relays.dueAt) this.#relays.tick();
    if (now >= this.#network.dueAt) this.#network.tick();
    for (const peer of [...this.#busy]) if (now >= peer.dueAt) this.#tickPeer(peer, now);
    for (const { at, reject } of this.#pings.values()) {
      if (now - at < PING_TIMEOUT_MS) break;
      reject(new PingError('timeout', `No answer within ${PING_TIMEOUT_MS / 1_000} s`));
    }
    const [oldest] = this.#pings.values();
    const pingAt = oldest && now - oldest.at < PING_TIMEOUT_MS ? oldest.at + PING_TIMEOUT_MS : NEVER;
    this.#arm(Math.min(pingAt, this.#relays.dueAt, this.#network.dueAt, ...[...this.#busy].map(({ dueAt }) => dueAt)));
  }

  // time

  #arm(at: number): void {
    if (at >= this.#timerAt || this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    const wait = Math.min(Math.max(0, at - this.#clock.monotonic()), MAX_TIMER_MS);
    this.#timer = setTimeout(() => this.tick(), wait).unref();
  }

  /** Notes when the peer next has something to do. */
  #due(peer: KnownPeer): void {
    peer.dueAt = Math.min(peer.wireGuard?.dueAt ?? NEVER, peer.paths?.dueAt ?? NEVER, forgottenAt(peer));
    if (peer.dueAt === NEVER || peer.ids.size === 0) this.#busy.delete(peer);
    else {
      this.#busy.add(peer);
      this.#arm(peer.dueAt);
    }
  }

  #tickPeer(peer: KnownPeer, now: number): void {
    const { wireGuard, paths } = peer;
    if (wireGuard && now >= wireGuard.dueAt) wireGuard.tick();
    if (paths && now >= paths.dueAt) paths.tick();
    if (now >= forgottenAt(peer)) for (const id of [...peer.ids.keys()]) this.remove(Buffer.from(id, 'hex'));
    this.#due(peer);
  }

  #clockOffset(): number {
    return this.#clock.now().getTime() - this.#clock.monotonic();
  }

  /**
   * While the machine slept or this process was stopped, peers ended their sessions and networks forgot their mappings.
   * `lateMs` is how late the timer is.
   */
  #noticeSleep(lateMs = 0): void {
    const offset = this.#clockOffset();
    const jumped = offset - this.#offset;
    this.#offset = offset;
    if ((jumped > SLEEP_MS || lateMs > STOPPED_MS) && !this.#isClosed) this.#network.recheck();
  }

  /** This machine's network changed. */
  #moved(): void {
    this.#relays.probe({ hasMoved: true });
    for (const peer of [...this.#peers].filter(({ wireGuard }) => wireGuard !== undefined)) {
      peer.paths?.doubt();
      peer.isAwaited = true;
      if ((peer.wireGuard?.stats.sessions ?? 0) > 0) peer.wireGuard?.renew();
      this.#pathChanged(peer);
      this.#due(peer);
    }
  }

  #pathChanged(peer: KnownPeer): void {
    for (const address of peer.node.addresses)
      if (this.#peers.byAddress(address) === peer) this.#options.onPathChange?.(Buffer.from(address, 'latin1'));
  }

  // publishing

  /** What was sent over an earlier connection may have been lost. */
  #relayOpened(region: number): void {
    for (const peer of this.#peers)
      if (peer.wireGuard && !peer.paths?.best?.isTrusted && this.#regionOf(peer) === region) this.#pathChanged(peer);
  }

  #relaysChanged(): void {
    this.#network.relaysChanged();
    this.#publish();
  }

  /** Publishes the node if it changed, once its home has been connected. */
  #publish(): void {
    const { home } = this.#relays;
    if (this.#isClosed || home === undefined) return;
    if (!this.#relays.isConnected(home) && home !== this.#published?.node.preferredDerp) return;
    const addresses = this.#options.addresses.map(formatHostPrefix);
    const values = {
      preferredDerp: home,
      derpLatency: this.#network.latencies,
      derpForcedWebsocket: Object.fromEntries(this.#relays.webSocketReasons),
      endpoints: this.#network.endpoints.map(formatEndpoint),
    };
    const text = JSON.stringify(values);
    if (text === this.#published?.text) return;
    const node = create(NodeSchema, {
      id: this.#options.id,
      asOf: timestampFromDate(this.#clock.now()),
      key: encodeNodeKey(this.#options.keys.publicKey),
      disco: formatDiscoKey(this.#discoKeys.publicKey),
      addresses,
      allowedIps: addresses,
      ...values,
    });
    this.#published = { node, text };
    for (const listener of [...this.#listeners]) listener(node);
  }

  // peers

  #forget(peer: KnownPeer): void {
    peer.wireGuard?.stop();
    peer.wireGuard = undefined;
    peer.paths = undefined;
    this.#busy.delete(peer);
    for (const ping of this.#pings.values())
      if (ping.peer === peer) ping.reject(new PingError('unknown', 'The peer is gone'));
  }

  #resetPaths(peer: KnownPeer): void {
    peer.box = undefined;
    peer.paths = undefined;
    this.#peers.forgetSources(peer);
  }

  /** Undefined if no session is possible with the peer's key. */
  #wireGuard(peer: KnownPeer): WireGuardPeer | undefined {
    if (peer.wireGuard) return peer.wireGuard;
    const { keys, onPacket } = this.#options;
    const wireGuard = WireGuardPeer.create({
      ...{ keys, peer: peer.key, clock: this.#clock, random: this.#random },
      onMessage: (message) => this.#transmit(peer, message),
      onPacket: (packet) => {
        const source = sourceOf(packet);
        if (source !== undefined && this.#peers.byAddress(source) === peer) onPacket(packet, peer.key);
        else this.#dropped.source++;
      },
      onHandshake: () => {
        peer.handshakeAt = this.#clock.monotonic();
        if (peer.isAwaited) this.#pathChanged(peer);
        peer.isAwaited = false;
      },
    });
    if (peer.keepAlive) wireGuard?.setPersistentKeepalive(KEEPALIVE_MS);
    peer.wireGuard = wireGuard;
    return wireGuard;
  }

  /** Undefined without UDP, or without the peer's disco key. */
  #paths(peer: KnownPeer): Paths | undefined {
    if (peer.paths || !this.#network.usesUdp || !peer.node.discoKey) return peer.paths;
    peer.paths = new Paths({
      now: () => this.#clock.monotonic(),
      ping: (tx, to, datagramBytes) =>
        this.#sendDirect(peer, to, { type: 'ping', tx, nodeKey: this.#options.keys.publicKey, datagramBytes }),
      linkBytes: (to) => linkBytes(to.endpoint.address),
      callMeMaybe: () => this.#callMeMaybe(peer),
      onFailure: () => {
        this.#network.doubt();
        this.#pathChanged(peer);
      },
      onChange: () => this.#log.debug('The path to a peer changed', { path: JSON.stringify(this.#pathOf(peer)) }),
    });
    peer.paths.setPublished(peer.node.endpoints);
    return peer.paths;
  }

  /**
   * The region over which the peer is reached: its home, if this node is connected there. Otherwise that of its last packet.
   * Its home comes first, because packets keep the connection to an earlier home open.
   */
  #regionOf({ sourceRegion, absentRegion, node: { home } }: KnownPeer): number {
    if (home !== absentRegion && this.#relays.isConnected(home)) return home;
    return sourceRegion !== undefined && this.#relays.isConnected(sourceRegion) ? sourceRegion : home;
  }

  #pathOf(peer: KnownPeer): PeerPath | undefined {
    const best = peer.paths?.best;
    if (best?.isTrusted) return { kind: 'direct', endpoint: best.target.name };
    const region = this.#regionOf(peer);
    return region === 0 ? undefined : { kind: 'relay', region };
  }

  #statusOf(peer: KnownPeer): PeerStatus {
    const stats = peer.wireGuard?.stats;
    const path = this.#pathOf(peer);
    return {
      key: peer.key,
      path,
      latencyMs: path?.kind === 'direct' ? peer.paths?.best?.latency : undefined,
      handshakeAt: stats?.handshakeAt,
      bytesReceived: stats?.bytesReceived ?? 0,
      bytesSent: stats?.bytesSent ?? 0,
      isLost: peer.lostAt !== undefined,
    };
  }

  // sending

  #transmit(peer: KnownPeer, message: Buffer): void {
    const paths = this.#paths(peer);
    if (paths) {
      const now = this.#clock.monotonic();
      // keepalives alone don't keep direct paths up
      if (message.length > KEEPALIVE_BYTES) paths.noteSent(now);
      const { direct, isRelayed } = paths.route(now);
      if (direct) this.#network.send(message, direct);
      if (!isRelayed) return;
    }
    this.#relays.send(this.#regionOf(peer), peer.key, message);
  }

  #boxOf(peer: KnownPeer): Box | undefined {
    const { discoKey } = peer.node;
    if (peer.box === undefined) peer.box = (discoKey && Box.between(this.#discoKeys, discoKey)) ?? null;
    return peer.box ?? undefined;
  }

  #seal(peer: KnownPeer, message: DiscoMessage): Buffer | undefined {
    const box = this.#boxOf(peer);
    return box && sealDisco(this.#discoKeys.publicKey, box, message);
  }

  #sendDirect(peer: KnownPeer, to: Target, message: DiscoMessage): void {
    const sealed = this.#seal(peer, message);
    if (sealed) this.#network.send(sealed, to);
  }

  #sendRelayed(peer: KnownPeer, message: DiscoMessage, region = this.#regionOf(peer)): boolean {
    const sealed = this.#seal(peer, message);
    return sealed !== undefined && this.#relays.send(region, peer.key, sealed);
  }

  /** Announces this node's addresses, and again if STUN servers find others. */
  #callMeMaybe(peer: KnownPeer): void {
    let called = '';
    const call = () => {
      const endpoints = this.#network.endpoints.slice(0, MAX_ENDPOINTS);
      const text = endpoints.map(formatEndpoint).join();
      if (text !== '' && text !== called && peer.ids.size > 0)
        this.#sendRelayed(peer, { type: 'callMeMaybe', endpoints });
      called = text;
    };
    call();
    void this.#network.refresh().then(() => {
      if (!this.#isClosed) call();
    });
  }

  /** Pings the peer on its trusted path, or else over the relay. Undefined if neither exists. */
  #startPing(peer: KnownPeer): Buffer | undefined {
    const paths = this.#paths(peer);
    paths?.noteSent(this.#clock.monotonic());
    const tx = paths?.pingBest();
    if (tx) return tx;
    const own = randomBytes(DISCO_TX_BYTES);
    const nodeKey = this.#options.keys.publicKey;
    return this.#sendRelayed(peer, { type: 'ping', tx: own, nodeKey }) ? own : undefined;
  }

  // receiving

  #peerGone(region: number, key: Buffer): void {
    const peer = this.#peers.byKey(key);
    if (!peer) return;
    peer.absentRegion = region;
    if (peer.sourceRegion === region) peer.sourceRegion = undefined;
  }

  #receiveRelayed(region: number, source: Buffer, packet: Buffer): void {
    const peer = this.#peers.byKey(source);
    if (!peer || this.#isClosed) {
      this.#dropped.unknown++;
      return;
    }
    peer.sourceRegion = region;
    if (peer.absentRegion === region) peer.absentRegion = undefined;
    if (!isDisco(packet)) this.#wireGuard(peer)?.receive(packet);
    else if (this.#isOf(peer, packet)) this.#receiveDisco(peer, packet, region);
    else this.#dropped.disco++;
    this.#due(peer);
  }

  #receiveDirect(packet: Buffer, host: string, port: number): void {
    if (this.#isClosed) return;
    if (isDisco(packet)) {
      const peer = this.#peers.byDisco(discoSender(packet)!);
      const address = parseAddress(host);
      if (peer && address) {
        this.#receiveDisco(peer, packet, { endpoint: { address, port }, host, port, name: endpointName(host, port) });
        this.#due(peer);
      } else this.#dropped.unknown++;
    } else if (isStun(packet)) this.#network.receiveStun(packet);
    else this.#receiveData(packet, endpointName(host, port));
  }

  /** Takes a WireGuard message from an address that disco has validated. */
  #receiveData(packet: Buffer, name: string): void {
    const peers = this.#peers.receivedFrom(name);
    if (peers.length === 0) this.#dropped.unknown++;
    // a copy: receivers may remove peers
    for (const peer of peers.length > 1 ? [...peers] : peers) {
      this.#wireGuard(peer)?.receive(packet);
      this.#due(peer);
    }
  }

  /** Whether the disco key that a packet names is the peer's. */
  #isOf(peer: KnownPeer, packet: Buffer): boolean {
    const { discoKey } = peer.node;
    return discoKey !== undefined && discoSender(packet)?.equals(discoKey) === true;
  }

  /** Takes a disco packet over the relay of a region, or from a UDP address. */
  #receiveDisco(peer: KnownPeer, packet: Buffer, from: number | Target): void {
    const direct = typeof from !== 'number' && peer.sources.has(from.name) ? peer.sourceDisco : peer.strangeDisco;
    const budget = typeof from === 'number' ? peer.relayedDisco : direct;
    const box = budget.takeWhole(1, this.#clock.monotonic()) ? this.#boxOf(peer) : undefined;
    const message = box && openDisco(box, packet);
    if (!message) {
      this.#dropped.disco++;
      return;
    }
    if (message.type === 'ping') this.#answerPing(peer, message, from);
    else if (message.type === 'pong') this.#receivePong(peer, message.tx, from);
    else if (typeof from === 'number') this.#paths(peer)?.setCalled(message.endpoints);
  }

  #answerPing(peer: KnownPeer, { tx, nodeKey }: DiscoMessage & { type: 'ping' }, from: number | Target): void {
    if (nodeKey && !nodeKey.equals(peer.key)) {
      this.#dropped.disco++;
      return;
    }
    if (typeof from === 'number') {
      this.#sendRelayed(peer, { type: 'pong', tx, source: relayEndpoint(from) }, from);
      return;
    }
    this.#peers.addSource(peer, from.name);
    this.#sendDirect(peer, from, { type: 'pong', tx, source: from.endpoint });
    this.#paths(peer)?.receivePing(from.endpoint);
  }

  #receivePong(peer: KnownPeer, tx: Buffer, from: number | Target): void {
    const now = this.#clock.monotonic();
    if (typeof from !== 'number' && peer.paths?.pong(tx) !== undefined) this.#peers.addSource(peer, from.name);
    const ping = this.#pings.get(tx.toString('latin1'));
    if (ping?.peer !== peer) return;
    const path: PeerPath =
      typeof from === 'number' ? { kind: 'relay', region: from } : { kind: 'direct', endpoint: from.name };
    ping.resolve({ ms: now - ping.at, path });
  }
}

/** When a peer that the coordinator lost is removed. */
const forgottenAt = ({ lostAt, handshakeAt }: KnownPeer): number =>
  lostAt === undefined ? NEVER : (handshakeAt ?? lostAt) + LOST_MS;

const sameKey = (a: Buffer | undefined, b: Buffer | undefined): boolean =>
  a === undefined || b === undefined ? a === b : a.equals(b);

/** The text of a UDP address with a numeric host, as in Target. */
const endpointName = (host: string, port: number): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
