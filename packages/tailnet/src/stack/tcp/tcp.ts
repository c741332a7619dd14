// The connections of one stack: which segment belongs to which of them, who answers new ones, and how many there may be.
import { createHmac, randomBytes } from 'node:crypto';
import { checksum, DESTINATION_OFFSET, flowKey, flowKeyOf, SOURCE_OFFSET } from '../../ipv6.ts';
import { Counts, SecondLimit } from '../counts.ts';
import { freeEphemeralPort } from '../ephemeral-ports.ts';
import { Budget, type Network, NetworkError } from '../network.ts';
import { createAlarm } from '../timers.ts';
import { Connection, type ConnectionHost } from './connection.ts';
import { ackFor, FLAG, type Route, resetFor, Segment } from './segment.ts';
import { TcpStream } from './stream.ts';

const CONNECT_MS = 30_000;
/** How long a handler may take to decide about a new connection, and then the peer to complete the handshake. */
const ACCEPT_MS = 30_000;
/** Twice as long as a segment may be on its way. */
const TIME_WAIT_MS = 30_000;
/** Resets per second for segments without a connection, per stack. */
const MAX_RESETS = 1_000;
/** Initial sequence numbers advance by one every 4 µs (RFC 6528). */
const SEQUENCE_PER_MS = 250;

export interface TcpLimits {
  maxConnections: number;
  maxConnectionsPerPeer: number;
  /** Connections whose handshake is not complete. */
  maxHalfOpen: number;
  maxHalfOpenPerPeer: number;
  maxTimeWait: number;
  /** Bytes that wait to be acknowledged, per connection and in all. */
  maxSendBytes: number;
  maxSendBytesInAll: number;
  /** Bytes that wait for the application, or for missing bytes before them. */
  maxReceiveBytes: number;
  maxReceiveBytesInAll: number;
}

/** What each connection may hold while the budget of all is used up. */
const GUARANTEED_BYTES = 64 * 1024;

export interface ConnectOptions {
  /** The peer's address, 16 bytes. */
  to: Buffer;
  port: number;
  /** Default 30 s. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** A peer's wish to connect. Its SYN is not answered before one of both methods is called. */
export interface Incoming {
  readonly route: Route;
  /** Aborted when the peer gives up or the decision took too long. */
  readonly signal: AbortSignal;
  /** Completes the handshake. Rejects with a NetworkError if the peer does not. */
  accept(): Promise<TcpStream>;
  /** Answers with a RST, so that the peer sees a closed port. */
  refuse(): void;
}

interface TimeWait {
  route: Route;
  seq: number;
  ack: number;
  timestamp: number;
  until: number;
}

interface Opening {
  opened(): void;
  failed(error: NetworkError): void;
}

export class Tcp implements ConnectionHost {
  readonly network: Network;
  readonly sendBudget: Budget;
  readonly receiveBudget: Budget;
  readonly #limits: TcpLimits;
  readonly #soon: (connection: Connection) => void;
  readonly #connections = new Map<string, Connection>();
  readonly #perPeer = new Counts();
  readonly #halfOpenPerPeer = new Counts();
  /** Connections whose handshake is not complete, with the callbacks that wait for it. */
  readonly #openings = new Map<Connection, Opening>();
  readonly #timeWaits = new Map<string, TimeWait>();
  readonly #timeWaitAlarm = createAlarm((now) => this.#expireTimeWaits(now));
  readonly #listeners = new Map<number, (stream: TcpStream) => void>();
  readonly #segment = new Segment();
  readonly #secret = randomBytes(32);
  #onIncoming: ((incoming: Incoming) => void) | undefined;
  readonly #resets = new SecondLimit(MAX_RESETS);
  #isClosed = false;

  constructor(network: Network, limits: TcpLimits, soon: (connection: Connection) => void) {
    this.network = network;
    this.#limits = limits;
    this.#soon = soon;
    const guaranteed = GUARANTEED_BYTES;
    this.sendBudget = new Budget({ max: limits.maxSendBytesInAll, maxEach: limits.maxSendBytes, guaranteed });
    this.receiveBudget = new Budget({ max: limits.maxReceiveBytesInAll, maxEach: limits.maxReceiveBytes, guaranteed });
  }

  get stats(): { connections: number; halfOpen: number; timeWait: number; sendBytes: number; receiveBytes: number } {
    return {
      connections: this.#connections.size,
      halfOpen: this.#openings.size,
      timeWait: this.#timeWaits.size,
      sendBytes: this.sendBudget.used,
      receiveBytes: this.receiveBudget.used,
    };
  }

