import { randomBytes } from 'node:crypto';
import type { Change } from '@ropewalk/contract';
import type { ReadableChange } from './change-readers.ts';
import type { NamedEvent } from './follow.ts';

/** One change in the ring. */
export interface Entry {
  number: number;
  event: NamedEvent;
  found: ReadableChange;
}

/** Up to where a reader is current: an epoch and the number of a change. */
export interface Position {
  epoch: string;
  number: number;
}

/** The newest changes, with consecutive numbers. */
export class ChangeRing {
  /** The maximum number of changes that are kept for streams that come back. */
  readonly mostKept: number;
  #epoch = newEpoch();
  /** The number of the newest change. */
  #last = 0;
  #kept: Entry[] = [];

  constructor(mostKept: number) {
    this.mostKept = mostKept;
  }

  /** After the newest change. */
  get end(): Position {
    return { epoch: this.#epoch, number: this.#last };
  }

  get epoch(): string {
    return this.#epoch;
  }

  /** Begins an epoch, because changes may have been missed. */
  restart(): void {
    this.#epoch = newEpoch();
    this.#kept = [];
  }

  append(changes: readonly ReadableChange[]): void {
    for (const each of changes) {
      this.#last += 1;
      const data = JSON.stringify(each.change satisfies Change);
      const event = { event: 'change', id: `${this.#epoch}-${this.#last}`, data };
      this.#kept.push({ number: this.#last, event, found: each });
    }
    if (this.#kept.length > this.mostKept) this.#kept = this.#kept.slice(-this.mostKept);
  }

  /** The position of the change with this id. Undefined if changes after it are not kept. */
  find(id: string): Position | undefined {
    const [epoch, digits = ''] = id.split('-');
    const number = Number(digits);
    if (epoch !== this.#epoch || !/^\d{1,15}$/.test(digits) || number > this.#last) return undefined;
    return number >= this.#last - this.#kept.length ? { epoch, number } : undefined;
  }

  /** The changes after a position. Undefined if some of them are not kept. */
  after({ epoch, number }: Position): Entry[] | undefined {
    if (epoch !== this.#epoch || number < this.#last - this.#kept.length) return undefined;
    return this.#kept.slice(this.#kept.length - (this.#last - number));
  }
}

const newEpoch = () => randomBytes(6).toString('hex');
