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

/** Up to where a reader is current. */
export interface Position {
  epoch: string;
  /** Of the newest change that the reader has. */
  number: number;
  /** What the reader names to continue here, on any server: a mark, or `EPOCH-NUMBER` where there is none. */
  id: string;
}

/**
 * The newest changes, with consecutive numbers. Changes arrive in batches. Each batch has the ids of the notifications that
 * reported its changes, and these are marks: all servers receive the same notifications in the same order, so that a mark of one
 * server names a position on the others. A batch of another server may end in the middle of one here. Then the position is
 * before the batch here, and a reader gets some changes twice, which does no harm.
 */
export class ChangeRing {
  /** The maximum number of changes that are kept for streams that come back. */
  readonly mostKept: number;
  #epoch = newEpoch();
  /** The number of the newest change. */
  #last = 0;
  #kept: Entry[] = [];
  /** The mark of the newest batch. */
  #endMark: string | undefined;
  /** The numbers of positions, by marks, the oldest first. */
  #marks = new Map<string, number>();

  constructor(mostKept: number) {
    this.mostKept = mostKept;
  }

  /** After the newest change. */
  get end(): Position {
    return { epoch: this.#epoch, number: this.#last, id: this.#endMark ?? `${this.#epoch}-${this.#last}` };
  }

  get epoch(): string {
    return this.#epoch;
  }

  /** Begins an epoch, because changes may have been missed. */
  restart(): void {
    this.#epoch = newEpoch();
    this.#kept = [];
    this.#marks.clear();
    this.#endMark = undefined;
  }

  /** Adds a batch. `marks`: the ids of its notifications, in their order. */
  append(changes: readonly ReadableChange[], marks: readonly string[]): void {
    const before = this.end;
    const mark = marks.at(-1);
    for (const each of changes) {
      this.#last += 1;
      const data = JSON.stringify(each.change satisfies Change);
      const event = { event: 'change', id: before.id, data };
      this.#kept.push({ number: this.#last, event, found: each });
    }
    if (this.#kept.length > this.mostKept) this.#kept = this.#kept.slice(-this.mostKept);
    for (const each of marks) this.#marks.set(each, before.number);
    this.#endMark = mark;
    if (mark !== undefined) this.#marks.set(mark, this.#last);
    // who has the last one has the whole batch
    const newest = this.#kept.at(-1);
    if (newest && changes.length > 0) newest.event = { ...newest.event, id: this.end.id };
    this.#forgetMarks();
  }

  #forgetMarks(): void {
    const oldest = this.#last - this.#kept.length;
    const excess = this.#marks.size - 2 * this.mostKept;
    let seen = 0;
    for (const [mark, number] of this.#marks) {
      if (number >= oldest && seen >= excess) break;
      this.#marks.delete(mark);
      seen += 1;
    }
  }

  /** The position that an id names. Undefined if changes after it are not kept. */
  find(id: string): Position | undefined {
    const marked = this.#marks.get(id);
    if (marked !== undefined) return this.#isKept(marked) ? { epoch: this.#epoch, number: marked, id } : undefined;
    const [epoch, digits = ''] = id.split('-');
    const number = Number(digits);
    if (epoch !== this.#epoch || !/^\d{1,15}$/.test(digits) || number > this.#last) return undefined;
    return this.#isKept(number) ? { epoch, number, id } : undefined;
  }

  #isKept(number: number): boolean {
    return number >= this.#last - this.#kept.length;
  }

  /** The changes after a position. Undefined if some of them are not kept. */
  after({ epoch, number }: Pick<Position, 'epoch' | 'number'>): Entry[] | undefined {
    if (epoch !== this.#epoch || !this.#isKept(number)) return undefined;
    return this.#kept.slice(this.#kept.length - (this.#last - number));
  }
}

const newEpoch = () => randomBytes(6).toString('hex');
