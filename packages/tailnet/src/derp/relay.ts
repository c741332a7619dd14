// The relay: forwards packets between clients that cannot reach each other directly. It sees only sealed packets.
//
// - A connection is one byte stream. It signs in with a node key, whose possession it proves.
// - A client is all connections of one key. Packets for it go to its active connection: the one that signed in or sent a
//   packet last.
// - A node's connection may be at the relay of another server. Relays forward packets to each other over links, only
//   between nodes that may exchange packets, and only once.
// - A stranger's may be there, too: a load balancer puts the two keys of a check at two relays. Other relays do not know
//   where strangers are. So a stranger's packet to a key that is absent here goes to all of them, within the stranger's budget
//   and that of all strangers. They forward it only to strangers.
// - A key is introduced if the server knows whose it is. A stranger is a client whose key is not: a program that checks
//   the relay with throw-away keys, or a node before its first announcement.
//
// Budgets keep one client from delaying the others:
//
// - Reading. Above its bytes per second the relay does not read from a client for a while. Nothing is lost: the client's
//   own connection slows it down. If all clients together exceed theirs, they take turns.
// - Queues. Packets for a slow reader wait in its queue, which drops the oldest. A sender never waits for a reader.
import type { Duplex } from 'node:stream';
import { type Clock, systemClock } from '@ropewalk/kit';
import { isDisco } from '../disco.ts';
import { KeyPair } from '../keys.ts';
import { hexOf, nameOf } from '../names.ts';
import { RateBudget } from '../rate-budget.ts';
import {
  DerpError,
  DerpFrameReader,
  decodeClientInfo,
  decodeForward,
  decodePacket,
  decodePing,
  encodeForward,
  encodeFrame,
  encodeRestarting,
  encodeServerInfo,
  encodeServerKey,
  FORWARDED_OFFSET,
  FRAME,
  GONE,
  HEADER_BYTES,
  type Restart,
  turnForwardIntoReceive,
  turnIntoReceive,
} from './frames.ts';
import { Outbox } from './outbox.ts';
import type { QueueBudget } from './packet-queue.ts';

/** Decides which clients may reach each other. Keys are 64 hexadecimal digits. Both functions are called often and must be fast. */
export interface RelayPolicy {
  /** Whether the server knows whose key this is. */
  introduced(key: string): boolean;
  /**
   * Whether the key is or was a node's, also of one that has lost its rights. It never sends as strangers may. Default: as
   * `introduced`.
   */
  owned?(key: string): boolean;
  /** Whether the source may send packets to the destination. Without it, the destination seems to be absent. */
  permits(source: string, destination: string): boolean;
  /**
   * A client with this key has signed in. What it sends waits until the result resolves, which it must do soon. For policies
   * that must ask somebody else.
   */
  arrived?(key: string): Promise<void> | undefined;
  /** The last connection of the client with this key has ended. */
  departed?(key: string): void;
}

/** The way to another relay. */
export interface RelayLink {
  /** Sends a frame of type `forward`. Returns the number of packets that were dropped. */
  send(frame: Buffer): number;
}

/** The relays of other servers. Keys are 64 hexadecimal digits. */
export interface RelayMesh {
  /** The way to the relay where this node is connected. Undefined if no other relay has it. Must be fast. */
  find(key: string): RelayLink | undefined;
  /** The ways to all other relays. */
  links(): Iterable<RelayLink>;
  /** An introduced node has connected to this relay, or does not count as connected any more. */
  present(key: string, isPresent: boolean): void;
}

export interface RelayOptions {
  policy: RelayPolicy;
  /** Default: there are no other relays. */
  mesh?: RelayMesh;
  /** Default: a new key pair, as clients learn it with each connection. */
  keys?: KeyPair;
  clock?: Pick<Clock, 'monotonic'>;
  /** Default 10,000. */
  maxConnections?: number;
  /** Maximum number of connections that have not signed in. The oldest ends when another one comes. Default 256. */
  maxSigningIn?: number;
  /** Maximum number of connections of strangers. The oldest ends when another one comes. Default 256. */
  maxStrangers?: number;
  /** Maximum number of bytes of packets that wait for all slow connections together. Default 64 MiB. */
  maxQueuedBytes?: number;
  /** … for all connections of one key. Default 2 MiB. */
  maxQueuedBytesPerKey?: number;
  /** Maximum number of bytes that the relay reads per second, 256 more for each frame. Default 256 MiB. */
  maxBytesPerSecond?: number;
  /** … from all connections of one key. Default 128 MiB. */
  maxBytesPerSecondPerKey?: number;
}

