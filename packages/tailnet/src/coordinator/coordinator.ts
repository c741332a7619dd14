// The coordinator introduces nodes to each other: it passes each node's keys and addresses to the nodes at the other end
// of its tunnels.
//
// - A peer is one control connection, named by an id of 16 bytes: an agent's id, or a client's random one.
// - A tunnel is the wish of one peer to reach another, which need not be connected. Nodes pass in both directions.
// - A peer that is lost may come back. A peer that disconnects does not.
import { create, equals } from '@bufbuild/protobuf';
import { type Clock, systemClock } from '@ropewalk/kit';
import {
  type CoordinateRequest,
  type CoordinateResponse,
  type CoordinateResponse_PeerUpdate,
  CoordinateResponse_PeerUpdateSchema,
  CoordinateResponseSchema,
  CoordinateResponse_PeerUpdate_Kind as Kind,
  type Node,
  NodeSchema,
} from '@ropewalk/wire/proto/tailnet';
import type { RelayPolicy } from '../derp/relay.ts';
import { decodeNodeKey } from '../keys.ts';
import { LingeringPairs } from './lingering.ts';
import { ResponseQueue } from './responses.ts';
import type { CoordinateRule } from './rules.ts';

/** Maximum number of responses that wait for a peer. A peer that reads slower is lost. */
export const MAX_RESPONSES = 512;
const MAX_UPDATES_PER_RESPONSE = 1_024;
/** Maximum number of tunnels that one peer opens. */
export const MAX_TUNNELS = 16_384;
const ID_BYTES = 16;

const OVERWRITTEN = 'peer ID overwritten by new connection';

export interface ConnectOptions {
  /** 16 bytes. */
  id: Uint8Array;
  rule: CoordinateRule;
}

/** How a peer ends: lost, as after a broken connection, or disconnected, as after its own request. */
export type PeerEnd = 'lost' | 'disconnected';

/** One control connection. */
export interface CoordinatedPeer {
  /** The responses for the peer. They end when the coordinator ends the connection. */
  readonly responses: AsyncIterable<CoordinateResponse>;
  /**
   * Takes a request. Await it before the next one. A request that the rule rejects ends the responses with an error.
   * Rejects only if the rule does.
   */
  request(request: CoordinateRequest): Promise<void>;
  /**
   * Ends the tunnel to the peer with this id, and the permission to reach it over the relay. For a client that lost the
   * right to reach one agent.
   */
  revoke(id: Uint8Array): void;
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
  readonly rule: CoordinateRule;
  readonly queue: ResponseQueue;
  node: Node | undefined;
  /** The key of `node`, in hexadecimal. Remains after the end. */
  key: string | undefined;
  /** The nodes that this peer has received, by the names of their peers. */
  readonly sent: Map<string, Node>;
  isOpen: boolean;
}

export class Coordinator implements RelayPolicy {
  readonly #peers = new Map<string, Peer>();
  /** Names of destinations by the source's name, and the reverse. */
  readonly #tunnels = new Map<string, Set<string>>();
  readonly #sources = new Map<string, Set<string>>();
  /** Peers by node key. A client that could not resume its id is a second peer with the same key. */
  readonly #byKey = new Map<string, Set<Peer>>();
  readonly #lingering: LingeringPairs;
  /** Peers whose queue is full. They are lost when the current request is done. */
  readonly #slow = new Set<Peer>();

  constructor({ clock = systemClock }: { clock?: Pick<Clock, 'monotonic'> } = {}) {
    this.#lingering = new LingeringPairs(() => clock.monotonic());
  }

