const EMPTY: Buffer = Buffer.alloc(0);

/**
 * Joins pieces of any size in memory that grows with what has arrived: never by what a header announces, and never an
 * object per piece, which a peer of tiny pieces would make a hundred times the bytes.
 */
export class ByteCollector {
  readonly #max: number;
  #buffer: Buffer = EMPTY;
  #size = 0;

  /** `max` in bytes is the caller's promise, not checked here. */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  append(piece: Uint8Array): void {
    const size = this.#size + piece.length;
    if (size > this.#buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(size, Math.min(this.#buffer.length * 2, this.#max), 512));
      this.#buffer.copy(grown, 0, 0, this.#size);
      this.#buffer = grown;
    }
    this.#buffer.set(piece, this.#size);
    this.#size = size;
  }

  /** All of it; the collector is empty afterwards. */
  take(): Buffer {
    const all = this.#buffer.subarray(0, this.#size);
    this.clear();
    return all;
  }

  clear(): void {
    this.#buffer = EMPTY;
    this.#size = 0;
  }
}
