// Reassembly: bytes in order wait for the application, and bytes after a gap wait for the missing ones.
import { Deque } from './deque.ts';
import { MAX_SACK_BLOCKS } from './segment.ts';

/** Gaps of one connection. A segment that would begin another one is dropped. */
const MAX_RANGES = 1_024;
/** Segments after gaps of one connection, so that small ones cannot hold more memory than they count. */
const MAX_SEGMENTS_AFTER_GAPS = 4_096;
/** A stored segment counts at least this much, because the buffer object itself takes memory. */
const MIN_COUNTED_BYTES = 256;
/** A payload that is smaller than its buffer by this factor is copied. */
const MAX_RETAINED_RATIO = 8;

interface Range {
  start: number;
  end: number;
  segments: Buffer[];
  /** When it last grew, in received segments. */
  touched: number;
}

const counted = (length: number): number => Math.max(length, MIN_COUNTED_BYTES);

/** The payload, or a copy of it if it would keep much more memory than its own. */
function owned(payload: Buffer): Buffer {
  return payload.length * MAX_RETAINED_RATIO < payload.buffer.byteLength ? Buffer.from(payload) : payload;
}

/** Offsets count from the first byte of the connection. */
export class ReceiveQueue {
  /** The offset of the next byte in order. */
  next = 0;
  /** What is held, as it counts in budgets. */
  held = 0;
  /** In order, not read by the application yet. */
  readonly #ready = new Deque<Buffer>();
  #readyBytes = 0;
  #readyHeld = 0;
  #ranges: Range[] = [];
  #segmentsAfterGaps = 0;
  #received = 0;
  /** What came twice, reported once as the first block (RFC 2883). */
  #duplicate: [number, number] | undefined;

  get hasGaps(): boolean {
    return this.#ranges.length > 0;
  }

  /** Bytes that the application has not read, without those after gaps. */
  get readyBytes(): number {
    return this.#readyBytes;
  }

  /** The same as it counts in budgets. */
  get readyHeld(): number {
    return this.#readyHeld;
  }

  /** Whether a duplicate waits to be reported. */
  get hasDuplicate(): boolean {
    return this.#duplicate !== undefined;
  }

  /** Takes the bytes at an offset. Those that are there already, or have no place, are dropped. */
  push(offset: number, payload: Buffer): void {
    let start = offset;
    const end = offset + payload.length;
    if (start < this.next) {
      this.#duplicate = [start, Math.min(end, this.next)];
      if (end <= this.next) return;
      start = this.next;
    }
    this.#received++;
    if (start === this.next && this.#ranges.length === 0) this.#append(payload.subarray(start - offset));
    else if (start === this.next) {
      this.#append(payload.subarray(start - offset, this.#endBefore(start, end) - offset));
      this.#join();
      if (this.next < end) this.push(this.next, payload.subarray(this.next - offset));
    } else this.#keep(start, payload.subarray(start - offset));
  }

  /** Where a segment that begins at `next` meets the first range. */
  #endBefore(start: number, end: number): number {
    const first = this.#ranges[0]!;
    return first.start > start ? Math.min(end, first.start) : end;
  }

  #append(payload: Buffer): void {
    if (payload.length === 0) return;
    this.#ready.push(owned(payload));
    this.#readyBytes += payload.length;
    this.held += counted(payload.length);
    this.#readyHeld += counted(payload.length);
    this.next += payload.length;
  }

  /** Moves the first range to the ready bytes if nothing is missing before it. */
  #join(): void {
    const first = this.#ranges[0];
    if (!first || first.start > this.next) return;
    this.#ranges.shift();
    for (const segment of first.segments) {
      this.#ready.push(segment);
      this.#readyHeld += counted(segment.length);
    }
    this.#segmentsAfterGaps -= first.segments.length;
    this.#readyBytes += first.end - first.start;
    this.next = first.end;
  }

  /** Keeps bytes after a gap. */
  #keep(start: number, payload: Buffer): void {
    const end = start + payload.length;
    // the first range that ends at or after the start
    let index = this.#ranges.length;
    while (index > 0 && this.#ranges[index - 1]!.end >= start) index--;
    const range = this.#ranges[index];
    if (this.#segmentsAfterGaps >= MAX_SEGMENTS_AFTER_GAPS) return;
    if (!range || range.start > end) {
      if (this.#ranges.length >= MAX_RANGES) return;
      const segments = [this.#stored(payload)];
      this.#ranges.splice(index, 0, { start, end, segments, touched: this.#received });
      return;
    }
    range.touched = this.#received;
    if (start >= range.start && end <= range.end) {
      this.#duplicate = [start, end];
      return;
    }
    if (start < range.start) {
      range.segments.unshift(this.#stored(payload.subarray(0, range.start - start)));
      range.start = start;
    }
    if (end > range.end) this.#extend(range, index, payload.subarray(range.end - start));
  }

  /** Adds bytes at a range's end, up to the next range, with which it is merged. */
  #extend(range: Range, index: number, payload: Buffer): void {
    const following = this.#ranges[index + 1];
    const room = following ? following.start - range.end : payload.length;
    const part = payload.subarray(0, room);
    range.segments.push(this.#stored(part));
    range.end += part.length;
    if (!following || range.end < following.start) return;
    this.#ranges.splice(index + 1, 1);
    for (const segment of following.segments) range.segments.push(segment);
    const rest = payload.subarray(Math.min(payload.length, room + following.end - following.start));
    range.end = following.end;
    if (rest.length > 0) this.#extend(range, index, rest);
  }

  #stored(payload: Buffer): Buffer {
    this.#segmentsAfterGaps++;
    this.held += counted(payload.length);
    return owned(payload);
  }

  /** The application's next bytes. Undefined if there are none. */
  read(): Buffer | undefined {
    const chunk = this.#ready.shift();
    if (!chunk) return undefined;
    this.#readyBytes -= chunk.length;
    this.held -= counted(chunk.length);
    this.#readyHeld -= counted(chunk.length);
    return chunk;
  }

  /**
   * Appends up to three blocks for the SACK option to `blocks`, as pairs of offsets: a duplicate, then the ranges that
   * grew last.
   */
  sackBlocks(blocks: number[]): void {
    if (this.#duplicate) {
      blocks.push(...this.#duplicate);
      this.#duplicate = undefined;
    }
    const count = Math.min(this.#ranges.length, MAX_SACK_BLOCKS - blocks.length / 2);
    let before = Number.POSITIVE_INFINITY;
    for (let i = 0; i < count; i++) {
      let best: Range | undefined;
      for (const range of this.#ranges)
        if (range.touched < before && (!best || range.touched > best.touched)) best = range;
      if (!best) return;
      blocks.push(best.start, best.end);
      before = best.touched;
    }
  }

  clear(): void {
    this.#ready.clear();
    this.#readyBytes = 0;
    this.#readyHeld = 0;
    this.#ranges = [];
    this.#segmentsAfterGaps = 0;
    this.held = 0;
  }
}