  /** Adds a peer. A connection with the same id ends, and the new one takes over its tunnels. */
  connect({ id, rule }: ConnectOptions): CoordinatedPeer {
    if (id.length !== ID_BYTES) throw new RangeError(`An id has ${ID_BYTES} bytes, not ${id.length}`);
    const name = Buffer.from(id).toString('hex');
    const old = this.#peers.get(name);
    if (old) {
      old.queue.push(create(CoordinateResponseSchema, { error: OVERWRITTEN }));
      this.#linger(old);
      this.#remove(old);
    }
    const peer: Peer = {
      ...{ id: Uint8Array.from(id), name, rule, queue: new ResponseQueue(MAX_RESPONSES) },
      ...{ node: undefined, key: undefined, sent: new Map(), isOpen: true },
    };
    this.#peers.set(name, peer);
    const updates = this.#others(peer).flatMap((other) => this.#nodeUpdate(other, peer, 'init') ?? []);
    this.#send(peer, updates);
    this.#settle();
    return {
      responses: peer.queue,
      request: (request) => this.#request(peer, request),
      revoke: (destination) => {
        this.#removeTunnel(peer, Buffer.from(destination).toString('hex'));
        this.#settle();
      },
      close: (end = 'lost') => {
        if (end === 'disconnected' && peer.key) this.#lingering.deleteKey(peer.key);
        this.#end(peer, end, end === 'lost' ? 'lost' : 'graceful disconnect');
        this.#settle();
      },
    };
  }

  /** The node that the peer with this id published last, while it is connected. */
  nodeOf(id: Uint8Array): Node | undefined {
    return this.#peers.get(Buffer.from(id).toString('hex'))?.node;
  }

  /** The number of connected peers and of tunnels. */
  get size(): { peers: number; tunnels: number } {
    const tunnels = [...this.#tunnels.values()].reduce((sum, destinations) => sum + destinations.size, 0);
    return { peers: this.#peers.size, tunnels };
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
        for (const to of destinations) if (this.#share(from.name, to.name)) return true;
    return this.#lingering.hasPair(source, destination);
  }

  async #request(peer: Peer, request: CoordinateRequest): Promise<void> {
    if (!peer.isOpen) return;
    const violation = await peer.rule(request);
    if (!peer.isOpen) return;
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

  #update(peer: Peer, node: Node): void {
    this.#setKey(peer, node);
    peer.node = node;
    for (const other of this.#others(peer)) {
      const update = this.#nodeUpdate(peer, other, 'node update');
      if (update) this.#send(other, [update]);
    }
  }

  #addTunnel(peer: Peer, id: Uint8Array): boolean {
    const destination = Buffer.from(id).toString('hex');
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
    const other = this.#peers.get(destination);
    if (!other) return true;
    for (const [from, to] of [
      [other, peer],
      [peer, other],
    ] as const) {
      const update = this.#nodeUpdate(from, to, 'add tunnel');
      if (update) this.#send(to, [update]);
    }
    return true;
  }

  #removeTunnel(peer: Peer, destination: string): void {
    if (!this.#deleteTunnel(peer.name, destination)) return;
    const other = this.#peers.get(destination);
    // the key of a peer that is lost is unknown here: its pair is one of these
    if (!other && peer.key) this.#lingering.deleteKey(peer.key);
    if (!other || this.#share(peer.name, destination)) return;
    if (peer.key && other.key) this.#lingering.delete(peer.key, other.key);
    this.#forget(other, peer, Kind.DISCONNECTED, 'remove tunnel');
    this.#forget(peer, other, Kind.DISCONNECTED, 'remove tunnel');
  }

  #ready(peer: Peer, id: Uint8Array): void {
    const name = Buffer.from(id).toString('hex');
    if (!this.#share(peer.name, name)) {
      const error = `ready for handshake error: you do not share a tunnel with "${uuidText(name)}"`;
      this.#push(peer, create(CoordinateResponseSchema, { error }));
      return;
    }
    const other = this.#peers.get(name);
    if (other) this.#send(other, [peerUpdate({ id: peer.id, kind: Kind.READY_FOR_HANDSHAKE })]);
  }

  /** Ends a connection that broke a rule, after an error for its peer. */
  #fail(peer: Peer, error: string): void {
    peer.queue.push(create(CoordinateResponseSchema, { error }));
    this.#end(peer, 'lost', 'lost');
  }

