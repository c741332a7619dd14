// The peers that a node knows, by id, key, disco key and address. Several ids may have one key: a client that could not
// resume its id comes back as a second peer.
//
// Keys and addresses are claims. The first peer with an address or a disco key has it until it is removed, so that a later
// one cannot take over its packets.
import type { Node } from '@ropewalk/wire/proto/tailnet';
import { type Endpoint, parseEndpoint, parseHostPrefix } from '../address.ts';
import type { Box } from '../box.ts';
import { MAX_ENDPOINTS } from '../disco.ts';
import { decodeNodeKey, parseDiscoKey } from '../keys.ts';
import { nameOf } from '../names.ts';
import { RateBudget } from '../rate-budget.ts';
import type { Peer as WireGuardPeer } from '../wireguard/peer.ts';
import type { Paths } from './paths.ts';

/** Maximum number of peers. */
export const MAX_PEERS = 16_384;
/** Maximum number of addresses of a peer that are read. Further ones are ignored. */
const MAX_ADDRESSES = 16;
/** Maximum number of UDP addresses of a peer from which its packets are accepted. The oldest are forgotten. */
const MAX_SOURCES = 64;
/** Maximum number of peers that are accepted from one UDP address. Spoofed pings can claim any. */
const MAX_CLAIMS = 4;
/** A peer's disco packets per second, after a burst, that are opened. Each costs as much as some packets of data. */
const DISCO_PER_SECOND = 50;
const DISCO_BURST = 200;

/** What a peer published. */
export interface PeerNode {
  /** 32 bytes. */
  key: Buffer;
  discoKey: Buffer | undefined;
  /** Its home region. 0: it cannot be reached over a relay. */
  home: number;
  /** Names of its addresses. */
  addresses: readonly string[];
  endpoints: readonly Endpoint[];
}

/** Reads a published node. Undefined if its key is malformed. Malformed addresses and endpoints are left out. */
export function readNode(node: Node): PeerNode | undefined {
  const key = decodeNodeKey(node.key);
  if (!key) return undefined;
  const addresses = node.allowedIps.slice(0, MAX_ADDRESSES).map((text) => parseHostPrefix(text));
  const endpoints = node.endpoints.slice(0, MAX_ENDPOINTS).map((text) => parseEndpoint(text));
  return {
    key,
    discoKey: parseDiscoKey(node.disco),
    home: node.preferredDerp,
    addresses: addresses.filter((address) => address !== undefined).map(nameOf),
    endpoints: endpoints.filter((endpoint) => endpoint !== undefined),
  };
}

export interface PeerOptions {
  /** Keeps sessions with this peer alive, so that networks between them don't forget it. */
  keepAlive: boolean;
}

/** The disco packets of a peer that are opened. Begins full. */
const discoBudget = (): RateBudget => new RateBudget(DISCO_PER_SECOND, 0, DISCO_BURST);

/** All that a node knows about one key. Parts that only active peers need are made when they are needed. */
export class KnownPeer {
  readonly key: Buffer;
  node: PeerNode;
  keepAlive: boolean;
  /** The ids with this key, and whether the coordinator lost them. */
  readonly ids = new Map<string, { isLost: boolean }>();
  wireGuard: WireGuardPeer | undefined;
  paths: Paths | undefined;
  /** Between this node's disco key and the peer's. Null: their keys give none. */
  box: Box | null | undefined;
  /** The region over which its last packet came. */
  sourceRegion: number | undefined;
  /** The region whose relay last reported its absence, unless it was seen there or published another home since. */
  absentRegion: number | undefined;
  /** Since when all its ids are lost, and when its last handshake was: monotonic ms. */
  lostAt: number | undefined;
  handshakeAt: number | undefined;
  /** The next handshake shows that the peer is reachable again. */
  isAwaited = false;
  /** When it next has something to do. */
  dueAt = Number.POSITIVE_INFINITY;
  /** UDP addresses from which its pings and pongs came, the last one last. */
  readonly sources = new Set<string>();
  /**
   * What comes over the relay, which proves the sender; from UDP addresses where the peer was; and from others, where
   * anyone can name any sender.
   */
  readonly relayedDisco = discoBudget();
  readonly sourceDisco = discoBudget();
  readonly strangeDisco = discoBudget();

  constructor(node: PeerNode, keepAlive: boolean) {
    this.key = node.key;
    this.node = node;
    this.keepAlive = keepAlive;
  }
}

export class Peers {
  readonly #byId = new Map<string, KnownPeer>();
  readonly #byKey = new Map<string, KnownPeer>();
  /** Claims, the first one first. */
  readonly #byAddress = new Map<string, KnownPeer[]>();
  readonly #byDisco = new Map<string, KnownPeer[]>();
  readonly #bySource = new Map<string, KnownPeer[]>();
  readonly #onReleased: (address: string) => void;

  /** `onReleased`: an address, by its name, is no longer that of the peer that had it. */
  constructor(onReleased: (address: string) => void = () => {}) {
    this.#onReleased = onReleased;
  }

  get size(): number {
    return this.#byKey.size;
  }

