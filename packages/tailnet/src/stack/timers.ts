// All timers of one stack: a heap of alarms and one real timer for the earliest of them. An alarm that is set to a later
// time stays where it is in the heap and moves when its old time has come, because TCP postpones its timers with nearly
// every packet.

/** Calls back after `ms`. Returns a function that cancels it. */
export type Schedule = (callback: () => void, ms: number) => () => void;

/** Real timers, which do not keep the process alive. */
export const systemSchedule: Schedule = (callback, ms) => {
  const timer = setTimeout(callback, ms);
  timer.unref();
  return () => clearTimeout(timer);
};

const NEVER = Number.POSITIVE_INFINITY;

/** One owner's next moment. */
export interface Alarm {
  /** The monotonic time in ms at which `ring` is due. Infinity: never. */
  dueAt: number;
  /** Where the alarm is in the heap, and for when. -1: not in it. */
  position: number;
  heapAt: number;
  ring(now: number): void;
}

export function createAlarm(ring: (now: number) => void): Alarm {
  return { dueAt: NEVER, position: -1, heapAt: NEVER, ring };
}

export class Timers {
  readonly #now: () => number;
  readonly #schedule: Schedule;
  readonly #heap: Alarm[] = [];
  #cancel: (() => void) | undefined;
  #realAt = NEVER;
  #isClosed = false;

  constructor(now: () => number, schedule: Schedule = systemSchedule) {
    this.#now = now;
    this.#schedule = schedule;
  }

  /** Alarms in the heap. */
  get size(): number {
    return this.#heap.length;
  }

  /** Rings once, at this time. An earlier setting of the same alarm has no effect any more. */
  set(alarm: Alarm, at: number): void {
    alarm.dueAt = at;
    if (at >= alarm.heapAt || this.#isClosed) return;
    alarm.heapAt = at;
    if (alarm.position === -1) {
      alarm.position = this.#heap.length;
      this.#heap.push(alarm);
    }
    this.#siftUp(alarm);
    this.#arm();
  }

  /** Removes the alarm. */
  cancel(alarm: Alarm): void {
    alarm.dueAt = NEVER;
    if (alarm.position !== -1) this.#remove(alarm);
  }

  /** Cancels all alarms for good. */
  close(): void {
    this.#isClosed = true;
    for (const alarm of this.#heap) {
      alarm.position = -1;
      alarm.heapAt = NEVER;
      alarm.dueAt = NEVER;
    }
    this.#heap.length = 0;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    const at = this.#heap[0]?.heapAt ?? NEVER;
    if (at >= this.#realAt) return;
    this.#cancel?.();
    this.#realAt = at;
    this.#cancel = this.#schedule(() => this.#ring(), Math.max(0, Math.ceil(at - this.#now())));
  }

  #ring(): void {
    this.#cancel = undefined;
    this.#realAt = NEVER;
    const now = this.#now();
    for (let first = this.#heap[0]; first && first.heapAt <= now; first = this.#heap[0]) {
      this.#remove(first);
      const { dueAt } = first;
      if (dueAt <= now) {
        first.dueAt = NEVER;
        first.ring(now);
      } else if (dueAt !== NEVER) this.set(first, dueAt);
    }
    this.#arm();
  }

  #remove(alarm: Alarm): void {
    const last = this.#heap.pop()!;
    if (last !== alarm) {
      last.position = alarm.position;
      this.#heap[last.position] = last;
      this.#siftUp(last);
      this.#siftDown(last);
    }
    alarm.position = -1;
    alarm.heapAt = NEVER;
  }

  #siftUp(alarm: Alarm): void {
    let at = alarm.position;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = this.#heap[above]!;
      if (parent.heapAt <= alarm.heapAt) break;
      this.#heap[at] = parent;
      parent.position = at;
      at = above;
    }
    this.#heap[at] = alarm;
    alarm.position = at;
  }

  #siftDown(alarm: Alarm): void {
    let at = alarm.position;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= this.#heap.length) break;
      if (below + 1 < this.#heap.length && this.#heap[below + 1]!.heapAt < this.#heap[below]!.heapAt) below++;
      const child = this.#heap[below]!;
      if (child.heapAt >= alarm.heapAt) break;
      this.#heap[at] = child;
      child.position = at;
      at = below;
    }
    this.#heap[at] = alarm;
    alarm.position = at;
  }
}
