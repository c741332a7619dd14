// What the relays of all servers know of each other. Each server opens two streams to each other server once it has a
// tailnet:
//
// - It announces which keys are its nodes', which pairs of them may exchange packets, and which nodes are connected to its
//   relay.
// - It forwards packets to nodes at the other relay, and a few of strangers.
//
// A pair counts for 4 seconds after the last message of its server, which sends one a second while it has pairs. So a right
// that ends is gone in time, also at a server that is cut off.
import type { Duplex } from 'node:stream';
import { AppError, backoff, type Clock, errorText, type Logger } from '@ropewalk/kit';
import type { PeerRecord } from '@ropewalk/tailnet/coordinator/coordinator';
import type { RelayLink } from '@ropewalk/tailnet/derp/relay';
import { framedMessages, frameMessage } from '@ropewalk/wire/framed-messages';
import type { TailnetMesh, TailnetParts } from '../../rpc/tailnet/hub.ts';
import type { Peers } from '../peers.ts';
import { Elsewhere } from './elsewhere.ts';

export const MESH_SERVICE = 'tailnet mesh';
export const PACKETS_SERVICE = 'tailnet packets';
/** The longest announcement: a peer with as many tunnels as it may have. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024;
/** Maximum number of bytes that wait for a server that reads slowly. It gets everything again over another stream. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
const ALIVE_MS = 1_000;
const RETRY = { baseMs: 100, capMs: 5_000 };

type Announced =
  | { peer: string; record?: PeerRecord }
  | { key: string; isPresent: boolean }
  | { isComplete: true }
  | { isAlive: true };

const encode = (message: Announced): Buffer => frameMessage(Buffer.from(JSON.stringify(message)));

/** The streams to one other server. */
interface Neighbor {
  announcements: Duplex | undefined;
  link: RelayLink | undefined;
}