  [Symbol.iterator](): IterableIterator<KnownPeer> {
    return this.#byKey.values();
  }

  /** By the hexadecimal form of an id. */
  byId(id: string): KnownPeer | undefined {
    return this.#byId.get(id);
  }

  byKey(key: Uint8Array): KnownPeer | undefined {
    return this.#byKey.get(nameOf(key));
  }

  /** By the name of an address. */
  byAddress(address: string): KnownPeer | undefined {
    return this.#byAddress.get(address)?.[0];
  }

  byDisco(key: Uint8Array): KnownPeer | undefined {
    return this.#byDisco.get(nameOf(key))?.[0];
  }

  /** The peers whose packets may come from a UDP address. */
  receivedFrom(name: string): readonly KnownPeer[] {
    return this.#bySource.get(name) ?? [];
  }

  /**
   * Adds a peer, or updates it. Returns it, and the one that its id had before if that is gone. Undefined if there are too
   * many.
   */
  set(id: string, node: PeerNode, { keepAlive }: PeerOptions): { peer: KnownPeer; gone?: KnownPeer } | undefined {
    const old = this.#byId.get(id);
    const name = nameOf(node.key);
    const known = this.#byKey.get(name);
    const isReplaced = old !== undefined && old !== known;
    if (!known && this.#byKey.size >= MAX_PEERS && !(isReplaced && old.ids.size === 1)) return undefined;
    const gone = isReplaced ? this.remove(id) : undefined;
    const peer = known ?? new KnownPeer(node, keepAlive);
    this.#byKey.set(name, peer);
    this.#byId.set(id, peer);
    peer.ids.set(id, { isLost: false });
    peer.lostAt = undefined;
    this.#replaceClaims(peer, peer.node, node);
    peer.node = node;
    peer.keepAlive = keepAlive;
    return { peer, ...(gone && { gone }) };
  }

  /** Marks an id as lost. Returns its peer if all ids of it are lost now. */
  markLost(id: string, now: number): KnownPeer | undefined {
    const peer = this.#byId.get(id);
    if (!peer) return undefined;
    peer.ids.set(id, { isLost: true });
    if ([...peer.ids.values()].some(({ isLost }) => !isLost)) return undefined;
    peer.lostAt ??= now;
    return peer;
  }

  /** Removes an id. Returns its peer if that was its last one. */
  remove(id: string): KnownPeer | undefined {
    const peer = this.#byId.get(id);
    if (!peer) return undefined;
    this.#byId.delete(id);
    peer.ids.delete(id);
    if (peer.ids.size > 0) return undefined;
    this.#byKey.delete(nameOf(peer.key));
    this.#replaceClaims(peer, peer.node, { addresses: [], discoKey: undefined });
    this.forgetSources(peer);
    return peer;
  }

  /** Accepts the peer's packets from a UDP address. */
  addSource(peer: KnownPeer, name: string): void {
    const isKnown = peer.sources.delete(name);
    peer.sources.add(name);
    if (isKnown) return;
    addClaim(this.#bySource, name, peer);
    const claims = this.#bySource.get(name)!;
    if (claims.length > MAX_CLAIMS) this.#deleteSource(claims[0]!, name);
    if (peer.sources.size > MAX_SOURCES) this.#deleteSource(peer, [...peer.sources][0]!);
  }

  /** Accepts the peer's packets from no UDP address. */
  forgetSources(peer: KnownPeer): void {
    for (const name of [...peer.sources]) this.#deleteSource(peer, name);
  }

  #deleteSource(peer: KnownPeer, name: string): void {
    peer.sources.delete(name);
    deleteClaim(this.#bySource, name, peer);
  }

  #release(address: string, peer: KnownPeer): void {
    const isOwner = this.byAddress(address) === peer;
    deleteClaim(this.#byAddress, address, peer);
    if (isOwner) this.#onReleased(address);
  }

  /** What a peer claims again keeps its place before the claims of others. */
  #replaceClaims(peer: KnownPeer, old: Claimed, { addresses, discoKey }: Claimed): void {
    for (const address of addresses) addClaim(this.#byAddress, address, peer);
    if (discoKey) addClaim(this.#byDisco, nameOf(discoKey), peer);
    for (const address of old.addresses) if (!addresses.includes(address)) this.#release(address, peer);
    if (old.discoKey && !(discoKey && old.discoKey.equals(discoKey)))
      deleteClaim(this.#byDisco, nameOf(old.discoKey), peer);
  }
}

type Claimed = Pick<PeerNode, 'addresses' | 'discoKey'>;
type Claims = Map<string, KnownPeer[]>;

function addClaim(claims: Claims, name: string, peer: KnownPeer): void {
  const all = claims.get(name);
  if (!all) claims.set(name, [peer]);
  else if (!all.includes(peer)) all.push(peer);
}

function deleteClaim(claims: Claims, name: string, peer: KnownPeer): void {
  const rest = claims.get(name)?.filter((other) => other !== peer) ?? [];
  if (rest.length > 0) claims.set(name, rest);
  else claims.delete(name);
}
