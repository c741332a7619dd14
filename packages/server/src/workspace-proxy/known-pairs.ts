// What the relay of a proxy knows of keys. The server decides, and this is its latest word.
//
// - While there is a stream to the server, each key that signs in is reported. What its client sends waits for the answer.
// - What a server has permitted counts for two minutes after its last sign of life, so that sessions of nodes outlive the
//   restart of a server. A new server may not know the nodes yet. So an earlier pair ends only when the server knows both
//   keys and does not permit the pair, or when its time is over.
// - A key without an answer is treated as that of a node without rights, so that it reaches nobody.
import type { Clock } from '@ropewalk/kit';
import type { RelayPolicy } from '@ropewalk/tailnet/derp/relay';
import type { RelayNews, RelayReport } from '@ropewalk/wire/proxy-link';

/** How long pairs count after the last sign of life of a server, in ms. As the permits of clients (decision 0081). */
export const KEPT_MS = 120_000;
/** How long the packets of a new client wait for the answer about its key, in ms. */
export const ANSWER_MS = 3_000;

interface KnownKey {
  isHere: boolean;
  /** Whether the server of the present stream has answered. */
  isAnswered: boolean;
  isIntroduced: boolean;
  isOwned: boolean;
  waiting: PromiseWithResolvers<void> | undefined;
}

/** `until`: when it ends without a word of the server. Undefined for a pair that the server of the present stream permits. */
interface Pair {
  until: number | undefined;
}

export class KnownPairs implements Required<RelayPolicy> {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #onKey: (key: string) => void;
  readonly #keys = new Map<string, KnownKey>();
  readonly #pairs = new Map<string, Map<string, Pair>>();
  #report: ((report: RelayReport) => void) | undefined;
  #heardAt: number;

  /** @param onKey called when the server knows something else about a key */
  constructor(clock: Pick<Clock, 'monotonic'>, onKey: (key: string) => void) {
    this.#clock = clock;
    this.#onKey = onKey;
    this.#heardAt = clock.monotonic();
  }

  /** The number of keys that are remembered. */
  get size(): number {
    return this.#keys.size;
  }

  introduced(key: string): boolean {
    return this.#isFresh() && this.#keys.get(key)?.isIntroduced === true;
  }

  owned(key: string): boolean {
    const known = this.#keys.get(key);
    return !known?.isAnswered || known.isOwned;
  }

  permits(source: string, destination: string): boolean {
    const pair = this.#pairs.get(source)?.get(destination);
    if (!pair) return false;
    return pair.until === undefined ? this.#isFresh() : this.#clock.monotonic() < pair.until;
  }

  arrived(key: string): Promise<void> | undefined {
    const known: KnownKey = this.#keys.get(key) ?? {
      isHere: true,
      isAnswered: false,
      isIntroduced: false,
      isOwned: false,
      waiting: undefined,
    };
    known.isHere = true;
    this.#keys.set(key, known);
    if (!this.#report) return undefined;
    const waiting = Promise.withResolvers<void>();
    known.waiting = waiting;
    const timer = setTimeout(() => this.#settle(known), ANSWER_MS).unref();
    this.#report({ key, isPresent: true });
    return waiting.promise.finally(() => clearTimeout(timer));
  }

  departed(key: string): void {
    const known = this.#keys.get(key);
    if (!known) return;
    known.isHere = false;
    this.#settle(known);
    this.#report?.({ key, isPresent: false });
    // without a stream to a server, a node may come back, and only its pairs say that it is one
    if (this.#report || !this.#pairs.has(key)) this.#forget(key);
  }

  /** A stream to a server begins. The returned function ends it. */
  begin(report: (report: RelayReport) => void): () => void {
    const kept = this.#heardAt + KEPT_MS;
    for (const partners of this.#pairs.values()) for (const pair of partners.values()) pair.until ??= kept;
    this.#report = report;
    this.#heardAt = this.#clock.monotonic();
    for (const [key, known] of [...this.#keys]) {
      known.isAnswered = false;
      if (known.isHere) report({ key, isPresent: true });
      else this.#forget(key);
    }
    return () => {
      if (this.#report !== report) return;
      this.#report = undefined;
      for (const known of this.#keys.values()) this.#settle(known);
    };
  }

  /** Takes what the server of the present stream sends. */
  receive(news: RelayNews): void {
    this.#heardAt = this.#clock.monotonic();
    if ('pair' in news) this.#setPair(...news.pair, news.isPermitted);
    else if ('key' in news) this.#answer(news);
  }

  #answer({ key, isIntroduced, isOwned }: Extract<RelayNews, { key: string }>): void {
    const known = this.#keys.get(key);
    if (!known) return;
    Object.assign(known, { isAnswered: true, isIntroduced, isOwned });
    if (isOwned)
      for (const [other, { until }] of [...(this.#pairs.get(key) ?? [])])
        if (until !== undefined && this.#isKnownNode(other)) this.#setPair(key, other, false);
    this.#settle(known);
    this.#onKey(key);
  }

  #isKnownNode(key: string): boolean {
    const known = this.#keys.get(key);
    return known?.isAnswered === true && known.isOwned;
  }

  #setPair(key: string, other: string, isPermitted: boolean): void {
    if (!isPermitted) {
      this.#deletePartner(key, other);
      this.#deletePartner(other, key);
    } else if (this.#keys.has(key) && this.#keys.has(other)) {
      this.#addPartner(key, other);
      this.#addPartner(other, key);
    }
  }

  #addPartner(key: string, other: string): void {
    const partners = this.#pairs.get(key) ?? new Map<string, Pair>();
    this.#pairs.set(key, partners.set(other, { until: undefined }));
  }

  #deletePartner(key: string, other: string): void {
    const partners = this.#pairs.get(key);
    partners?.delete(other);
    if (partners?.size === 0) this.#pairs.delete(key);
  }

  #forget(key: string): void {
    for (const other of [...(this.#pairs.get(key)?.keys() ?? [])]) this.#setPair(key, other, false);
    this.#keys.delete(key);
  }

  #settle(known: KnownKey): void {
    known.waiting?.resolve();
    known.waiting = undefined;
  }

  #isFresh(): boolean {
    return this.#clock.monotonic() < this.#heardAt + KEPT_MS;
  }
}
