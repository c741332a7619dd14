// The coordinator introduces nodes to each other: it passes each node's keys and addresses to the nodes at the other end
// of its tunnels.
//
// - A peer is one control connection, named by an id of 16 bytes: an agent's id, or a client's random one.
// - Its owner is the identity that signed in: the agent, or the person. Keys belong to owners (key-owners.ts).
// - A tunnel is the wish of one peer to reach another, which need not be connected. Nodes pass in both directions.
// - A peer that is lost may come back. For 15 minutes it keeps its id, its keys and its permissions at the relay. A peer
//   that disconnects keeps only its keys.
//
// - With several servers, a peer may be connected to another one. A mirror represents it here, and passes its requests on.
//   The server of a tunnel's source decides about the tunnel. So the tunnel of a mirror introduces nodes, but it gives no
//   permission at the relay: that comes from the other server.
//
// What the server calls, in this order:
//
// - A connection starts: `connect`. Then it writes `responses` to the stream, and passes each message to `request`.
// - The connection is lost, or its stream ends without a request to disconnect: `close()`. Its peers receive LOST. The
//   server keeps the handle until `forgotten` resolves, because it may still have to revoke its permissions.
// - The client comes back with the id of its resume token: `connect` with the same id. The new handle replaces the old
//   one, whose `forgotten` resolves.
// - The client ends in order: it sends a request to disconnect, after which `responses` end. Its peers receive
//   DISCONNECTED. A later `close()` has no effect.
// - The permission to reach one agent is revoked: `revoke(agent)` on each of the person's handles, also on lost ones. The
//   rule must reject the tunnel first, because the client asks for it again.
// - All permissions are revoked, or the session of the person or the agent ends: `close('disconnected')` on each handle,
//   also on lost ones. `connect` must be rejected first.
// - The server ends: `close()` of the coordinator. All responses end without updates, because sessions between nodes
//   survive the restart. Then the server closes the connections, and last the relay.
import { create, equals } from '@bufbuild/protobuf';
import { type Clock, systemClock } from '@ropewalk/kit';
import {
  type CoordinateRequest,
  type CoordinateResponse,
  type CoordinateResponse_PeerUpdate,
  CoordinateResponse_PeerUpdateSchema,
  CoordinateResponse_PeerUpdate_Kind as Kind,
  type Node,
  NodeSchema,
} from '@ropewalk/wire/proto/tailnet';
import { uuidText } from '@ropewalk/wire/uuid';
import type { RelayPolicy } from '../derp/relay.ts';
import { decodeNodeKey, parseDiscoKey } from '../keys.ts';
import { hexOf } from '../names.ts';
import { RateBudget } from '../rate-budget.ts';
import { KeyOwners } from './key-owners.ts';
import { addTo, deleteFrom, LINGER_MS, LingeringPairs } from './lingering.ts';
import { ResponseQueue } from './responses.ts';
import type { CoordinateRule } from './rules.ts';

/** Maximum number of errors and ends of peers that wait for a peer. A peer that reads slower is lost. */
export const MAX_RESPONSES = 512;
/** Maximum number of tunnels that one peer opens. */
export const MAX_TUNNELS = 16_384;
/**
 * Maximum number of changes of its node that a peer publishes per second, after a burst. Upstream's nodes publish some in
 * the first seconds, and later one for each change of their network. Above it, only the newest node is published, later.
 */
export const MAX_NODE_UPDATES_PER_SECOND = 2;
export const MAX_NODE_UPDATE_BURST = 32;
/** Maximum number of lost peers. The oldest are forgotten. */
const MAX_LOST = 50_000;
const ID_BYTES = 16;
const PUBLISH_TICK_MS = 250;
const EXPIRE_TICK_MS = 10_000;

const OVERWRITTEN = 'peer ID overwritten by new connection';