  soon(connection: Connection): void {
    this.#soon(connection);
  }

  listen(port: number, handler: (stream: TcpStream) => void): () => void {
    if (this.#listeners.has(port)) throw new NetworkError('EADDRINUSE', `Port ${port} already has a listener`);
    this.#listeners.set(port, handler);
    return () => void this.#listeners.delete(port);
  }

  onIncoming(handler: ((incoming: Incoming) => void) | undefined): void {
    this.#onIncoming = handler;
  }

  async connect({ to, port, timeoutMs = CONNECT_MS, signal }: ConnectOptions): Promise<TcpStream> {
    signal?.throwIfAborted();
    if (this.#isClosed) throw new NetworkError('ECONNABORTED', 'The network stack is closed');
    if (this.#connections.size >= this.#limits.maxConnections)
      throw new NetworkError('ENOBUFS', 'Too many connections in the tailnet');
    const connection = this.#add(this.#freeRoute(to, port), true);
    const stream = new TcpStream(connection);
    const aborted = () => connection.abort(new NetworkError('ECONNABORTED', 'Aborted'));
    signal?.addEventListener('abort', aborted);
    try {
      await this.#handshake(connection, () => connection.open(timeoutMs));
      return stream;
    } catch (err) {
      signal?.throwIfAborted();
      throw err;
    } finally {
      signal?.removeEventListener('abort', aborted);
    }
  }

  /** Resolves when the connection is open. */
  #handshake(connection: Connection, begin: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#openings.set(connection, { opened: resolve, failed: reject });
      begin();
    });
  }

  #freeRoute(peer: Buffer, peerPort: number): Route {
    const address = this.network.sourceFor(peer);
    const port = freeEphemeralPort(this.network.random(), (each) => {
      const key = flowKey(peer, peerPort, address, each);
      return !this.#connections.has(key) && !this.#timeWaits.has(key) && !this.#listeners.has(each);
    });
    if (port === undefined) throw new NetworkError('EADDRNOTAVAIL', 'All ports to this peer are in use');
    return { peer: Buffer.from(peer), peerPort, address, port };
  }

