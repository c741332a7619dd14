// Memory for packets. Node serves small buffers from a pool and makes an allocation for each large one, which the garbage
// collector has to find again. Long packets live for one turn of the event loop, so they share blocks.

const BLOCK_BYTES = 256 * 1024;
/** Node's pool serves shorter ones. */
const LONG_BYTES = 4_096;
const ALIGNMENT = 8;

let block = Buffer.alloc(0);
let used = 0;

/** A buffer of this length with any content. A long one keeps its block, so it is for packets that are soon gone. */
export function allocatePacket(bytes: number): Buffer {
  if (bytes < LONG_BYTES || bytes > BLOCK_BYTES) return Buffer.allocUnsafe(bytes);
  if (used + bytes > block.length) {
    block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    used = 0;
  }
  const start = used;
  used = Math.ceil((start + bytes) / ALIGNMENT) * ALIGNMENT;
  return block.subarray(start, start + bytes);
}
