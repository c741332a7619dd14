// A TCP/IP stack in the process, for the packets that nodes of the tailnet exchange: IPv6 with TCP, UDP,
// ICMPv6 echo and TSMP. It opens no socket. Packets from the network come in by `receive`, and those for the network
// leave by `onPacket`.
//
// Packets of one turn of the event loop are a group: connections answer after the group, in a microtask. All timers are
// one real timer, which does not keep the process alive and ends with `close`.
import { type Clock, systemClock } from '@ropewalk/kit';
import { ADDRESS_BYTES } from '../address.ts';
import { DESTINATION_OFFSET, isUnicast, PROTOCOL, SOURCE_OFFSET, wholeIpv6 } from '../ipv6.ts';
import { MAX_PACKET_BYTES, MTU } from '../wireguard/session.ts';
import { Echo, type PingOptions } from './echo.ts';
import { type Network, NetworkError } from './network.ts';
import type { Connection } from './tcp/connection.ts';
import type { TcpStream } from './tcp/stream.ts';
import { type ConnectOptions, type Incoming, Tcp, type TcpLimits } from './tcp/tcp.ts';
import { type Schedule, Timers } from './timers.ts';
import { Udp, type UdpFlow, type UdpFlowHandler, type UdpLimits } from './udp.ts';

export type StackLimits = TcpLimits & UdpLimits;

const MAX_CONNECTIONS = 4_096;
const MAX_CONNECTIONS_PER_PEER = 1_024;
const MAX_HALF_OPEN = 512;
const MAX_HALF_OPEN_PER_PEER = 128;
const MAX_TIME_WAIT = 1_024;
const MIB = 1024 * 1024;
const MAX_SEND_BYTES = 4 * MIB;
const MAX_SEND_BYTES_IN_ALL = 64 * MIB;
const MAX_RECEIVE_BYTES = 4 * MIB;
const MAX_RECEIVE_BYTES_IN_ALL = 64 * MIB;
const MAX_UDP_FLOWS = 1_024;
const MAX_UDP_FLOWS_PER_PEER = 256;

export interface StackOptions {
  /** The node's own addresses, 16 bytes each. Connections begin from the one that shares most bits with the peer's. */
  addresses: readonly Buffer[];
  clock?: Pick<Clock, 'monotonic'>;
  /** Sets timers. Default: real ones. */
  schedule?: Schedule;
  /** A number from 0 to 1, for ports. Default Math.random. */
  random?: () => number;
  limits?: Partial<StackLimits>;
  /** A packet for the network, up to MAX_PACKET_BYTES. It is not changed later. */
  onPacket: (packet: Buffer) => void;
  /** The longest packet that now reaches the peer with an address. Default: MTU. */
  packetBytes?: (peer: Buffer) => number;
  /** Packets longer than MTU do not reach the peer with this address. */
  onLongPacketsLost?: (peer: Buffer) => void;
}

export interface StackStats {
  connections: number;
  halfOpen: number;
  timeWait: number;
  udpFlows: number;
  /** Bytes that connections hold. */
  sendBytes: number;
  receiveBytes: number;
  /** Connections and flows with a timer. */
  timers: number;
  packetsReceived: number;
  packetsSent: number;
  /** Packets that are not for this node, or no protocol takes. */
  packetsDropped: number;
}

export class Stack {
  readonly #addresses: readonly Buffer[];
  readonly #onPacket: (packet: Buffer) => void;
  readonly #timers: Timers;
  readonly #network: Network;
  readonly #echo: Echo;
  readonly #udp: Udp;
  readonly #tcp: Tcp;
  #waiting = new Set<Connection>();
  #isScheduled = false;
  #isClosed = false;
  readonly #packets = { packetsReceived: 0, packetsSent: 0, packetsDropped: 0 };

  constructor(options: StackOptions) {
    const { clock = systemClock, random = Math.random } = options;
    if (options.addresses.length === 0) throw new RangeError('A stack needs an address');
    for (const { length } of options.addresses)
      if (length !== ADDRESS_BYTES) throw new RangeError(`An address has ${ADDRESS_BYTES} bytes, not ${length}`);
    this.#addresses = options.addresses.map((address) => Buffer.from(address));
    this.#onPacket = options.onPacket;
    this.#timers = new Timers(() => clock.monotonic(), options.schedule);
    this.#network = {
      timers: this.#timers,
      now: () => clock.monotonic(),
      random,
      send: (packet) => this.#send(packet),
      packetBytes: options.packetBytes ?? (() => MTU),
      longPacketsLost: (peer) => options.onLongPacketsLost?.(peer),
      sourceFor: (peer) => closest(this.#addresses, peer),
    };
    const limits: StackLimits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#echo = new Echo(this.#network);
    this.#udp = new Udp(this.#network, limits);
    this.#tcp = new Tcp(this.#network, limits, (connection) => this.#soon(connection));
  }