export interface AcceptOptions {
  /**
   * Called when the connection has signed in, and whenever its key becomes introduced or ceases to be: whether its key is
   * that of a stranger. Until then the connection counts as a stranger's, too. Return false to end it. For the server's
   * limits per client address, which the relay does not know.
   */
  onStranger?: (isStranger: boolean) => boolean;
}

/** Why a connection ended. */
export type RelayEnd =
  | 'closed' // The client or the network ended it.
  | 'protocol' // The client broke the protocol.
  | 'unauthenticated' // The client does not have the key that it names.
  | 'timeout' // The client did not sign in in time.
  | 'slow' // The client accepted nothing for too long.
  | 'limit' // There are too many connections, or too many of this kind.
  | 'stopped'; // The relay stopped.

export interface RelayClosed {
  end: RelayEnd;
  /** The client's key as 64 hexadecimal digits, if it signed in. */
  key?: string;
  error?: Error;
}

export interface RelayStats {
  /** Now. */
  connections: number;
  signingIn: number;
  strangers: number;
  /** Connections that exceeded a budget and are not read for a while. */
  paused: number;
  clients: number;
  /** Clients with more than one connection. */
  duplicates: number;
  /** Clients whose home this relay is. */
  homes: number;
  queuedPackets: number;
  queuedBytes: number;
  /** Since the start. */
  accepted: number;
  ended: Record<RelayEnd, number>;
  packetsReceived: number;
  bytesReceived: number;
  /** Including those that a full queue dropped later. */
  packetsForwarded: number;
  bytesForwarded: number;
  /** To other relays, including those that a full queue dropped later, and from them. */
  packetsToRelays: number;
  packetsFromRelays: number;
  /** Packets that no client received, by reason. */
  dropped: Record<'absent' | 'denied' | 'budget' | 'full', number>;
}

export interface RelayTraffic {
  /** 64 hexadecimal digits. */
  key: string;
  /** From the client. */
  bytesReceived: number;
  /** To the client, including packets that a full queue dropped later. */
  bytesSent: number;
}

const SIGN_IN_MS = 10_000;
/** A connection may take this long to accept what fills its buffer. */
const WRITE_MS = 5_000;
const KEEP_ALIVE_MS = 60_000;
const KEEP_ALIVE_JITTER_MS = 5_000;
const TICK_MS = 1_000;
/** Maximum number of connections of one key. The oldest ends when another one comes. */
const MAX_CONNECTIONS_PER_KEY = 4;
/** Maximum number of clients that are informed when one disconnects: those to which it sent last. */
const MAX_CORRESPONDENTS = 4_096;
/** What a connection of a stranger may send to other strangers in all. A check of the relay needs a few packets. */
const STRANGER_PACKETS = 64;
const STRANGER_BYTES = 64 * 1024;
/** What the relay reads from a stranger, or from a connection that signs in, per second and in a burst. */
const MAX_STRANGER_BYTES_PER_SECOND = 32 * 1024;
const STRANGER_BURST_BYTES = 128 * 1024;
/** Maximum number of packets of strangers that the relay forwards to other relays, per second and in a burst. */
const MAX_STRANGER_FORWARDS_PER_SECOND = 64;
const STRANGER_FORWARDS_BURST = 256;
/** What waits for a stranger that reads slowly. */
const MAX_STRANGER_QUEUED_BYTES = 64 * 1024;
/** The work for a frame, as a number of bytes whose work is as much. */
const FRAME_COST_BYTES = 256;
/** How often the relay looks for connections that it may read again. */
const RESUME_TICK_MS = 10;
/** Usual maximum of bytes that one read gives. */
const READ_BYTES = 64 * 1024;
/** How often a client learns that a destination of its disco packets is absent: so many immediately, then one a second. */
const ABSENT_BURST = 3;
const IN_USE = 'Another connection uses the same key: both receive only some of the packets.';