  #add(route: Route, isActive: boolean): Connection {
    const key = flowKey(route.peer, route.peerPort, route.address, route.port);
    const initial = this.#initialSequence(key);
    const connection = new Connection(this, { route, key, initial, isActive });
    this.#connections.set(key, connection);
    this.#perPeer.add(route.peer.toString('latin1'), 1);
    return connection;
  }

  /** Unpredictable for others, and greater than that of an earlier connection with the same addresses (RFC 6528). */
  #initialSequence(key: string): number {
    const hash = createHmac('sha256', this.#secret).update(key, 'latin1').digest().readUInt32BE(0);
    return (hash + Math.floor(this.network.now() * SEQUENCE_PER_MS)) >>> 0;
  }

  // from connections

  opened(connection: Connection): void {
    const opening = this.#openings.get(connection);
    this.#forgetOpening(connection);
    opening?.opened();
  }

  ended(connection: Connection, waits: boolean): void {
    this.#connections.delete(connection.key);
    this.#perPeer.add(connection.route.peer.toString('latin1'), -1);
    const opening = this.#openings.get(connection);
    this.#forgetOpening(connection);
    opening?.failed(
      connection.error ?? new NetworkError('ECONNABORTED', 'The connection was closed before it was open'),
    );
    if (waits && !this.#isClosed) this.#addTimeWait(connection);
  }

  #forgetOpening(connection: Connection): void {
    if (this.#openings.delete(connection) && connection.isPassive)
      this.#halfOpenPerPeer.add(connection.route.peer.toString('latin1'), -1);
  }

  #addTimeWait(connection: Connection): void {
    if (this.#timeWaits.size >= this.#limits.maxTimeWait) {
      const [oldest] = this.#timeWaits.keys();
      this.#timeWaits.delete(oldest!);
    }
    const until = this.network.now() + TIME_WAIT_MS;
    this.#timeWaits.set(connection.key, { route: connection.route, ...connection.last, until });
    if (this.#timeWaitAlarm.dueAt > until) this.network.timers.set(this.#timeWaitAlarm, until);
  }

  #expireTimeWaits(now: number): void {
    for (const [key, { until }] of this.#timeWaits) {
      if (until > now) {
        this.network.timers.set(this.#timeWaitAlarm, until);
        return;
      }
      this.#timeWaits.delete(key);
    }
  }

  // from the network

  receive(packet: Buffer, address: Buffer): void {
    const segment = this.#segment;
    if (!segment.read(packet) || checksum(packet) !== 0) return;
    if (segment.sourcePort === 0 || segment.port === 0) return;
    const key = flowKeyOf(packet);
    const connection = this.#connections.get(key);
    if (connection) {
      connection.receive(segment, packet);
      return;
    }
    const peer = Buffer.from(packet.subarray(SOURCE_OFFSET, DESTINATION_OFFSET));
    const route: Route = { peer, peerPort: segment.sourcePort, address, port: segment.port };
    const timeWait = this.#timeWaits.get(key);
    if (timeWait && !this.#isNewConnection(timeWait, segment)) {
      this.#answerTimeWait(timeWait, segment);
      return;
    }
    if (timeWait) this.#timeWaits.delete(key);
    if ((segment.flags & (FLAG.syn | FLAG.ack | FLAG.rst | FLAG.fin)) === FLAG.syn) this.#receiveSyn(route, segment);
    else this.#reset(route, segment);
  }

  /** A SYN that cannot belong to the old connection (RFC 6191). */
  #isNewConnection(timeWait: TimeWait, segment: Segment): boolean {
    if (!segment.is(FLAG.syn) || segment.is(FLAG.ack)) return false;
    if (segment.hasTimestamps && ((segment.timestamp - timeWait.timestamp) | 0) > 0) return true;
    return ((segment.seq - timeWait.ack) | 0) > 0;
  }

  #answerTimeWait({ route, seq, ack }: TimeWait, segment: Segment): void {
    if (segment.is(FLAG.rst) || segment.length === 0) return;
    this.network.send(ackFor(route, seq, ack));
  }

  /** Answers a segment without a connection, unless it is a RST. */
  #reset(route: Route, segment: Segment): void {
    if (!segment.is(FLAG.rst) && this.#resets.take(this.network.now())) this.network.send(resetFor(route, segment));
  }

  #receiveSyn(route: Route, segment: Segment): void {
    const listener = this.#listeners.get(route.port);
    if (!listener && !this.#onIncoming) {
      this.#reset(route, segment);
      return;
    }
    const peer = route.peer.toString('latin1');
    const { maxConnections, maxConnectionsPerPeer, maxHalfOpen, maxHalfOpenPerPeer } = this.#limits;
    if (this.#connections.size >= maxConnections || this.#perPeer.of(peer) >= maxConnectionsPerPeer) {
      this.#reset(route, segment);
      return;
    }
    // the peer sends its SYN again
    if (this.#openings.size >= maxHalfOpen || this.#halfOpenPerPeer.of(peer) >= maxHalfOpenPerPeer) return;
    const connection = this.#add(route, false);
    this.#halfOpenPerPeer.add(peer, 1);
    connection.takeSyn(segment);
    if (listener) this.#acceptFor(connection, listener);
    else this.#offer(connection, this.#onIncoming!);
  }

  #acceptFor(connection: Connection, listener: (stream: TcpStream) => void): void {
    const stream = new TcpStream(connection);
    this.#openings.set(connection, { opened: () => listener(stream), failed: () => {} });
    connection.answer(ACCEPT_MS);
  }

  #offer(connection: Connection, onIncoming: (incoming: Incoming) => void): void {
    const given = new AbortController();
    this.#openings.set(connection, { opened: () => {}, failed: (error) => given.abort(error) });
    connection.awaitDecision(ACCEPT_MS);
    onIncoming({
      route: connection.route,
      signal: given.signal,
      accept: async () => {
        if (connection.state !== 'deciding')
          throw connection.error ?? new NetworkError('ECONNABORTED', 'The connection was decided already');
        const stream = new TcpStream(connection);
        await this.#handshake(connection, () => connection.answer(ACCEPT_MS));
        return stream;
      },
      refuse: () => {
        if (connection.state === 'deciding') connection.abort(new NetworkError('ECONNREFUSED', 'Refused'));
      },
    });
  }

  /** Lets the connections with a peer send again what has no answer. */
  retry(peer: Buffer): void {
    for (const connection of this.#connections.values()) if (connection.route.peer.equals(peer)) connection.retry();
  }

  /** Resets all connections, or those with one peer. */
  abort(peer?: Buffer): void {
    const error = new NetworkError('ECONNRESET', peer ? 'The peer is gone' : 'The network stack is closed');
    for (const connection of [...this.#connections.values()])
      if (!peer || connection.route.peer.equals(peer)) connection.abort(error);
  }

  close(): void {
    this.#isClosed = true;
    this.#onIncoming = undefined;
    this.#listeners.clear();
    this.abort();
    this.#timeWaits.clear();
  }
}
