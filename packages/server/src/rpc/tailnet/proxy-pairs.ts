import type { Duplex } from 'node:stream';
import { framedMessages, frameMessage } from '@ropewalk/wire/framed-messages';
import { MAX_RELAY_MESSAGE, type RelayNews, type RelayReport } from '@ropewalk/wire/proxy-link';
import type { KeyKnowledge, TailnetHub } from './hub.ts';

/** How often everything is compared, and the proxy receives a sign of life, in ms. Rights at other servers end by time, too. */
const TICK_MS = 1_000;
/** Maximum number of keys of one proxy. Its relay has fewer connections. */
export const MAX_KEYS = 16_384;
/** Maximum number of bytes that wait for a proxy that reads slowly. It gets everything again over another stream. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024;
const KEY = /^[0-9a-f]{64}$/;

interface PresentKey {
  isIntroduced: boolean;
  isOwned: boolean;
  /** The present keys with which it may exchange packets, as the proxy knows them. */
  partners: Set<string>;
}

/**
 * What a workspace proxy's relay must know: which of the keys that signed in there are those of nodes, and which of them may
 * exchange packets. A proxy learns nothing about other keys. Keys cannot be guessed, so it learns nothing by naming more.
 */
export class ProxyPairs {
  readonly #hub: Pick<TailnetHub, 'load' | 'onKeys'>;
  readonly #stream: Duplex;
  readonly #present = new Map<string, PresentKey>();
  #knowledge: KeyKnowledge | undefined;

  constructor(hub: Pick<TailnetHub, 'load' | 'onKeys'>, stream: Duplex) {
    this.#hub = hub;
    this.#stream = stream;
  }

  /** Serves the stream until it ends. Destroys it. @throws Error the stream's, or for an invalid report */
  async serve(): Promise<void> {
    const timer = setInterval(() => this.#tick(), TICK_MS).unref();
    const off = this.#hub.onKeys((keys) => {
      for (const key of keys) this.#update(key);
    });
    try {
      for await (const message of framedMessages(this.#stream, MAX_RELAY_MESSAGE)) {
        const { key, isPresent } = JSON.parse(message.toString()) as RelayReport;
        if (typeof key !== 'string' || !KEY.test(key)) throw new TypeError('A key has 64 hexadecimal digits');
        // the coordinator is loaded for those who use it
        this.#knowledge ??= (await this.#hub.load()).knowledge;
        if (isPresent) this.#add(key);
        else this.#remove(key);
      }
    } finally {
      clearInterval(timer);
      off();
      this.#stream.destroy();
    }
  }

  #add(key: string): void {
    if (!this.#present.has(key) && this.#present.size >= MAX_KEYS) return;
    const known = {
      isIntroduced: false,
      isOwned: false,
      partners: this.#present.get(key)?.partners ?? new Set<string>(),
    };
    this.#present.set(key, known);
    // an answer also for a key that nobody knows
    if (!this.#update(key)) this.#send({ key, isIntroduced: known.isIntroduced, isOwned: known.isOwned });
  }

  #remove(key: string): void {
    for (const other of this.#present.get(key)?.partners ?? []) this.#present.get(other)?.partners.delete(key);
    this.#present.delete(key);
  }

  #tick(): void {
    for (const key of this.#present.keys()) this.#update(key);
    this.#send({ isAlive: true });
  }

  /** Sends what has changed about a key. Returns whether that was more than its pairs. */
  #update(key: string): boolean {
    const known = this.#present.get(key);
    const knowledge = this.#knowledge;
    if (!known || !knowledge) return false;
    const partners = new Set<string>();
    for (const other of knowledge.partnersOf(key)) if (other !== key && this.#present.has(other)) partners.add(other);
    for (const other of partners) if (!known.partners.has(other)) this.#pair(key, other, true);
    for (const other of [...known.partners]) if (!partners.has(other)) this.#pair(key, other, false);
    const [isIntroduced, isOwned] = [knowledge.introduced(key), knowledge.owned(key)];
    if (known.isIntroduced === isIntroduced && known.isOwned === isOwned) return false;
    Object.assign(known, { isIntroduced, isOwned });
    this.#send({ key, isIntroduced, isOwned });
    return true;
  }

  #pair(key: string, other: string, isPermitted: boolean): void {
    for (const [one, another] of [
      [key, other],
      [other, key],
    ] as const) {
      const partners = this.#present.get(one)?.partners;
      if (isPermitted) partners?.add(another);
      else partners?.delete(another);
    }
    this.#send({ pair: [key, other], isPermitted });
  }

  #send(news: RelayNews): void {
    if (this.#stream.destroyed || this.#stream.writableEnded) return;
    this.#stream.write(frameMessage(Buffer.from(JSON.stringify(news))));
    if (this.#stream.writableLength > MAX_WAITING_BYTES) this.#stream.destroy();
  }
}
