import { Deque } from './deque.ts';

const BLOCK_BYTES = 32 * 1024;

/**
 * Bytes from the application until the peer has acknowledged them. They are copied, because a writer may reuse its
 * buffer while they can still be lost. Offsets count from the first byte of the connection.
 */
export class SendQueue {
  readonly #blocks = new Deque<Buffer>();
  /** The offset of the first block's first byte: a multiple of BLOCK_BYTES. */
  #base = 0;
  #start = 0;
  #end = 0;

  /** The offset of the first byte that is kept. */
  get start(): number {
    return this.#start;
  }

  /** The offset after the last byte. */
  get end(): number {
    return this.#end;
  }

  push(chunk: Uint8Array): void {
    for (let done = 0; done < chunk.length; ) {
      const within = (this.#end - this.#base) % BLOCK_BYTES;
      if (this.#end - this.#base === this.#blocks.length * BLOCK_BYTES)
        this.#blocks.push(Buffer.allocUnsafeSlow(BLOCK_BYTES));
      const length = Math.min(BLOCK_BYTES - within, chunk.length - done);
      this.#blocks.last!.set(length === chunk.length ? chunk : chunk.subarray(done, done + length), within);
      done += length;
      this.#end += length;
    }
  }

  /** Copies bytes that are kept into a packet. */
  copy(offset: number, length: number, packet: Buffer, at: number): void {
    for (let done = 0; done < length; ) {
      const within = offset + done - this.#base;
      const block = this.#blocks.at(Math.floor(within / BLOCK_BYTES))!;
      const from = within % BLOCK_BYTES;
      const part = Math.min(BLOCK_BYTES - from, length - done);
      block.copy(packet, at + done, from, from + part);
      done += part;
    }
  }

  /** Forgets the bytes before an offset. */
  release(offset: number): void {
    this.#start = offset;
    while (this.#blocks.length > 0 && this.#base + BLOCK_BYTES <= offset) {
      this.#blocks.shift();
      this.#base += BLOCK_BYTES;
    }
  }

  clear(): void {
    this.#blocks.clear();
    this.#base = Math.ceil(this.#end / BLOCK_BYTES) * BLOCK_BYTES;
    this.#start = this.#end;
  }
}