export class ClusterMesh implements TailnetMesh {
  readonly #log: Logger;
  readonly #peers: Peers;
  readonly #elsewhere: Elsewhere;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  readonly #neighbors = new Map<string, Neighbor>();
  #parts: TailnetParts | undefined;
  #keysChanged: (keys: readonly string[]) => void = () => {};
  /** The announcements of this server's peers that have a record, framed, by name. */
  readonly #records = new Map<string, Buffer>();
  /** Names of those with pairs. */
  readonly #paired = new Set<string>();
  /** Keys of nodes at this server's relay. */
  readonly #present = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor({ clock, log }: { clock: Clock; log: Logger }, peers: Peers) {
    this.#clock = clock;
    this.#log = log.child({ part: 'tailnet' });
    this.#peers = peers;
    this.#elsewhere = new Elsewhere({
      now: () => clock.monotonic(),
      onKeys: (keys) => this.#keysChanged(keys),
      onPresent: (key) => this.#parts?.relay.moved(key),
      onAbsent: (key) => this.#parts?.relay.left(key),
    });
  }

  get remote(): number {
    return this.#elsewhere.present;
  }

  introduced(key: string): boolean {
    return this.#elsewhere.introduced(key);
  }

  permits(source: string, destination: string): boolean {
    return this.#elsewhere.permits(source, destination);
  }

  partnersOf(key: string): Iterable<string> {
    return this.#elsewhere.partnersOf(key);
  }

  mayPublish(key: string, owner: string): boolean {
    return this.#elsewhere.mayPublish(key, owner);
  }

  find(key: string): RelayLink | undefined {
    const place = this.#elsewhere.placeOf(key);
    return place === undefined ? undefined : this.#neighbors.get(place)?.link;
  }

  *links(): Generator<RelayLink> {
    for (const { link } of this.#neighbors.values()) if (link) yield link;
  }

  present(key: string, isPresent: boolean): void {
    if (isPresent) this.#present.add(key);
    else if (!this.#present.delete(key)) return;
    this.#announce(encode({ key, isPresent }));
  }

  loaded(parts: TailnetParts, keysChanged: (keys: readonly string[]) => void): void {
    this.#parts = parts;
    this.#keysChanged = keysChanged;
    this.#peers.watch(() => this.#greet());
    this.#timer = setInterval(() => {
      if (this.#paired.size > 0) this.#announce(encode({ isAlive: true }));
    }, ALIVE_MS).unref();
  }

  changed(names: readonly string[]): void {
    const { coordinator } = this.#parts!;
    for (const peer of names) {
      const record = coordinator.recordOf(peer);
      const before = this.#records.get(peer);
      if (record) {
        const announced = encode({ peer, record });
        if (before?.equals(announced)) continue;
        this.#records.set(peer, announced);
        this.#announce(announced);
      } else if (before) {
        this.#records.delete(peer);
        this.#announce(encode({ peer }));
      }
      if (record && record.pairs.length > 0) this.#paired.add(peer);
      else this.#paired.delete(peer);
    }
  }

  close(): void {
    this.#closed.abort(new AppError('canceled', 'The server is shutting down.'));
    clearInterval(this.#timer);
    for (const { announcements } of this.#neighbors.values()) announcements?.destroy();
    this.#elsewhere.close();
  }

  /** Takes the announcements of another server, until the stream ends. Rejects with the stream's error. */
  async receive(stream: Duplex, from: string): Promise<void> {
    const announcement = this.#elsewhere.announcement(from);
    try {
      for await (const bytes of framedMessages(stream, MAX_MESSAGE_BYTES)) {
        const message = JSON.parse(bytes.toString()) as Announced;
        if ('peer' in message) announcement.record(message.peer, message.record);
        else if ('key' in message) announcement.present(message.key, message.isPresent);
        else if ('isComplete' in message) announcement.complete();
        else announcement.alive();
      }
    } finally {
      announcement.end();
    }
  }

  #announce(message: Buffer): void {
    for (const { announcements } of this.#neighbors.values()) {
      if (!announcements || announcements.destroyed) continue;
      announcements.write(message);
      if (announcements.writableLength > MAX_WAITING_BYTES) announcements.destroy();
    }
  }

  /** Opens streams to servers that have none. */
  #greet(): void {
    if (this.#closed.signal.aborted) return;
    for (const id of this.#peers.ids)
      if (!this.#neighbors.has(id)) {
        const neighbor = { announcements: undefined, link: undefined };
        this.#neighbors.set(id, neighbor);
        void this.#keepStreams(id, neighbor).finally(() => this.#neighbors.delete(id));
      }
  }

  /** Keeps streams to a server until it is gone. Never rejects. */
  async #keepStreams(id: string, neighbor: Neighbor): Promise<void> {
    const waits = backoff(RETRY);
    const { signal } = this.#closed;
    while (!signal.aborted && this.#peers.has(id)) {
      try {
        await this.#useStreams(id, neighbor, () => waits.reset());
      } catch (err) {
        this.#log.debug('no stream to the tailnet of another server', { replica: id, err: errorText(err) });
      }
      await this.#clock.sleep(waits.next(), signal).catch(() => {});
    }
  }

  /** Opens both streams, and resolves when one has ended. */
  async #useStreams(id: string, neighbor: Neighbor, onOpen: () => void): Promise<void> {
    const streams: Duplex[] = [];
    const open = async (service: string) => {
      const stream = await this.#peers.request(id, { service }, this.#closed.signal);
      streams.push(stream.on('error', () => {}).resume());
      return stream;
    };
    try {
      const packets = await open(PACKETS_SERVICE);
      const announcements = await open(MESH_SERVICE);
      onOpen();
      neighbor.link = this.#parts!.relay.openLink(packets);
      neighbor.announcements = announcements;
      for (const record of this.#records.values()) announcements.write(record);
      for (const key of this.#present) announcements.write(encode({ key, isPresent: true }));
      announcements.write(encode({ isComplete: true }));
      await Promise.race(streams.map(ended));
    } finally {
      neighbor.link = undefined;
      neighbor.announcements = undefined;
      for (const stream of streams) stream.destroy();
    }
  }
}

const ended = (stream: Duplex): Promise<void> =>
  new Promise((resolve) => {
    if (stream.destroyed || stream.readableEnded) return resolve();
    stream.once('close', () => resolve()).once('end', () => resolve());
  });