/** All connections of one key. */
class Client {
  readonly key: Buffer;
  readonly hexKey: string;
  /** Oldest first. */
  connections: Connection[] = [];
  active: Connection;
  /** Keys to which it has sent, the last one last. */
  readonly sentTo = new Set<string>();
  /** Whether its connections take turns in sending, so that both were warned. */
  warned = false;
  /** Whether it has connected to another relay since it sent something here. */
  hasMoved = false;
  isStranger = true;
  /** Until then, what it sends waits. */
  judged: Promise<void> | undefined;
  /** Bytes of packets since it connected. */
  bytesReceived = 0;
  bytesSent = 0;
  readonly rate: RateBudget;
  readonly queued: QueueBudget = { bytes: 0, maxBytes: MAX_STRANGER_QUEUED_BYTES };

  constructor(key: Buffer, first: Connection) {
    this.rate = first.rate;
    this.key = key;
    this.hexKey = key.toString('hex');
    this.active = first;
  }
}

/** What the relay reads within budgets. */
interface Paced {
  readonly stream: Duplex;
  readonly rate: RateBudget;
  /** Frames since the last piece of received bytes. */
  frames: number;
  /** Frames that wait for the policy's judgment of its key. Until then it is not read. */
  held?: { type: number; frame: Buffer }[] | undefined;
}

class Connection implements Paced {
  readonly stream: Duplex;
  readonly outbox: Outbox;
  readonly since: number;
  readonly reader: DerpFrameReader;
  readonly onEnd: (closed: RelayClosed) => void;
  readonly onStranger: AcceptOptions['onStranger'];
  client: Client | undefined;
  /** The budget of its key, once it signed in. */
  rate: RateBudget;
  frames = 0;
  held: Paced['held'];
  isHome = false;
  /** It was the active connection of its client before. */
  hasSent = false;
  keepAliveAt = Number.POSITIVE_INFINITY;
  strangerPackets = STRANGER_PACKETS;
  strangerBytes = STRANGER_BYTES;
  absentTokens = ABSENT_BURST;
  absentAt: number;

  constructor(
    stream: Duplex,
    now: () => number,
    budget: QueueBudget,
    onFrame: (connection: Connection, type: number, frame: Buffer) => void,
    onEnd: (closed: RelayClosed) => void,
    onStranger: AcceptOptions['onStranger'],
  ) {
    this.stream = stream;
    this.onStranger = onStranger;
    this.rate = new RateBudget(MAX_STRANGER_BYTES_PER_SECOND, now(), STRANGER_BURST_BYTES);
    this.outbox = new Outbox(stream, now, budget);
    this.since = now();
    this.absentAt = this.since;
    this.reader = new DerpFrameReader((type, frame) => onFrame(this, type, frame));
    this.onEnd = onEnd;
  }
}

