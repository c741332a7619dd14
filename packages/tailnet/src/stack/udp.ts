// UDP (RFC 768) in flows. A flow is what passes between one port of a peer and one own port. It begins with the first
// datagram from either side and ends when it was idle for a while.

import {
  checksum,
  DESTINATION_OFFSET,
  flowKey,
  flowKeyOf,
  IPV6_HEADER_BYTES,
  PROTOCOL,
  SOURCE_OFFSET,
  writeChecksum,
  writeIpv6Header,
} from '../ipv6.ts';
import { nameOf } from '../names.ts';
import { MTU } from '../wireguard/session.ts';
import { Counts } from './counts.ts';
import { freeEphemeralPort } from './ephemeral-ports.ts';
import { type Network, NetworkError } from './network.ts';
import { type Alarm, createAlarm } from './timers.ts';

const HEADER_BYTES = 8;
const PAYLOAD = IPV6_HEADER_BYTES + HEADER_BYTES;
const CHECKSUM_OFFSET = IPV6_HEADER_BYTES + 6;
/** The longest datagram. */
export const MAX_DATAGRAM_BYTES: number = MTU - PAYLOAD;
/** How long a flow without datagrams stays. */
const IDLE_MS = 120_000;
/** The same for DNS, whose flows have one datagram in each direction. */
const DNS_IDLE_MS = 30_000;
const DNS_PORT = 53;

export interface UdpLimits {
  /** Maximum number of flows of one peer. A new one replaces the peer's flow that was idle for longest. */
  maxFlowsPerPeer: number;
  maxFlows: number;
}

/** What a flow does with the datagrams from its peer, and at its end. */
export interface UdpFlowHandler {
  onMessage(payload: Buffer): void;
  onClose?(): void;
}

/** What the flow needs of its owner. */
interface Owner {
  readonly network: Network;
  removed(flow: UdpFlow): void;
}

export class UdpFlow {
  /** The peer's address and port, and the own ones. */
  readonly peer: Buffer;
  readonly peerPort: number;
  readonly address: Buffer;
  readonly port: number;
  readonly key: string;
  readonly #owner: Owner;
  readonly #alarm: Alarm;
  #handler: UdpFlowHandler | undefined;
  #usedAt = 0;
  #isClosed = false;

  constructor(owner: Owner, options: { peer: Buffer; peerPort: number; address: Buffer; port: number }) {
    this.peer = options.peer;
    this.peerPort = options.peerPort;
    this.address = options.address;
    this.port = options.port;
    this.key = flowKey(this.peer, this.peerPort, this.address, this.port);
    this.#owner = owner;
    this.#alarm = createAlarm(() => this.close());
    this.touch();
  }

  get usedAt(): number {
    return this.#usedAt;
  }

  handle(handler: UdpFlowHandler): void {
    this.#handler = handler;
  }