export interface ConnectOptions {
  /** 16 bytes. */
  id: Uint8Array;
  /**
   * Whose connection this is: the same text for all connections of one agent, or of one person. The server takes it from
   * the credential of the connection, never from the client's messages.
   */
  owner: string;
  rule: CoordinateRule;
  /**
   * The peer is connected to another server, which checks its requests. If it is also connected to this one, the new
   * handle ends. Default false.
   */
  isMirror?: boolean;
}

export interface CoordinatorOptions {
  clock?: Pick<Clock, 'monotonic'>;
  /** Whether other servers allow this owner to publish the key. Default: they do. */
  mayPublish?: (key: string, owner: string) => boolean;
  /** What `recordOf` returns may have changed for some peers, whose names `takeChanged` returns. */
  onChange?: () => void;
}

/** What the relays of other servers must know of a peer. Keys are as in RelayPolicy. */
export interface PeerRecord {
  owner: string;
  /** The keys that it has published, those for disco included, and those that it keeps after its loss. */
  keys: string[];
  /** The pairs of keys that may exchange packets because of its tunnels. */
  pairs: [source: string, destination: string][];
}

/** How a peer ends: lost, as after a broken connection, or disconnected, as after its own request. */
export type PeerEnd = 'lost' | 'disconnected';

/** The handle of one control connection. */
export interface CoordinatedPeer {
  /** The responses for the peer. They end when the coordinator ends the connection. */
  readonly responses: AsyncIterable<CoordinateResponse>;
  /**
   * Resolves when no method has an effect any more: after the peer disconnected, 15 minutes after it was lost, or when a
   * new connection took over its id. Until then, the owner of the handle must revoke the permissions that end.
   */
  readonly forgotten: Promise<void>;
  /**
   * Takes a request. Await it before the next one. A request that the rule rejects ends the responses with an error.
   * Rejects only if the rule does.
   */
  request(request: CoordinateRequest): Promise<void>;
  /**
   * Ends the tunnel to the peer with this id, and the permission to reach it over the relay. For a client that lost the
   * right to reach one agent. It has this effect after 'lost' too. With 'lost', which is for mirrors, the other peer keeps
   * its sessions: only the way to the mirror's server ended.
   */
  revoke(id: Uint8Array, end?: PeerEnd): void;
  /**
   * Ends the connection. 'disconnected' also ends the permission to reach its peers over the relay. It has this effect
   * after 'lost' too, so that a client that cut its connection before it lost its rights cannot keep the permission.
   */
  close(end?: PeerEnd): void;
}

interface Peer {
  readonly id: Uint8Array;
  /** The id in hexadecimal. */
  readonly name: string;
  readonly owner: string;
  readonly rule: CoordinateRule;
  readonly isMirror: boolean;
  readonly queue: ResponseQueue;
  node: Node | undefined;
  /** The key of `node`, in hexadecimal. Remains after the end. */
  key: string | undefined;
  /** A newer node that its budget of updates delays. */
  delayed: Node | undefined;
  /** The keys of both nodes, which belong to its owner. */
  held: readonly string[];
  /** The updates that it may publish. */
  updates: RateBudget;
  /** The nodes that this peer has received, by the names of their peers. */
  readonly sent: Map<string, Node>;
  /** Names of the peers that learned of its loss and of nothing since. They keep their sessions with it. */
  readonly lostTo: Set<string>;
  /** Names of the destinations of the tunnels that it had when it was lost. Empty for mirrors. */
  wanted: readonly string[];
  /** Ids of peers that lost their rights while this one was lost, by name. It learns that when it comes back. */
  readonly missed: Map<string, Uint8Array>;
  isOpen: boolean;
  /** When it will be forgotten, once it is lost. */
  lostUntil: number;
  readonly forgotten: PromiseWithResolvers<void>;
}

