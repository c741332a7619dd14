const EMPTY: Buffer = Buffer.alloc(0);

/**
 * Joins pieces of any size. Its memory grows with the received bytes, not with announced lengths. It holds no
 * object per piece: with tiny pieces those would take a hundred times the memory of the bytes.
 */
export class ByteCollector {
  readonly #max: number;
  #buffer: Buffer = EMPTY;
  #size = 0;

  /** The caller must not exceed `max` bytes. This class does not check it. */
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

  /** Returns all bytes and empties the collector. */
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