  get stats(): StackStats {
    return { ...this.#tcp.stats, udpFlows: this.#udp.size, timers: this.#timers.size, ...this.#packets };
  }

  /**
   * Takes a packet from the network. The caller has checked that the source address is the sender's. The packet must not
   * be changed later. Packets that are malformed or not for this node have no effect.
   */
  receive(packet: Buffer): void {
    if (this.#isClosed) return;
    this.#packets.packetsReceived++;
    if (!this.#receive(packet)) this.#packets.packetsDropped++;
  }

  #receive(received: Buffer): boolean {
    const packet = wholeIpv6(received);
    if (!packet || !isUnicast(packet, SOURCE_OFFSET)) return false;
    const address = this.#ownAddress(packet);
    if (!address) return false;
    switch (packet[6]) {
      case PROTOCOL.tcp:
        this.#tcp.receive(packet, address);
        return true;
      case PROTOCOL.udp:
        this.#udp.receive(packet, address);
        return true;
      case PROTOCOL.icmpv6:
        this.#echo.receiveIcmp(packet);
        return true;
      case PROTOCOL.tsmp:
        this.#echo.receiveTsmp(packet);
        return true;
      default:
        return false;
    }
  }

  #ownAddress(packet: Buffer): Buffer | undefined {
    return this.#addresses.find(
      (address) => address.compare(packet, DESTINATION_OFFSET, DESTINATION_OFFSET + ADDRESS_BYTES) === 0,
    );
  }

  /**
   * Opens a TCP connection. Rejects with a NetworkError (ECONNREFUSED, ETIMEDOUT, ENOBUFS, EADDRNOTAVAIL), or with the
   * signal's reason.
   */
  connect(options: ConnectOptions): Promise<TcpStream> {
    return this.#tcp.connect(options);
  }

  /** Serves a TCP port: each connection once it is open. Returns a function that ends it. */
  listen(port: number, handler: (stream: TcpStream) => void): () => void {
    return this.#tcp.listen(port, handler);
  }

  /** Decides about TCP connections to all ports without a listener. Without a handler they are refused. */
  onIncoming(handler: ((incoming: Incoming) => void) | undefined): void {
    this.#tcp.onIncoming(handler);
  }

  /** Begins a flow of UDP. */
  openUdp(to: Buffer, port: number, handler: UdpFlowHandler): UdpFlow {
    return this.#udp.open(to, port, handler);
  }

  /** Handles flows of UDP that peers begin, on all ports. The handler calls `flow.handle` or loses the first datagram. */
  onUdpFlow(handler: ((flow: UdpFlow) => void) | undefined): void {
    this.#udp.serve(handler);
  }

  /** The round trip to a peer, in ms. */
  ping(to: Buffer, options?: PingOptions): Promise<number> {
    return this.#echo.ping(to, options);
  }

  /**
   * The path to a peer changed, or this machine slept: connections with it send again what has no answer, and idle ones ask
   * whether the peer still has them.
   */
  retry(peer: Buffer): void {
    this.#tcp.retry(peer);
  }

  /** Ends everything with a peer that is gone. */
  forget(peer: Buffer): void {
    this.#tcp.abort(peer);
    this.#udp.close(peer);
  }

  /** Resets all connections and cancels all timers. */
  close(): void {
    if (this.#isClosed) return;
    this.#tcp.close();
    this.#udp.serve(undefined);
    this.#udp.close();
    this.#echo.close(new NetworkError('ECONNABORTED', 'The network stack is closed'));
    this.#isClosed = true;
    this.#waiting.clear();
    this.#timers.close();
  }

  #send(packet: Buffer): void {
    if (packet.length > MAX_PACKET_BYTES)
      throw new RangeError(`A packet has up to ${MAX_PACKET_BYTES} bytes, not ${packet.length}`);
    this.#packets.packetsSent++;
    this.#onPacket(packet);
  }

  #soon(connection: Connection): void {
    this.#waiting.add(connection);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#isScheduled = false;
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const connection of waiting) {
      waiting.delete(connection);
      try {
        connection.flush();
      } catch (err) {
        // of the application: it must not stop other connections
        queueMicrotask(() => {
          throw err;
        });
      }
    }
  }
}

/** The address with the longest common prefix. */
function closest(addresses: readonly Buffer[], peer: Buffer): Buffer {
  const common = (address: Buffer) => {
    let bytes = 0;
    while (bytes < ADDRESS_BYTES && address[bytes] === peer[bytes]) bytes++;
    return bytes;
  };
  return addresses.reduce((best, address) => (common(address) > common(best) ? address : best));
}

const DEFAULT_LIMITS: StackLimits = {
  maxConnections: MAX_CONNECTIONS,
  maxConnectionsPerPeer: MAX_CONNECTIONS_PER_PEER,
  maxHalfOpen: MAX_HALF_OPEN,
  maxHalfOpenPerPeer: MAX_HALF_OPEN_PER_PEER,
  maxTimeWait: MAX_TIME_WAIT,
  maxSendBytes: MAX_SEND_BYTES,
  maxSendBytesInAll: MAX_SEND_BYTES_IN_ALL,
  maxReceiveBytes: MAX_RECEIVE_BYTES,
  maxReceiveBytesInAll: MAX_RECEIVE_BYTES_IN_ALL,
  maxFlows: MAX_UDP_FLOWS,
  maxFlowsPerPeer: MAX_UDP_FLOWS_PER_PEER,
};