export class Coordinator implements RelayPolicy {
  readonly #now: () => number;
  readonly #peers = new Map<string, Peer>();
  /** Peers that were lost in the last 15 minutes and did not come back, oldest first. */
  readonly #lost = new Map<string, Peer>();
  /** Names of destinations by the source's name, and the reverse. */
  readonly #tunnels = new Map<string, Set<string>>();
  readonly #sources = new Map<string, Set<string>>();
  /** Names of lost sources by the destination's name, without mirrors. */
  readonly #lostSources = new Map<string, Set<string>>();
  /** Peers by node key. A client that could not resume its id is a second peer with the same key. */
  readonly #byKey = new Map<string, Set<Peer>>();
  readonly #owners: KeyOwners;
  readonly #lingering: LingeringPairs;
  /** Peers whose newest node is delayed. */
  readonly #delayed = new Set<Peer>();
  /** Peers whose queue is full. They are lost when the current request is done. */
  readonly #slow = new Set<Peer>();
  /** Names of peers whose records may have changed. */
  readonly #changed = new Set<string>();
  readonly #mayPublish: (key: string, owner: string) => boolean;
  readonly #onChange: () => void;
  #timer: { timeout: NodeJS.Timeout; ms: number } | undefined;
  #closed = false;

  constructor({ clock = systemClock, mayPublish = () => true, onChange = () => {} }: CoordinatorOptions = {}) {
    this.#now = () => clock.monotonic();
    this.#mayPublish = mayPublish;
    this.#onChange = onChange;
    this.#owners = new KeyOwners(this.#now);
    this.#lingering = new LingeringPairs(this.#now);
  }

