/** The size of slabs, which bulk data reuses. An interactive session keeps a small one. */
const SLAB = 64 * 1024;
const SMALL_SLAB = 4 * 1024;
/** The number of free slabs kept for all streams of the process: 8 MiB, the size of the largest window. */
const MAX_FREE = 128;
const free: Buffer[] = [];

/**
 * Keeps the bytes that a peer has not acknowledged yet, in order. It copies them: each read of a socket allocates a
 * buffer, which dies young unless somebody keeps it. Buffers kept until an acknowledgement would have to be collected
 * with the whole heap. The copy costs a tenth of the time it saves.
 */
export class ReplayBuffer {
  /** Offsets in the stream: of the first kept byte, of the next byte to send, and after the last. */
  start = 0;
  sent = 0;
  end = 0;
  #pieces: Buffer[] = [];
  /** The position of `sent`: the piece and the byte within it. */
  #piece = 0;
  #byte = 0;
  /** The slab that is being filled, up to #filled. */
  #slab: Buffer | undefined;
  #filled = 0;
  /** Slabs that nobody else references once their bytes are acknowledged. */
  #own = new WeakSet<ArrayBufferLike>();

  append(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (!this.#slab || this.#filled === this.#slab.length) this.#nextSlab(bytes.length - at);
      const slab = this.#slab!;
      const length = Math.min(slab.length - this.#filled, bytes.length - at);
      bytes.copy(slab, this.#filled, at, at + length);
      this.#added(slab, length);
      at += length;
      this.end += length;
    }
  }

  /**
   * Passes the next `length` bytes to `write` in pieces and counts them as sent. The pieces must not be used after
   * their acknowledgement.
   */
  send(length: number, write: (piece: Buffer) => void): void {
    this.sent += length;
    for (let left = length; left > 0; ) {
      const piece = this.#pieces[this.#piece]!;
      const part = piece.subarray(this.#byte, this.#byte + left);
      left -= part.length;
      this.#byte += part.length;
      if (this.#byte === piece.length) {
        this.#piece++;
        this.#byte = 0;
      }
      write(part);
    }
  }

  /** Drops the bytes before an offset, which must have been sent. */
  acknowledge(offset: number): void {
    let bytes = offset - this.start;
    let whole = 0;
    while (bytes > 0) {
      const piece = this.#pieces[whole]!;
      if (piece.length <= bytes) {
        bytes -= piece.length;
        whole++;
        this.#recycle(piece);
      } else {
        this.#pieces[whole] = piece.subarray(bytes);
        if (this.#piece === whole) this.#byte -= bytes;
        bytes = 0;
      }
    }
    if (whole > 0) this.#pieces.splice(0, whole);
    this.#piece -= whole;
    this.start = Math.max(this.start, offset);
  }

  /** Restarts at the first kept byte. Somebody may still use pieces that were passed on. */
  rewind(): void {
    this.sent = this.start;
    this.#piece = 0;
    this.#byte = 0;
    this.#own = new WeakSet();
    this.#slab = undefined;
  }

  clear(): void {
    this.#pieces = [];
    this.#slab = undefined;
  }

  #nextSlab(wanted: number): void {
    if (wanted < SMALL_SLAB / 4 && this.#pieces.length === 0) {
      this.#slab = ownMemory(SMALL_SLAB);
    } else {
      this.#slab = free.pop() ?? ownMemory(SLAB);
      this.#own.add(this.#slab.buffer);
    }
    this.#filled = 0;
  }

  /** Adds bytes to the last piece if they continue it, else as a new piece. */
  #added(slab: Buffer, length: number): void {
    const from = this.#filled;
    this.#filled += length;
    const last = this.#pieces.at(-1);
    if (last?.buffer !== slab.buffer || last.byteOffset + last.length !== from) {
      this.#pieces.push(slab.subarray(from, this.#filled));
      return;
    }
    this.#pieces[this.#pieces.length - 1] = slab.subarray(last.byteOffset, this.#filled);
    // Continue a piece that was sent completely.
    if (this.#piece === this.#pieces.length) {
      this.#piece--;
      this.#byte = last.length;
    }
  }

  #recycle({ buffer }: Buffer): void {
    if (buffer === this.#slab?.buffer) this.#slab = undefined;
    if (this.#own.has(buffer) && free.length < MAX_FREE) free.push(Buffer.from(buffer));
  }
}

/** Allocates memory outside Node's pool, so that its buffer identifies it. */
function ownMemory(bytes: number): Buffer {
  return Buffer.from(new ArrayBuffer(bytes));
}
