import type { PeerRecord } from '@ropewalk/tailnet/coordinator/coordinator';

/**
 * How long the pairs of a server count after its last message, in ms. A right that ends is gone within 5 s, also if its
 * server is gone or cut off.
 */
export const LEASE_MS = 4_000;
/** How long the keys of a server that is gone count, in ms, as the coordinator remembers lost peers. */
const KEPT_MS = 15 * 60_000;
/** Maximum number of keys and pairs in the records of one server. */
const MAX_ENTRIES = 500_000;

/** What one server announced over one stream. */
class Announced {
  readonly #records = new Map<string, PeerRecord>();
  /** Owners of keys, with the number of records that have the key. */
  readonly #keys = new Map<string, { owner: string; count: number }>();
  /** For each key, the number of records with each pair of it, by the other key. */
  readonly #partners = new Map<string, Map<string, number>>();
  /** When each key connected to the server's relay, as a number that grows. */
  readonly present = new Map<string, number>();
  #entries = 0;

  setRecord(name: string, record: PeerRecord | undefined): void {
    const old = this.#records.get(name);
    if (old) this.#count(old, -1);
    if (!record || this.#entries > MAX_ENTRIES) this.#records.delete(name);
    else {
      this.#records.set(name, record);
      this.#count(record, 1);
    }
  }

  keysOf(name: string): readonly string[] {
    return this.#records.get(name)?.keys ?? [];
  }

  ownerOf(key: string): string | undefined {
    return this.#keys.get(key)?.owner;
  }

  hasPair(a: string, b: string): boolean {
    return this.#partners.get(a)?.has(b) === true;
  }

  partnersOf(key: string): Iterable<string> {
    return this.#partners.get(key)?.keys() ?? [];
  }

  #count({ owner, keys, pairs }: PeerRecord, more: number): void {
    this.#entries += more * (keys.length + pairs.length);
    for (const key of keys) {
      const count = (this.#keys.get(key)?.count ?? 0) + more;
      if (count > 0) this.#keys.set(key, { owner: this.#keys.get(key)?.owner ?? owner, count });
      else this.#keys.delete(key);
    }
    for (const [a, b] of pairs) {
      this.#countPartner(a, b, more);
      this.#countPartner(b, a, more);
    }
  }

  #countPartner(key: string, other: string, more: number): void {
    const partners = this.#partners.get(key) ?? new Map<string, number>();
    const count = (partners.get(other) ?? 0) + more;
    if (count > 0) partners.set(other, count);
    else partners.delete(other);
    if (partners.size > 0) this.#partners.set(key, partners);
    else this.#partners.delete(key);
  }
}

/** One stream on which a server announces its part of the tailnet. */
export interface Announcement {
  /** The server lives. Every other call says so, too. */
  alive(): void;
  /** A peer of its coordinator has changed, or is forgotten. */
  record(name: string, record: PeerRecord | undefined): void;
  /** A node has connected to its relay, or has left it. */
  present(key: string, isPresent: boolean): void;
  /** Everything is announced: it replaces what an earlier stream of the server announced. */
  complete(): void;
  end(): void;
}

export interface ElsewhereOptions {
  now(): number;
  /** The server may know these keys now, or does not know them any more. */
  onKeys(keys: readonly string[]): void;
  /** A node has just connected to another relay. Not for those of the first announcements. */
  onPresent(key: string): void;
  /** A node has left all other relays. */
  onAbsent(key: string): void;
}

interface Server {
  announced: Announced;
  heardAt: number;
  /** The stream whose announcements count. */
  stream: symbol;
  forget: NodeJS.Timeout | undefined;
}

/** What the other servers announced: the keys of their nodes, which may exchange packets, and which are at their relays. */
export class Elsewhere {
  readonly #options: ElsewhereOptions;
  readonly #servers = new Map<string, Server>();
  #connections = 0;

  constructor(options: ElsewhereOptions) {
    this.#options = options;
  }

  /** Whether another server knows whose key this is. */
  introduced(key: string): boolean {
    return this.#owner(key) !== undefined;
  }

  /** Whether no other server knows the key as that of another owner. */
  mayPublish(key: string, owner: string): boolean {
    for (const { announced } of this.#servers.values()) if ((announced.ownerOf(key) ?? owner) !== owner) return false;
    return true;
  }

  /** Whether another server permits nodes with these keys to exchange packets. */
  permits(source: string, destination: string): boolean {
    return this.#fresh().some((announced) => announced.hasPair(source, destination));
  }

  /** The keys for which `permits` is true with this key, some of them several times. */
  partnersOf(key: string): string[] {
    return this.#fresh().flatMap((announced) => [...announced.partnersOf(key)]);
  }

  /** The server to whose relay a node with this key connected last. */
  placeOf(key: string): string | undefined {
    let place: string | undefined;
    let newest = 0;
    for (const [id, { announced }] of this.#servers) {
      const at = announced.present.get(key) ?? 0;
      if (at > newest) [place, newest] = [id, at];
    }
    return place;
  }

  /** The number of nodes at the relays of other servers. */
  get present(): number {
    return [...this.#servers.values()].reduce((sum, { announced }) => sum + announced.present.size, 0);
  }

  /** Begins a stream of announcements of a server. */
  announcement(id: string): Announcement {
    const stream = Symbol(id);
    const announced = new Announced();
    let isComplete = false;
    const alive = () => {
      const server = this.#servers.get(id);
      if (server?.stream === stream) server.heardAt = this.#options.now();
    };
    return {
      alive,
      record: (name, record) => {
        alive();
        const before = announced.keysOf(name);
        announced.setRecord(name, record);
        if (isComplete) this.#options.onKeys([...before, ...announced.keysOf(name)]);
      },
      present: (key, isPresent) => {
        alive();
        const was = announced.present.delete(key);
        if (isPresent) announced.present.set(key, ++this.#connections);
        if (!isComplete) return;
        if (isPresent) this.#options.onPresent(key);
        else if (was) this.#noteAbsent([key]);
      },
      complete: () => {
        const old = this.#servers.get(id);
        clearTimeout(old?.forget);
        isComplete = true;
        this.#servers.set(id, { announced, heardAt: this.#options.now(), stream, forget: undefined });
        this.#noteAbsent(old?.announced.present.keys() ?? []);
      },
      end: () => {
        const server = this.#servers.get(id);
        if (server?.stream !== stream) return;
        const gone = [...announced.present.keys()];
        announced.present.clear();
        server.forget = setTimeout(() => this.#servers.delete(id), KEPT_MS).unref();
        this.#noteAbsent(gone);
      },
    };
  }

  close(): void {
    for (const { forget } of this.#servers.values()) clearTimeout(forget);
    this.#servers.clear();
  }

  /** What the servers announced whose pairs count. */
  #fresh(): Announced[] {
    const since = this.#options.now() - LEASE_MS;
    return [...this.#servers.values()].filter(({ heardAt }) => heardAt > since).map(({ announced }) => announced);
  }

  #owner(key: string): string | undefined {
    for (const { announced } of this.#servers.values()) {
      const owner = announced.ownerOf(key);
      if (owner !== undefined) return owner;
    }
    return undefined;
  }

  #noteAbsent(keys: Iterable<string>): void {
    for (const key of keys) if (this.placeOf(key) === undefined) this.#options.onAbsent(key);
  }
}