  /**
   * Adds a peer. A connection with the same id and owner ends, and the new one takes over its tunnels. With another owner,
   * the new connection ends with an error.
   */
  connect({ id, owner, rule, isMirror = false }: ConnectOptions): CoordinatedPeer {
    if (id.length !== ID_BYTES) throw new RangeError(`An id has ${ID_BYTES} bytes, not ${id.length}`);
    const name = hexOf(id);
    const peer: Peer = {
      ...{ id: Uint8Array.from(id), name, owner, rule, isMirror, queue: new ResponseQueue(MAX_RESPONSES) },
      ...{ node: undefined, key: undefined, delayed: undefined, held: [], sent: new Map() },
      ...{ isOpen: true, lostUntil: 0, lostTo: new Set(), wanted: [], missed: new Map() },
      updates: new RateBudget(MAX_NODE_UPDATES_PER_SECOND, this.#now(), MAX_NODE_UPDATE_BURST),
      forgotten: Promise.withResolvers<void>(),
    };
    const old = this.#peers.get(name) ?? this.#lost.get(name);
    if (this.#closed || (isMirror && old?.isOpen && !old.isMirror)) this.#reject(peer);
    else if (old && old.owner !== owner) this.#reject(peer, 'authorization: the peer ID belongs to another owner');
    else this.#join(peer, old);
    return {
      responses: peer.queue,
      forgotten: peer.forgotten.promise,
      request: (request) => this.#request(peer, request),
      revoke: (destination, end = 'disconnected') => {
        if (peer.isOpen && end === 'lost') this.#loseTunnel(peer, hexOf(destination));
        else if (peer.isOpen || this.#lost.get(name) === peer) this.#removeTunnel(peer, hexOf(destination));
        this.#settle();
      },
      close: (end = 'lost') => {
        this.#end(peer, end, end === 'lost' ? 'lost' : 'graceful disconnect');
        this.#settle();
      },
    };
  }

  /**
   * Publishes delayed nodes whose budget allows it, and forgets peers that were lost 15 minutes ago. The coordinator's
   * timer calls it while there are any.
   */
  tick(): void {
    for (const peer of [...this.#delayed])
      if (peer.delayed && peer.updates.takeWhole(1, this.#now())) this.#publish(peer, peer.delayed);
    for (const peer of this.#lost.values()) {
      if (peer.lostUntil > this.#now()) break;
      this.#forgetLost(peer);
    }
    this.#settle();
  }

  /** Ends all responses, for a server that ends. Peers receive no updates. Later connections end immediately. */
  close(): void {
    this.#closed = true;
    // the relay goes on until its own end
    for (const peer of this.#peers.values()) this.#linger(peer);
    for (const peer of [...this.#peers.values(), ...this.#lost.values()]) {
      this.#remove(peer);
      peer.forgotten.resolve();
    }
    this.#lost.clear();
    this.#lostSources.clear();
    this.#tunnels.clear();
    this.#sources.clear();
    clearTimeout(this.#timer?.timeout);
  }

  /**
   * Announces to a connected peer that another one has lost the right to reach it, which another server knows. For a peer
   * that moved from a third server, so that this one does not know of their sessions.
   */
  disconnect(id: Uint8Array, from: Uint8Array): void {
    const [gone, name] = [hexOf(id), hexOf(from)];
    const to = this.#peers.get(name);
    if (to && !this.#share(gone, name)) this.#disconnect(to, id);
    this.#settle();
  }

  /** The node that the peer with this id published last, while it is connected. */
  nodeOf(id: Uint8Array): Node | undefined {
    return this.#peers.get(hexOf(id))?.node;
  }

  /** Whether a peer has a tunnel to the peer with this id, which need not be connected. */
  isWanted(id: Uint8Array): boolean {
    return this.#sources.has(hexOf(id));
  }

  /** Whether a peer of this server has a tunnel to the peer with this id, or had one when it was lost. */
  isWantedHere(id: Uint8Array): boolean {
    return this.#isWantedHere(hexOf(id));
  }

  /** The ids of the peers to which `isWantedHere` applies. */
  wantedHere(): Uint8Array[] {
    const names = new Set([...this.#sources.keys(), ...this.#lostSources.keys()]);
    return [...names].filter((name) => this.#isWantedHere(name)).map((name) => Buffer.from(name, 'hex'));
  }

  /** The owner of the connected peer with this id. */
  ownerOf(id: Uint8Array): string | undefined {
    return this.#peers.get(hexOf(id))?.owner;
  }

  /** The number of peers that are connected to this server, and of their tunnels. */
  get size(): { peers: number; tunnels: number } {
    const here = [...this.#peers.values()].filter(({ isMirror }) => !isMirror);
    const tunnels = here.reduce((sum, { name }) => sum + (this.#tunnels.get(name)?.size ?? 0), 0);
    return { peers: here.length, tunnels };
  }

  /** The names of peers whose records may have changed since the last call. Also of new and of forgotten ones. */
  takeChanged(): string[] {
    const names = [...this.#changed];
    this.#changed.clear();
    return names;
  }

  /** What other relays must know of the peer with this name. Undefined if it is forgotten, or a mirror. */
  recordOf(name: string): PeerRecord | undefined {
    const peer = this.#peers.get(name) ?? this.#lost.get(name);
    if (!peer || peer.isMirror) return undefined;
    const { owner, key, held } = peer;
    const pairs = this.#lingering.pairsOf(name);
    if (key !== undefined)
      for (const destination of this.#tunnels.get(name) ?? []) {
        const other = this.#peers.get(destination)?.key;
        if (other !== undefined) pairs.push([key, other]);
      }
    return { owner, keys: [...new Set([...held, ...(key === undefined ? [] : [key])])], pairs };
  }

  /** Whether the key belongs to a node, or did in the last 15 minutes, also if the node has lost its rights. */
  owned(key: string): boolean {
    return this.#owners.has(key);
  }

  /** Whether a node with this key is connected, or was until recently. */
  introduced(key: string): boolean {
    return this.#byKey.has(key) || this.#lingering.hasKey(key);
  }

  /** Whether nodes with these keys share a tunnel, or did when one of them lost the coordinator. */
  permits(source: string, destination: string): boolean {
    const destinations = this.#byKey.get(destination);
    if (destinations)
      for (const from of this.#byKey.get(source) ?? [])
        for (const to of destinations) if (this.#allows(from.name, to.name)) return true;
    return this.#lingering.hasPair(source, destination);
  }

  /** The keys for which `permits` is true with this key. */
  partnersOf(key: string): string[] {
    const partners = new Set(this.#lingering.partnersOf(key));
    for (const peer of this.#byKey.get(key) ?? [])
      for (const other of this.#others(peer))
        if (other.key !== undefined && this.#allows(peer.name, other.name)) partners.add(other.key);
    return [...partners];
  }

  async #request(peer: Peer, request: CoordinateRequest): Promise<void> {
    if (!peer.isOpen) return;
    let violation = await peer.rule(request);
    if (!peer.isOpen) return;
    violation ??= this.#foreignKey(peer, request.updateSelf?.node);
    if (violation !== undefined) this.#fail(peer, `authorization: ${violation}`);
    else this.#apply(peer, request);
    this.#settle();
  }

  #apply(peer: Peer, { updateSelf, addTunnel, removeTunnel, disconnect, readyForHandshake }: CoordinateRequest): void {
    if (updateSelf?.node) this.#update(peer, updateSelf.node);
    if (addTunnel && !this.#addTunnel(peer, addTunnel.id)) return;
    if (removeTunnel) this.#removeTunnel(peer, Buffer.from(removeTunnel.id).toString('hex'));
    if (disconnect) this.#end(peer, 'disconnected', 'graceful disconnect');
    else for (const { id } of readyForHandshake) this.#ready(peer, id);
  }

  #reject(peer: Peer, error?: string): void {
    peer.isOpen = false;
    if (error !== undefined) peer.queue.error(error);
    peer.queue.end();
    peer.forgotten.resolve();
  }

  #join(peer: Peer, old: Peer | undefined): void {
    if (old?.isOpen) {
      old.queue.error(OVERWRITTEN);
      this.#linger(old);
      this.#remove(old);
    }
    // from now on, its new server decides
    if (peer.isMirror && old && !old.isMirror) this.#lingering.deletePeer(peer.name);
    if (old) {
      this.#lost.delete(old.name);
      this.#wantNoMore(old);
      old.forgotten.resolve();
      peer.updates = old.updates;
      for (const other of old.lostTo) if (this.#peers.has(other) || this.#lost.has(other)) peer.lostTo.add(other);
    }
    this.#peers.set(peer.name, peer);
    this.#changed.add(peer.name);
    for (const id of old?.missed.values() ?? []) this.#disconnect(peer, id);
    this.#send(peer, this.#others(peer), 'init');
    this.#settle();
  }

  /** What is wrong with a key of this node: its owner is another one. */
  #foreignKey({ owner, isMirror }: Peer, node: Node | undefined): string | undefined {
    const { key, disco } = keysOf(node);
    const isForeign = (own: string) => !this.#owners.allows(own, owner) || (!isMirror && !this.#mayPublish(own, owner));
    if (key && isForeign(key)) return 'the node key belongs to another owner';
    if (disco && isForeign(disco)) return 'the disco key belongs to another owner';
    return undefined;
  }

  #update(peer: Peer, node: Node): void {
    const isSame = peer.node !== undefined && equals(NodeSchema, peer.node, node);
    if (isSame || peer.updates.takeWhole(1, this.#now())) {
      this.#publish(peer, node);
      return;
    }
    peer.delayed = node;
    this.#delayed.add(peer);
    this.#holdKeys(peer);
  }

  #publish(peer: Peer, node: Node): void {
    peer.delayed = undefined;
    this.#delayed.delete(peer);
    const hasNewKey = this.#setKey(peer, node);
    peer.node = node;
    this.#holdKeys(peer);
    for (const other of this.#others(peer)) {
      this.#send(other, [peer], 'node update');
      if (hasNewKey) this.#changed.add(other.name);
    }
  }

  /** Makes the owner of a connected peer the owner of the keys of both its nodes. */
  #holdKeys(peer: Peer): void {
    const nodes = peer.isOpen ? [keysOf(peer.node), keysOf(peer.delayed)] : [];
    const held = [...new Set(nodes.flatMap(({ key, disco }) => [key, disco]))].filter((key) => key !== undefined);
    for (const key of held) if (!peer.held.includes(key)) this.#owners.hold(key, peer.owner);
    for (const key of peer.held) if (!held.includes(key)) this.#owners.release(key);
    peer.held = held;
    this.#changed.add(peer.name);
  }

  #addTunnel(peer: Peer, id: Uint8Array): boolean {
    const destination = hexOf(id);
    if (id.length !== ID_BYTES || destination === peer.name) {
      this.#fail(peer, 'invalid tunnel: the id of another peer has 16 bytes');
      return false;
    }
    if ((this.#tunnels.get(peer.name)?.size ?? 0) >= MAX_TUNNELS) {
      this.#fail(peer, `too many tunnels: at most ${MAX_TUNNELS}`);
      return false;
    }
    addTo(this.#tunnels, peer.name, destination);
    addTo(this.#sources, destination, peer.name);
    this.#changed.add(peer.name);
    const other = this.#peers.get(destination);
    if (!other) return true;
    this.#send(peer, [other], 'add tunnel');
    this.#send(other, [peer], 'add tunnel');
    return true;
  }

  #removeTunnel(peer: Peer, destination: string): void {
    const existed = this.#deleteTunnel(peer.name, destination);
    if (!peer.isOpen) this.#wantNoMore(peer, destination);
    if (this.#share(peer.name, destination)) return;
    const isConnected = peer.isOpen && this.#peers.has(destination);
    const isKept = !isConnected && this.#lingering.namesWith(peer.name).includes(destination);
    if (peer.lostTo.delete(destination) || isKept) this.#forgetLostBy(destination, peer);
    this.#lingering.deleteBetween(peer.name, destination);
    this.#changed.add(destination);
    const other = this.#peers.get(destination);
    if (!existed || !other) return;
    this.#forget(other, peer, Kind.DISCONNECTED, 'remove tunnel');
    this.#forget(peer, other, Kind.DISCONNECTED, 'remove tunnel');
  }

  #loseTunnel(peer: Peer, destination: string): void {
    const existed = this.#deleteTunnel(peer.name, destination);
    const other = this.#peers.get(destination);
    if (!existed || !other || this.#share(peer.name, destination)) return;
    this.#changed.add(destination);
    this.#lose(peer, other, 'lost');
    this.#forget(other, peer, Kind.LOST, 'lost');
  }

  #ready(peer: Peer, id: Uint8Array): void {
    const name = hexOf(id);
    if (!this.#share(peer.name, name)) {
      const error = `ready for handshake error: you do not share a tunnel with "${uuidText(id)}"`;
      if (!peer.queue.error(error)) this.#slow.add(peer);
      return;
    }
    const other = this.#peers.get(name);
    other?.queue.startBatch();
    other?.queue.update(peer.name, peerUpdate({ id: peer.id, kind: Kind.READY_FOR_HANDSHAKE }));
  }

  /** Ends a connection that broke a rule, after an error for its peer. */
  #fail(peer: Peer, error: string): void {
    peer.queue.error(error);
    this.#end(peer, 'lost', 'lost');
  }

  #end(peer: Peer, end: PeerEnd, reason: string): void {
    if (!peer.isOpen) {
      if (end !== 'disconnected' || this.#lost.get(peer.name) !== peer) return;
      const others = new Set([...this.#lingering.namesWith(peer.name), ...peer.lostTo]);
      this.#forgetLost(peer);
      for (const name of others) this.#forgetLostBy(name, peer);
      return;
    }
    const others = this.#others(peer);
    if (end === 'lost') this.#linger(peer);
    this.#remove(peer);
    const destinations = [...(this.#tunnels.get(peer.name) ?? [])];
    for (const destination of destinations) this.#deleteTunnel(peer.name, destination);
    if (end === 'lost') {
      peer.lostUntil = this.#now() + LINGER_MS;
      this.#lost.set(peer.name, peer);
      if (!peer.isMirror) peer.wanted = destinations;
      for (const destination of peer.wanted) addTo(this.#lostSources, destination, peer.name);
      if (this.#lost.size > MAX_LOST) this.#forgetLost(this.#lost.values().next().value!);
    }
    for (const other of others) {
      if (end === 'lost') this.#lose(peer, other, reason);
      else this.#forget(peer, other, Kind.DISCONNECTED, reason);
      this.#changed.add(other.name);
    }
    if (end === 'lost') return;
    const absent = this.#lingering.namesWith(peer.name).filter((name) => !this.#peers.has(name));
    for (const name of new Set([...peer.lostTo, ...absent])) this.#forgetLostBy(name, peer);
    this.#forgetLost(peer);
  }

  /** Ends the place that a peer keeps after its loss. */
  #forgetLost(peer: Peer): void {
    this.#lost.delete(peer.name);
    for (const name of this.#lingering.namesWith(peer.name)) this.#changed.add(name);
    this.#lingering.deletePeer(peer.name);
    this.#wantNoMore(peer);
    this.#changed.add(peer.name);
    peer.forgotten.resolve();
  }

  /** Forgets that a lost peer had a tunnel to this destination. Without one: to any. */
  #wantNoMore(peer: Peer, destination?: string): void {
    const isEnded = (name: string) => destination === undefined || name === destination;
    for (const name of peer.wanted) if (isEnded(name)) deleteFrom(this.#lostSources, name, peer.name);
    peer.wanted = peer.wanted.filter((name) => !isEnded(name));
  }

  /** Removes a peer but not its tunnels. */
  #remove(peer: Peer): void {
    peer.isOpen = false;
    peer.queue.end();
    peer.sent.clear();
    peer.delayed = undefined;
    this.#delayed.delete(peer);
    this.#peers.delete(peer.name);
    if (peer.key) deleteFrom(this.#byKey, peer.key, peer);
    this.#holdKeys(peer);
    this.#slow.delete(peer);
  }

  #linger(peer: Peer): void {
    const { name, key } = peer;
    if (!key) return;
    this.#lingering.addKey({ name, key });
    for (const other of this.#others(peer))
      if (other.key && this.#allows(name, other.name))
        this.#lingering.add({ name, key }, { name: other.name, key: other.key });
  }

  /** Returns whether the key has changed. */
  #setKey(peer: Peer, node: Node): boolean {
    const { key } = keysOf(node);
    if (key === peer.key) return false;
    if (peer.key) deleteFrom(this.#byKey, peer.key, peer);
    if (key) addTo(this.#byKey, key, peer);
    peer.key = key;
    return true;
  }

  /** Whether there is a tunnel between two peers, in either direction. */
  #share(a: string, b: string): boolean {
    return this.#tunnels.get(a)?.has(b) === true || this.#tunnels.get(b)?.has(a) === true;
  }

  /** Whether there is a tunnel between two peers about which this server decides. */
  #allows(a: string, b: string): boolean {
    return this.#isDecided(a, b) || this.#isDecided(b, a);
  }

  #isDecided(source: string, destination: string): boolean {
    return this.#peers.get(source)?.isMirror === false && this.#tunnels.get(source)?.has(destination) === true;
  }

  #isWantedHere(name: string): boolean {
    for (const source of this.#sources.get(name) ?? []) if (this.#peers.get(source)?.isMirror === false) return true;
    return this.#lostSources.has(name);
  }

  #deleteTunnel(source: string, destination: string): boolean {
    this.#changed.add(source);
    deleteFrom(this.#sources, destination, source);
    return deleteFrom(this.#tunnels, source, destination);
  }

  /** The connected peers at the other end of this peer's tunnels, in either direction. */
  #others(peer: Peer): Peer[] {
    const names = new Set([...(this.#tunnels.get(peer.name) ?? []), ...(this.#sources.get(peer.name) ?? [])]);
    return [...names].flatMap((name) => this.#peers.get(name) ?? []);
  }

  /** Sends the nodes of these peers in one batch: those that the receiver does not have. */
  #send(to: Peer, from: Peer[], reason: string): void {
    to.queue.startBatch();
    for (const { id, name, node, lostTo } of from) {
      const last = to.sent.get(name);
      if (!node || (last && equals(NodeSchema, last, node))) continue;
      to.sent.set(name, node);
      lostTo.delete(to.name);
      this.#push(to, name, peerUpdate({ id, node, kind: Kind.NODE, reason }), !last);
    }
  }

  /** Announces that `from` is gone, if `to` has its node. Returns whether it has. */
  #forget(from: Peer, to: Peer, kind: Kind, reason: string): boolean {
    if (!to.sent.delete(from.name)) return false;
    to.queue.startBatch();
    this.#push(to, from.name, peerUpdate({ id: from.id, kind, reason }));
    return true;
  }

  /** Announces that `from` is lost, if `to` has its node. */
  #lose(from: Peer, to: Peer, reason: string): void {
    if (this.#forget(from, to, Kind.LOST, reason)) from.lostTo.add(to.name);
  }

  /**
   * Announces that a peer has lost its rights to one that is lost, or from which it is lost: nodes keep the sessions of
   * those that may come back.
   */
  #forgetLostBy(name: string, { id, name: gone }: Peer): void {
    const to = this.#peers.get(name);
    if (to) this.#disconnect(to, id);
    else this.#lost.get(name)?.missed.set(gone, id);
  }

  #disconnect(to: Peer, id: Uint8Array): void {
    to.queue.startBatch();
    this.#push(to, hexOf(id), peerUpdate({ id, kind: Kind.DISCONNECTED, reason: 'revoked' }));
  }

  #push(to: Peer, name: string, update: CoordinateResponse_PeerUpdate, isFirst?: boolean): void {
    if (!to.queue.update(name, update, isFirst)) this.#slow.add(to);
  }

  /** Ends the peers that are too slow. That may make others too slow. */
  #settle(): void {
    for (const peer of this.#slow) this.#end(peer, 'lost', 'failed update');
    if (this.#changed.size > 0) this.#onChange();
    this.#schedule();
  }

  #schedule(): void {
    const ms = this.#delayed.size > 0 ? PUBLISH_TICK_MS : EXPIRE_TICK_MS;
    const isIdle = this.#delayed.size === 0 && this.#lost.size === 0;
    if (this.#closed || isIdle || (this.#timer && this.#timer.ms <= ms)) return;
    clearTimeout(this.#timer?.timeout);
    const due = () => {
      this.#timer = undefined;
      this.tick();
    };
    this.#timer = { timeout: setTimeout(due, ms).unref(), ms };
  }
}

/** The names under which the keys of a node have an owner. The node key is in hexadecimal. */
function keysOf(node: Node | undefined): { key: string | undefined; disco: string | undefined } {
  return {
    key: node && decodeNodeKey(node.key)?.toString('hex'),
    disco: node && parseDiscoKey(node.disco) ? node.disco : undefined,
  };
}

function peerUpdate(update: {
  id: Uint8Array;
  kind: Kind;
  node?: Node;
  reason?: string;
}): CoordinateResponse_PeerUpdate {
  return create(CoordinateResponse_PeerUpdateSchema, update);
}
