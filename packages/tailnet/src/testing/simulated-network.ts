import { setImmediate as turn } from 'node:timers/promises';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { parseAddress } from '../address.ts';
import { Stack, type StackOptions } from '../stack/stack.ts';

/** One direction of a link. */
export interface LinkOptions {
  /** Default 0. */
  delayMs?: number;
  /** Bytes per ms. Default: unlimited. */
  rate?: number;
  /** Packets that wait for the rate. Those that find the queue full are lost. */
  queue?: number;
  /** Shares of all packets, from 0 to 1. */
  loss?: number;
  duplicates?: number;
  /** Packets that take `reorderMs` longer than the others. */
  reordered?: number;
  reorderMs?: number;
  /** Which packets pass. */
  passes?: (packet: Buffer) => boolean;
}

interface Event {
  at: number;
  order: number;
  run: (() => void) | undefined;
}

/** Two stacks and the links between them, in virtual time. */
export class SimulatedNetwork {
  now = 1_000;
  readonly a: Stack;
  readonly b: Stack;
  readonly addresses: { a: Buffer; b: Buffer } = { a: parseAddress('fd7a::a')!, b: parseAddress('fd7a::b')! };
  /** What each direction does. May change at any time. */
  readonly links: { a: LinkOptions; b: LinkOptions };
  /** Packets that the links took and lost, by their sender. */
  readonly counts: Record<'a' | 'b', { sent: number; lost: number; overflowed: number }> = {
    a: { sent: 0, lost: 0, overflowed: 0 },
    b: { sent: 0, lost: 0, overflowed: 0 },
  };
  readonly #random: () => number;
  readonly #events: Event[] = [];
  readonly #freeAt = { a: 0, b: 0 };
  #order = 0;

  /** The seed decides what is lost. Both directions have the same options unless `back` gives others. */
  constructor(seed: number, link: LinkOptions = {}, back: LinkOptions = link, options: Partial<StackOptions> = {}) {
    const below = seededRandom(seed * 2_654_435_761);
    this.#random = () => below(2 ** 32) / 2 ** 32;
    this.links = { a: { ...link }, b: { ...back } };
    this.a = this.#stack('a', options);
    this.b = this.#stack('b', options);
  }

  #stack(name: 'a' | 'b', options: Partial<StackOptions>): Stack {
    return new Stack({
      addresses: [this.addresses[name]],
      clock: { monotonic: () => this.now },
      random: this.#random,
      schedule: (callback, ms) => this.at(this.now + Math.max(ms, 1), callback),
      ...options,
      onPacket: (packet) => this.#transmit(name, packet),
    });
  }

  /** Calls back at a time. Returns a function that cancels it. */
  at(at: number, run: () => void): () => void {
    const event: Event = { at, order: this.#order++, run };
    let index = this.#events.length;
    while (index > 0 && this.#events[index - 1]!.at > at) index--;
    this.#events.splice(index, 0, event);
    return () => {
      event.run = undefined;
    };
  }

  /** Sends a packet as one of the stacks would. */
  transmit(from: 'a' | 'b', packet: Buffer): void {
    this.#transmit(from, packet);
  }

  #transmit(from: 'a' | 'b', packet: Buffer): void {
    const link = this.links[from];
    const counts = this.counts[from];
    counts.sent++;
    if ((link.loss && this.#random() < link.loss) || link.passes?.(packet) === false) {
      counts.lost++;
      return;
    }
    const copies = link.duplicates && this.#random() < link.duplicates ? 2 : 1;
    for (let i = 0; i < copies; i++) this.#enqueue(from, link, packet);
  }

  #enqueue(from: 'a' | 'b', link: LinkOptions, packet: Buffer): void {
    let leavesAt = this.now;
    if (link.rate) {
      const start = Math.max(this.#freeAt[from], this.now);
      // packets of about the same size
      if (((start - this.now) * link.rate) / packet.length >= (link.queue ?? Number.POSITIVE_INFINITY)) {
        this.counts[from].overflowed++;
        return;
      }
      leavesAt = start + packet.length / link.rate;
      this.#freeAt[from] = leavesAt;
    }
    const isLate = link.reordered && this.#random() < link.reordered;
    const at = leavesAt + (link.delayMs ?? 0) + (isLate ? (link.reorderMs ?? 1) : 0);
    const to = from === 'a' ? this.b : this.a;
    this.at(at, () => to.receive(packet));
  }

  /** Lets time pass until the promise settles. Throws after `limitMs` of virtual time. */
  async until<T>(promise: Promise<T>, limitMs = 600_000): Promise<T> {
    const end = this.now + limitMs;
    let isSettled = false;
    const settled = () => {
      isSettled = true;
    };
    promise.then(settled, settled);
    await turn();
    while (!isSettled) {
      if (!(await this.#step(end))) throw new Error(`Nothing settled it within ${limitMs} ms of virtual time`);
    }
    return promise;
  }

  /** Lets this much time pass. */
  async advance(ms: number): Promise<void> {
    const end = this.now + ms;
    await turn();
    while (await this.#step(end));
    this.now = end;
  }

  /** Everything that happens at the next moment. False if that is after `end`. */
  async #step(end: number): Promise<boolean> {
    const first = this.#events[0];
    if (!first || first.at > end) return false;
    this.now = Math.max(this.now, first.at);
    let count = 0;
    for (; count < this.#events.length && this.#events[count]!.at <= this.now; count++);
    for (const { run } of this.#events.splice(0, count)) run?.();
    // what applications do about it
    await turn();
    return true;
  }

  close(): void {
    this.a.close();
    this.b.close();
  }
}