  #end(peer: Peer, end: PeerEnd, reason: string): void {
    if (!peer.isOpen) return;
    const others = this.#others(peer);
    if (end === 'lost') this.#linger(peer);
    else if (peer.key) this.#lingering.deleteKey(peer.key);
    this.#remove(peer);
    for (const destination of [...(this.#tunnels.get(peer.name) ?? [])]) this.#deleteTunnel(peer.name, destination);
    const kind = end === 'lost' ? Kind.LOST : Kind.DISCONNECTED;
    for (const other of others) this.#forget(peer, other, kind, reason);
  }

  /** Removes a peer but not its tunnels. */
  #remove(peer: Peer): void {
    peer.isOpen = false;
    peer.queue.end();
    this.#peers.delete(peer.name);
    if (peer.key) deleteFrom(this.#byKey, peer.key, peer);
    this.#slow.delete(peer);
  }

  #linger(peer: Peer): void {
    for (const other of this.#others(peer)) if (peer.key && other.key) this.#lingering.add(peer.key, other.key);
  }

  #setKey(peer: Peer, node: Node): void {
    const key = decodeNodeKey(node.key)?.toString('hex');
    if (key === peer.key) return;
    if (peer.key) deleteFrom(this.#byKey, peer.key, peer);
    if (key) addTo(this.#byKey, key, peer);
    peer.key = key;
  }

  /** Whether there is a tunnel between two peers, in either direction. */
  #share(a: string, b: string): boolean {
    return this.#tunnels.get(a)?.has(b) === true || this.#tunnels.get(b)?.has(a) === true;
  }

  #deleteTunnel(source: string, destination: string): boolean {
    deleteFrom(this.#sources, destination, source);
    return deleteFrom(this.#tunnels, source, destination);
  }

  /** The connected peers at the other end of this peer's tunnels, in either direction. */
  #others(peer: Peer): Peer[] {
    const names = new Set([...(this.#tunnels.get(peer.name) ?? []), ...(this.#sources.get(peer.name) ?? [])]);
    return [...names].flatMap((name) => this.#peers.get(name) ?? []);
  }

  /** The update that gives `to` the node of `from`. Undefined if there is no node, or `to` has the same one. */
  #nodeUpdate(from: Peer, to: Peer, reason: string): CoordinateResponse_PeerUpdate | undefined {
    const { node } = from;
    const last = to.sent.get(from.name);
    if (!node || (last && equals(NodeSchema, last, node))) return undefined;
    to.sent.set(from.name, node);
    return peerUpdate({ id: from.id, node, kind: Kind.NODE, reason });
  }

  /** Announces that `from` is gone, if `to` has its node. */
  #forget(from: Peer, to: Peer, kind: Kind, reason: string): void {
    if (to.sent.delete(from.name)) this.#send(to, [peerUpdate({ id: from.id, kind, reason })]);
  }

  #send(peer: Peer, updates: CoordinateResponse_PeerUpdate[]): void {
    for (let at = 0; at < updates.length; at += MAX_UPDATES_PER_RESPONSE) {
      const peerUpdates = updates.slice(at, at + MAX_UPDATES_PER_RESPONSE);
      this.#push(peer, create(CoordinateResponseSchema, { peerUpdates }));
    }
  }

  #push(peer: Peer, response: CoordinateResponse): void {
    if (!peer.queue.push(response)) this.#slow.add(peer);
  }

  /** Ends the peers that are too slow. That may make others too slow. */
  #settle(): void {
    for (const peer of this.#slow) this.#end(peer, 'lost', 'failed update');
  }
}

function peerUpdate(update: {
  id: Uint8Array;
  kind: Kind;
  node?: Node;
  reason?: string;
}): CoordinateResponse_PeerUpdate {
  return create(CoordinateResponse_PeerUpdateSchema, update);
}

function addTo<K, V>(map: Map<K, Set<V>>, key: K, value: V): void {
  const values = map.get(key);
  if (values) values.add(value);
  else map.set(key, new Set([value]));
}

function deleteFrom<K, V>(map: Map<K, Set<V>>, key: K, value: V): boolean {
  const values = map.get(key);
  const deleted = values?.delete(value) === true;
  if (values?.size === 0) map.delete(key);
  return deleted;
}

function uuidText(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