export class DerpRelay {
  readonly #policy: RelayPolicy;
  readonly #mesh: RelayMesh | undefined;
  readonly #keys: KeyPair;
  readonly #now: () => number;
  readonly #budget: QueueBudget;
  readonly #max: {
    connections: number;
    signingIn: number;
    strangers: number;
    queuedBytesPerKey: number;
    bytesPerSecondPerKey: number;
  };
  /** What may be read from all connections. */
  readonly #rate: RateBudget;
  /** Connections and links that are not read, the longest first. */
  readonly #paused = new Set<Paced>();
  /** Streams on which other relays forward packets. */
  readonly #links = new Set<Duplex>();
  readonly #maxBytesPerSecond: number;
  /** What strangers may send to other relays. */
  readonly #strangerForwards: RateBudget;
  /** Names of clients that have received packets from a node at another relay, by its name. */
  readonly #receivers = new Map<string, Set<string>>();
  #resumeTimer: NodeJS.Timeout | undefined;
  readonly #connections = new Set<Connection>();
  /** Oldest first. */
  readonly #signingIn = new Set<Connection>();
  /** Oldest first. Some may have been introduced since. */
  readonly #strangers = new Set<Connection>();
  /** By key, as binary text. */
  readonly #clients = new Map<string, Client>();
  readonly #timer: NodeJS.Timeout;
  #stopped = false;
  readonly #counts = {
    accepted: 0,
    ended: { closed: 0, protocol: 0, unauthenticated: 0, timeout: 0, slow: 0, limit: 0, stopped: 0 },
    packetsReceived: 0,
    bytesReceived: 0,
    packetsForwarded: 0,
    bytesForwarded: 0,
    packetsToRelays: 0,
    packetsFromRelays: 0,
    dropped: { absent: 0, denied: 0, budget: 0, full: 0 },
  };

  constructor(options: RelayOptions) {
    const { policy, keys, clock = systemClock, maxConnections, maxSigningIn, maxStrangers, maxQueuedBytes } = options;
    this.#budget = { bytes: 0, maxBytes: maxQueuedBytes ?? 64 * 1024 * 1024 };
    this.#maxBytesPerSecond = options.maxBytesPerSecond ?? 256 * 1024 * 1024;
    this.#rate = new RateBudget(this.#maxBytesPerSecond, clock.monotonic());
    this.#strangerForwards = new RateBudget(
      MAX_STRANGER_FORWARDS_PER_SECOND,
      clock.monotonic(),
      STRANGER_FORWARDS_BURST,
    );
    this.#policy = policy;
    this.#mesh = options.mesh;
    this.#keys = keys ?? KeyPair.generate();
    this.#now = () => clock.monotonic();
    this.#max = {
      connections: maxConnections ?? 10_000,
      signingIn: maxSigningIn ?? 256,
      strangers: maxStrangers ?? 256,
      queuedBytesPerKey: options.maxQueuedBytesPerKey ?? 2 * 1024 * 1024,
      bytesPerSecondPerKey: options.maxBytesPerSecondPerKey ?? 128 * 1024 * 1024,
    };
    this.#timer = setInterval(() => this.tick(), TICK_MS).unref();
  }

  /** The relay's public key, 32 bytes. */
  get publicKey(): Buffer {
    return this.#keys.publicKey;
  }

  /**
   * Serves one connection: a socket after its upgrade, or a WebSocket as a byte stream. The relay owns the stream from
   * now on and changes the bytes that it delivers. Resolves when the connection ended and never rejects.
   */
  accept(stream: Duplex, { onStranger }: AcceptOptions = {}): Promise<RelayClosed> {
    return new Promise((resolve) => {
      this.#counts.accepted++;
      stream.on('error', () => {});
      if (this.#stopped || this.#connections.size >= this.#max.connections) {
        const end = this.#stopped ? 'stopped' : 'limit';
        this.#counts.ended[end]++;
        stream.destroy();
        resolve({ end });
        return;
      }
      const onFrame = (from: Connection, type: number, frame: Buffer) => this.#receive(from, type, frame);
      const connection = new Connection(stream, this.#now, this.#budget, onFrame, resolve, onStranger);
      this.#connections.add(connection);
      this.#signingIn.add(connection);
      if (this.#signingIn.size > this.#max.signingIn) this.#end([...this.#signingIn][0]!, 'limit');
      stream.on('data', (chunk: Buffer) => this.#read(connection, chunk));
      stream.once('end', () => this.#end(connection, 'closed'));
      stream.once('close', () => this.#end(connection, 'closed'));
      stream.once('error', (error) => this.#end(connection, 'closed', error));
      connection.outbox.answer(encodeServerKey(this.#keys.publicKey));
    });
  }

  /** The way to the relay at the other end of this stream, which passes the stream to `acceptLink`. */
  openLink(stream: Duplex): RelayLink {
    const outbox = new Outbox(stream, this.#now, this.#budget);
    stream.once('close', () => outbox.clear());
    return { send: (frame) => outbox.packet(frame, FORWARDED_OFFSET) };
  }

  /** Takes the packets that another relay forwards, until the stream ends. */
  acceptLink(stream: Duplex): void {
    const rate = new RateBudget(this.#maxBytesPerSecond, this.#now());
    const link: Paced = { stream, rate, frames: 0 };
    const reader = new DerpFrameReader((type, frame) => {
      link.frames++;
      if (type === FRAME.forward) this.#receiveForwarded(frame);
      else if (type === FRAME.forwardStranger) this.#receiveOfStranger(frame);
    });
    this.#links.add(stream);
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
        this.#pace(link, chunk.length);
      } catch (err) {
        if (!(err instanceof DerpError)) throw err;
        reader.stop();
        stream.destroy();
      }
    });
    stream.once('end', () => stream.destroy());
    stream.once('close', () => {
      this.#links.delete(stream);
      this.#paused.delete(link);
    });
    if (this.#stopped) stream.destroy();
  }

  /** Looks again whether the client with this key is a stranger. */
  classify(key: string): void {
    const client = this.#clients.get(nameOf(Buffer.from(key, 'hex')));
    if (client) this.#classify(client);
  }

  /** The node with this key has connected to another relay. */
  moved(key: string): void {
    const client = this.#clients.get(nameOf(Buffer.from(key, 'hex')));
    if (client) client.hasMoved = true;
  }

  /** The node with this key has left all other relays. */
  left(key: string): void {
    const bytes = Buffer.from(key, 'hex');
    const name = nameOf(bytes);
    const receivers = this.#receivers.get(name);
    this.#receivers.delete(name);
    const here = this.#clients.get(name);
    if (here) here.hasMoved = false;
    else
      for (const receiver of receivers ?? []) this.#clients.get(receiver)?.active.outbox.gone(bytes, GONE.disconnected);
  }

  /** Ends connections that are late or stuck, and sends keepalives. The relay's timer calls it each second. */
  tick(): void {
    const now = this.#now();
    for (const client of this.#clients.values()) this.#classify(client);
    for (const connection of this.#connections) {
      if (connection.outbox.blockedMs > WRITE_MS) this.#end(connection, 'slow');
      else if (!connection.client) {
        if (now - connection.since > SIGN_IN_MS) this.#end(connection, 'timeout');
      } else if (now >= connection.keepAliveAt) {
        connection.outbox.keepAlive();
        connection.keepAliveAt = keepAliveAfter(now);
        // a client that was introduced may be a stranger by now
        this.#noteStranger(connection, connection.client);
      }
    }
  }

  /** Ends all connections. With `restart` the clients first learn when to come back. */
  close(restart?: Restart): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#resumeTimer);
    for (const link of this.#links) link.destroy();
    for (const connection of [...this.#connections]) {
      if (restart && connection.client) {
        connection.outbox.answer(encodeRestarting(restart));
        connection.stream.end();
      }
      this.#end(connection, 'stopped');
    }
  }

  /** The bytes of packets of each client since it connected. */
  traffic(): RelayTraffic[] {
    return [...this.#clients.values()].map(({ hexKey: key, bytesReceived, bytesSent }) => ({
      key,
      bytesReceived,
      bytesSent,
    }));
  }

  stats(): RelayStats {
    const connections = [...this.#connections];
    const clients = [...this.#clients.values()];
    const sum = (number: (connection: Connection) => number) =>
      connections.reduce((total, connection) => total + number(connection), 0);
    const { ended, dropped, ...counts } = this.#counts;
    return {
      connections: connections.length,
      signingIn: this.#signingIn.size,
      strangers: this.#strangers.size,
      paused: this.#paused.size,
      clients: clients.length,
      duplicates: clients.filter((client) => client.connections.length > 1).length,
      homes: clients.filter((client) => client.active.isHome).length,
      queuedPackets: sum(({ outbox }) => outbox.queuedPackets),
      queuedBytes: sum(({ outbox }) => outbox.queuedBytes),
      ...counts,
      ended: { ...ended },
      dropped: { ...dropped },
    };
  }

  #read(connection: Connection, chunk: Buffer): void {
    if (!this.#connections.has(connection)) return;
    this.#within(connection, () => connection.reader.push(chunk));
    this.#pace(connection, chunk.length);
    if (!this.#connections.has(connection)) this.#paused.delete(connection);
  }

  /** Ends a connection that breaks the protocol. */
  #within(connection: Connection, receive: () => void): void {
    try {
      receive();
    } catch (err) {
      if (!(err instanceof DerpError)) throw err;
      this.#end(connection, err.code === 'unauthenticated' ? 'unauthenticated' : 'protocol', err);
    }
  }

  /** Stops to read for a while if that exceeds a budget. */
  #pace(source: Paced, bytes: number): void {
    const cost = bytes + source.frames * FRAME_COST_BYTES;
    source.frames = 0;
    const now = this.#now();
    const isWithin = source.rate.take(cost, now);
    if (this.#rate.take(cost, now) && isWithin) return;
    source.stream.pause();
    this.#paused.add(source);
    this.#scheduleResume();
  }

  #scheduleResume(): void {
    if (this.#paused.size === 0 || this.#stopped) return;
    this.#resumeTimer ??= setTimeout(() => {
      this.#resumeTimer = undefined;
      this.#resume();
      this.#scheduleResume();
    }, RESUME_TICK_MS).unref();
  }

  /** Reads again from connections whose budgets allow it. */
  #resume(): void {
    const now = this.#now();
    let left = this.#rate.left(now);
    for (const source of [...this.#paused]) {
      if (left <= 0) return;
      if (source.held || source.rate.left(now) <= 0) continue;
      left -= READ_BYTES;
      this.#paused.delete(source);
      source.stream.resume();
    }
  }

  #receive(connection: Connection, type: number, frame: Buffer): void {
    const { client, outbox } = connection;
    if (connection.held) {
      connection.held.push({ type, frame });
      return;
    }
    connection.frames++;
    if (!client) {
      if (type !== FRAME.clientInfo) throw new DerpError('protocol', `Frame ${type} came before the sign-in`);
      this.#signIn(connection, frame);
      return;
    }
    switch (type) {
      case FRAME.send:
        this.#forward(connection, client, frame);
        return;
      case FRAME.ping:
        outbox.answer(encodeFrame(FRAME.pong, decodePing(frame)));
        return;
      case FRAME.notePreferred:
        if (frame.length !== HEADER_BYTES + 1) throw new DerpError('protocol', 'A preference has one byte');
        connection.isHome = frame[HEADER_BYTES] === 1;
        return;
      case FRAME.clientInfo:
        throw new DerpError('protocol', 'The client signed in twice');
      case FRAME.watch:
      case FRAME.closePeer:
      case FRAME.forward:
      case FRAME.forwardStranger:
        throw new DerpError('protocol', `Frame ${type} is for other relays, which do not connect here`);
      default: // a pong, or a frame for clients: without effect
    }
  }

  #signIn(connection: Connection, frame: Buffer): void {
    const { key, box } = decodeClientInfo(this.#keys, frame);
    this.#signingIn.delete(connection);
    const name = nameOf(key);
    let client = this.#clients.get(name);
    if (!client) {
      client = new Client(key, connection);
      this.#clients.set(name, client);
      this.#ask(client);
    }
    connection.client = client;
    connection.rate = client.rate;
    connection.outbox.shareWithKey(client.queued);
    client.connections.push(connection);
    client.active = connection;
    connection.keepAliveAt = keepAliveAfter(this.#now());
    connection.outbox.answer(encodeServerInfo(box, {}));
    if (client.connections.length > MAX_CONNECTIONS_PER_KEY) this.#end(client.connections[0]!, 'limit');
    client.hasMoved = false;
    const hasChanged = this.#classify(client);
    if (!hasChanged) {
      if (!client.isStranger) this.#mesh?.present(client.hexKey, true);
      this.#reportStranger(connection, client);
    }
    if (!this.#connections.has(connection)) return;
    this.#noteStranger(connection, client);
    if (client.judged) this.#hold(connection, client.judged);
  }

  #ask(client: Client): void {
    const judged = this.#policy.arrived?.(client.hexKey);
    client.judged = judged?.then(() => {
      client.judged = undefined;
      this.#classify(client);
    });
  }

  /** Reads no further from a connection until the policy has judged its key. */
  #hold(connection: Connection, judged: Promise<void>): void {
    connection.held = [];
    connection.stream.pause();
    void judged.then(() => {
      const frames = connection.held ?? [];
      connection.held = undefined;
      if (!this.#connections.has(connection)) return;
      this.#within(connection, () => {
        for (const { type, frame } of frames)
          if (this.#connections.has(connection)) this.#receive(connection, type, frame);
      });
      if (this.#connections.has(connection) && !this.#paused.has(connection)) connection.stream.resume();
    });
  }

  /** Notes whether a client is a stranger. Returns whether that has changed. */
  #classify(client: Client): boolean {
    const isStranger = !this.#policy.introduced(client.hexKey);
    if (client.isStranger === isStranger) return false;
    client.isStranger = isStranger;
    const now = this.#now();
    if (isStranger) client.rate.limit(MAX_STRANGER_BYTES_PER_SECOND, now, STRANGER_BURST_BYTES);
    else client.rate.limit(this.#max.bytesPerSecondPerKey, now);
    client.queued.maxBytes = isStranger ? MAX_STRANGER_QUEUED_BYTES : this.#max.queuedBytesPerKey;
    this.#mesh?.present(client.hexKey, !isStranger);
    for (const connection of [...client.connections]) this.#reportStranger(connection, client);
    return true;
  }

  #reportStranger(connection: Connection, { isStranger }: Client): void {
    if (connection.onStranger?.(isStranger) === false) this.#end(connection, 'limit');
  }

  #noteStranger(connection: Connection, client: Client): void {
    if (this.#strangers.has(connection) || this.#policy.introduced(client.hexKey)) return;
    this.#strangers.add(connection);
    for (const stranger of this.#strangers) {
      if (this.#strangers.size <= this.#max.strangers) return;
      this.#strangers.delete(stranger);
      if (!this.#policy.introduced(stranger.client!.hexKey)) this.#end(stranger, 'limit');
    }
  }

  #forward(connection: Connection, client: Client, frame: Buffer): void {
    this.#counts.packetsReceived++;
    this.#counts.bytesReceived += frame.length;
    client.bytesReceived += frame.length;
    if (client.active !== connection) this.#activate(client, connection);
    connection.hasSent = true;
    client.hasMoved = false;
    const { key, packet } = decodePacket(frame);
    const name = nameOf(key);
    const destination = this.#clients.get(name);
    const link = destination?.hasMoved === false ? undefined : this.#mesh?.find(hexOf(key));
    if (link) {
      this.#forwardTo(link, connection, client, frame);
      return;
    }
    if (!destination || !this.#permits(connection, client, destination, frame.length)) {
      // a destination that the client may not reach looks like an absent one
      if (isDisco(packet)) this.#reportAbsent(connection, key);
      if (!destination && (isDisco(packet) || !this.#forwardOfStranger(connection, client, frame)))
        this.#counts.dropped.absent++;
      return;
    }
    if (!client.sentTo.has(name)) {
      client.sentTo.add(name);
      if (client.sentTo.size > MAX_CORRESPONDENTS) client.sentTo.delete(client.sentTo.values().next().value!);
    }
    turnIntoReceive(frame, client.key);
    this.#deliver(destination, frame);
  }

  #deliver(destination: Client, frame: Buffer): void {
    this.#counts.dropped.full += destination.active.outbox.packet(frame);
    this.#counts.packetsForwarded++;
    this.#counts.bytesForwarded += frame.length;
    destination.bytesSent += frame.length;
  }

  /** Forwards a packet to the relay of its destination. Strangers there are not reached. */
  #forwardTo(link: RelayLink, connection: Connection, client: Client, frame: Buffer): void {
    const { key, packet } = decodePacket(frame);
    if (!this.#policy.permits(client.hexKey, hexOf(key))) {
      this.#counts.dropped.denied++;
      if (isDisco(packet)) this.#reportAbsent(connection, key);
      return;
    }
    if (client.isStranger) this.#classify(client);
    this.#counts.dropped.full += link.send(encodeForward(client.key, frame));
    this.#counts.packetsToRelays++;
  }

  /** The other relay has checked that the source may send to the destination. */
  #receiveForwarded(frame: Buffer): void {
    this.#counts.packetsFromRelays++;
    const { source, destination: key } = decodeForward(frame);
    const destination = this.#clients.get(nameOf(key));
    if (destination?.isStranger) this.#classify(destination);
    if (!destination || destination.isStranger) {
      this.#counts.dropped[destination ? 'denied' : 'absent']++;
      return;
    }
    const name = nameOf(source);
    const receivers = this.#receivers.get(name) ?? new Set();
    if (receivers.size === 0) this.#receivers.set(name, receivers);
    if (receivers.size < MAX_CORRESPONDENTS) receivers.add(nameOf(destination.key));
    this.#deliver(destination, turnForwardIntoReceive(frame));
  }

  /** Forwards a packet to all other relays if both keys are strangers. Returns whether there are any, and both are. */
  #forwardOfStranger(connection: Connection, client: Client, frame: Buffer): boolean {
    const links = [...(this.#mesh?.links() ?? [])];
    if (links.length === 0 || this.#isNode(client.hexKey) || this.#isNode(hexOf(decodePacket(frame).key))) return false;
    if (!this.#isWithin(connection, frame.length) || !this.#strangerForwards.takeWhole(1, this.#now())) {
      this.#counts.dropped.budget++;
      return true;
    }
    for (const link of links)
      this.#counts.dropped.full += link.send(encodeForward(client.key, frame, FRAME.forwardStranger));
    this.#counts.packetsToRelays += links.length;
    return true;
  }

  /** The other relay has counted the packet. Both relays must take both keys for strangers. */
  #receiveOfStranger(frame: Buffer): void {
    const { source, destination: key } = decodeForward(frame);
    const destination = this.#clients.get(nameOf(key));
    if (!destination) return;
    this.#counts.packetsFromRelays++;
    if (this.#isNode(hexOf(source)) || this.#isNode(destination.hexKey)) this.#counts.dropped.denied++;
    else this.#deliver(destination, turnForwardIntoReceive(frame));
  }

  #permits(connection: Connection, source: Client, destination: Client, bytes: number): boolean {
    if (this.#policy.permits(source.hexKey, destination.hexKey)) {
      if (source.isStranger) this.#classify(source);
      if (destination.isStranger) this.#classify(destination);
      return true;
    }
    if (this.#isNode(source.hexKey) || this.#isNode(destination.hexKey)) {
      this.#counts.dropped.denied++;
      return false;
    }
    const isWithin = this.#isWithin(connection, bytes);
    if (!isWithin) this.#counts.dropped.budget++;
    return isWithin;
  }

  /** Counts what a stranger sends to another one. Returns whether it may. */
  #isWithin(connection: Connection, bytes: number): boolean {
    connection.strangerPackets--;
    connection.strangerBytes -= bytes;
    return connection.strangerPackets >= 0 && connection.strangerBytes >= 0;
  }

  #isNode(hexKey: string): boolean {
    return this.#policy.introduced(hexKey) || this.#policy.owned?.(hexKey) === true;
  }

  #activate(client: Client, connection: Connection): void {
    client.active = connection;
    // A new connection that replaces a dead one takes over once. Connections that take turns are two programs.
    if (!connection.hasSent || client.warned) return;
    client.warned = true;
    for (const { outbox } of client.connections) outbox.answer(encodeFrame(FRAME.health, Buffer.from(IN_USE)));
  }

  #reportAbsent(connection: Connection, key: Buffer): void {
    const now = this.#now();
    connection.absentTokens = Math.min(ABSENT_BURST, connection.absentTokens + (now - connection.absentAt) / 1_000);
    connection.absentAt = now;
    if (connection.absentTokens < 1) return;
    connection.absentTokens--;
    connection.outbox.gone(key, GONE.notHere);
  }

  #end(connection: Connection, end: RelayEnd, error?: Error): void {
    if (!this.#connections.delete(connection)) return;
    this.#signingIn.delete(connection);
    this.#strangers.delete(connection);
    this.#paused.delete(connection);
    connection.reader.stop();
    connection.outbox.clear();
    this.#counts.ended[end]++;
    const { client, stream } = connection;
    if (client) this.#leave(client, connection);
    if (stream.writableEnded) setTimeout(() => stream.destroy(), WRITE_MS).unref();
    else stream.destroy();
    connection.onEnd({ end, ...(client && { key: client.hexKey }), ...(error && { error }) });
  }

  #leave(client: Client, connection: Connection): void {
    client.connections = client.connections.filter((other) => other !== connection);
    const newest = client.connections.at(-1);
    if (newest) {
      if (client.active === connection) client.active = newest;
      if (!client.warned || client.connections.length > 1) return;
      client.warned = false;
      newest.outbox.answer(encodeFrame(FRAME.health));
      return;
    }
    this.#clients.delete(nameOf(client.key));
    this.#policy.departed?.(client.hexKey);
    if (this.#stopped) return;
    if (!client.isStranger) this.#mesh?.present(client.hexKey, false);
    for (const name of client.sentTo) this.#clients.get(name)?.active.outbox.gone(client.key, GONE.disconnected);
  }
}

function keepAliveAfter(now: number): number {
  return now + KEEP_ALIVE_MS + Math.random() * KEEP_ALIVE_JITTER_MS;
}