  /** Sends a datagram. Returns false if it is longer than MAX_DATAGRAM_BYTES, or the flow has ended. */
  send(payload: Uint8Array): boolean {
    if (payload.length > MAX_DATAGRAM_BYTES || this.#isClosed) return false;
    this.touch();
    const packet = Buffer.allocUnsafe(PAYLOAD + payload.length);
    writeIpv6Header(packet, PROTOCOL.udp, this.address, this.peer);
    packet.writeUInt16BE(this.port, IPV6_HEADER_BYTES);
    packet.writeUInt16BE(this.peerPort, IPV6_HEADER_BYTES + 2);
    packet.writeUInt16BE(HEADER_BYTES + payload.length, IPV6_HEADER_BYTES + 4);
    packet.set(payload, PAYLOAD);
    writeChecksum(packet, CHECKSUM_OFFSET);
    // 0 means that there is no checksum
    if (packet.readUInt16BE(CHECKSUM_OFFSET) === 0) packet.writeUInt16BE(0xffff, CHECKSUM_OFFSET);
    this.#owner.network.send(packet);
    return true;
  }

  /** Ends the flow. A later datagram of the peer begins a new one. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#owner.network.timers.cancel(this.#alarm);
    this.#owner.removed(this);
    this.#handler?.onClose?.();
  }

  receive(payload: Buffer): void {
    this.touch();
    this.#handler?.onMessage(payload);
  }

  touch(): void {
    this.#usedAt = this.#owner.network.now();
    const isDns = this.port === DNS_PORT || this.peerPort === DNS_PORT;
    this.#owner.network.timers.set(this.#alarm, this.#usedAt + (isDns ? DNS_IDLE_MS : IDLE_MS));
  }
}

export class Udp implements Owner {
  readonly network: Network;
  readonly #limits: UdpLimits;
  readonly #flows = new Map<string, UdpFlow>();
  readonly #perPeer = new Counts();
  #onFlow: ((flow: UdpFlow) => void) | undefined;

  constructor(network: Network, limits: UdpLimits) {
    this.network = network;
    this.#limits = limits;
  }

  get size(): number {
    return this.#flows.size;
  }

  /** Handles flows that peers begin. The handler calls `flow.handle` before it returns, or loses the first datagram. */
  serve(onFlow: ((flow: UdpFlow) => void) | undefined): void {
    this.#onFlow = onFlow;
  }

  /** Begins a flow to a peer's port. Throws a NetworkError if there are too many. */
  open(peer: Buffer, peerPort: number, handler: UdpFlowHandler): UdpFlow {
    const address = this.network.sourceFor(peer);
    const port = freeEphemeralPort(
      this.network.random(),
      (each) => !this.#flows.has(flowKey(peer, peerPort, address, each)),
    );
    if (port === undefined) throw new NetworkError('EADDRNOTAVAIL', 'All ports for UDP are in use');
    const flow = this.#add({ peer, peerPort, address, port });
    if (!flow) throw new NetworkError('ENOBUFS', 'Too many flows of UDP');
    flow.handle(handler);
    return flow;
  }

  receive(packet: Buffer, address: Buffer): void {
    if (packet.length < PAYLOAD) return;
    const length = packet.readUInt16BE(IPV6_HEADER_BYTES + 4);
    if (length !== packet.length - IPV6_HEADER_BYTES) return;
    if (packet.readUInt16BE(CHECKSUM_OFFSET) === 0 || checksum(packet) !== 0) return;
    let flow = this.#flows.get(flowKeyOf(packet));
    if (!flow) {
      const peerPort = packet.readUInt16BE(IPV6_HEADER_BYTES);
      const port = packet.readUInt16BE(IPV6_HEADER_BYTES + 2);
      if (!this.#onFlow || peerPort === 0 || port === 0) return;
      const peer = Buffer.from(packet.subarray(SOURCE_OFFSET, DESTINATION_OFFSET));
      flow = this.#add({ peer, peerPort, address, port });
      if (!flow) return;
      this.#onFlow(flow);
    }
    flow.receive(packet.subarray(PAYLOAD));
  }

  /** Ends all flows, or those with one peer. */
  close(peer?: Buffer): void {
    for (const flow of [...this.#flows.values()]) if (!peer || flow.peer.equals(peer)) flow.close();
  }

  removed(flow: UdpFlow): void {
    this.#flows.delete(flow.key);
    this.#perPeer.add(nameOf(flow.peer), -1);
  }

  #add(options: { peer: Buffer; peerPort: number; address: Buffer; port: number }): UdpFlow | undefined {
    const peer = nameOf(options.peer);
    if (this.#perPeer.of(peer) >= this.#limits.maxFlowsPerPeer) this.#closeOldest(options.peer);
    if (this.#flows.size >= this.#limits.maxFlows) return undefined;
    const flow = new UdpFlow(this, options);
    this.#flows.set(flow.key, flow);
    this.#perPeer.add(peer, 1);
    return flow;
  }

  #closeOldest(peer: Buffer): void {
    let oldest: UdpFlow | undefined;
    for (const flow of this.#flows.values())
      if (flow.peer.equals(peer) && (!oldest || flow.usedAt < oldest.usedAt)) oldest = flow;
    oldest?.close();
  }
}
