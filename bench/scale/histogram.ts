// Times in buckets that grow by 2 %, so that the percentiles of several processes can be merged. Merging percentiles
// themselves would be wrong.

const GROWTH = 1.02;
/** Times below this are in the first bucket, in ms. */
const FIRST_MS = 0.05;

/** What a process sends: the number of times in each bucket. */
export interface Times {
  buckets: Record<number, number>;
  maxMs: number;
}

export class Histogram {
  readonly #buckets = new Map<number, number>();
  #count = 0;
  #maxMs = 0;

  static of(...parts: readonly Times[]): Histogram {
    const all = new Histogram();
    for (const part of parts) all.#add(part);
    return all;
  }

  record(ms: number): void {
    const bucket = ms <= FIRST_MS ? 0 : Math.ceil(Math.log(ms / FIRST_MS) / Math.log(GROWTH));
    this.#put(bucket, 1);
    this.#maxMs = Math.max(this.#maxMs, ms);
  }

  get count(): number {
    return this.#count;
  }

  get maxMs(): number {
    return this.#maxMs;
  }

  /** The time that this share of the times does not exceed, at most 2 % too long. Undefined without times. */
  percentile(share: number): number | undefined {
    let left = Math.ceil(this.#count * share);
    for (const bucket of [...this.#buckets.keys()].sort((a, b) => a - b)) {
      left -= this.#buckets.get(bucket)!;
      if (left <= 0) return Math.min(FIRST_MS * GROWTH ** bucket, this.#maxMs);
    }
    return undefined;
  }

  toJSON(): Times {
    return { buckets: Object.fromEntries(this.#buckets), maxMs: this.#maxMs };
  }

  #add({ buckets, maxMs }: Times): void {
    for (const [bucket, times] of Object.entries(buckets)) this.#put(Number(bucket), times);
    this.#maxMs = Math.max(this.#maxMs, maxMs);
  }

  #put(bucket: number, times: number): void {
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + times);
    this.#count += times;
  }
}
