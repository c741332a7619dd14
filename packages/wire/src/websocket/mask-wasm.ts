/** Node.js has it, but only browser declarations include it. */
interface WithWebAssembly {
  WebAssembly: {
    Module: new (bytes: Uint8Array) => object;
    Instance: new (module: object) => { exports: Record<string, unknown> };
  };
}

/** The size of a page of WebAssembly memory. */
export const PAGE = 64 * 1024;
/** The number of bytes that the module processes at once. Callers process the rest. */
const STRIDE = 64;

/**
 * Builds `x(start, length, word)`: exclusive-or of memory with a 32-bit word, 16 bytes at a time. The length must be a
 * positive multiple of 64. `m` is its memory. Three times as fast as a loop in JavaScript.
 */
function moduleBytes(pages: number): Uint8Array {
  const get = (local: number) => [0x20, local];
  const section = (id: number, bytes: number[]) => [id, bytes.length, ...bytes];
  const load = (offset: number) => [0xfd, 0x00, 4, offset];
  const store = (offset: number) => [0xfd, 0x0b, 4, offset];
  const xorAt = (offset: number) => [...get(0), ...get(0), ...load(offset), ...get(3), 0xfd, 0x51, ...store(offset)];
  const [i32, v128] = [0x7f, 0x7b];
  const body = [
    ...[2, 1, v128, 1, i32], // Locals: 3 is the word in each lane, 4 is the end.
    ...[...get(2), 0xfd, 0x11, 0x21, 3], // splat
    ...[...get(0), ...get(1), 0x6a, 0x21, 4], // end = start + length
    ...[0x03, 0x40], // loop
    ...[0, 16, 32, 48].flatMap(xorAt),
    ...[...get(0), 0x41, 0xc0, 0x00, 0x6a, 0x22, 0], // start += 64
    ...[...get(4), 0x49, 0x0d, 0, 0x0b], // Repeat while start < end.
    0x0b,
  ];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 3, i32, i32, i32, 0]),
    ...section(3, [1, 0]),
    ...section(5, [1, 0, pages]),
    ...section(7, [2, 1, 0x6d, 2, 0, 1, 0x78, 0, 0]),
    ...section(10, [1, body.length, ...body]),
  ]);
}

export interface MaskMemory {
  bytes: Buffer;
  /** Masks `length` bytes from `start`, except a rest of less than 64, and returns how many. `key` as in applyMask. */
  mask(start: number, length: number, key: number): number;
}

/** Memory of this many pages (at most 127) that is masked 16 bytes at a time. */
export function maskMemory(pages: number): MaskMemory {
  const { Module, Instance } = (globalThis as unknown as WithWebAssembly).WebAssembly;
  const { m, x } = new Instance(new Module(moduleBytes(pages))).exports as {
    m: { buffer: ArrayBuffer };
    x: (start: number, length: number, word: number) => void;
  };
  const word = Buffer.alloc(4);
  return {
    bytes: Buffer.from(m.buffer),
    mask(start, length, key) {
      const whole = length - (length % STRIDE);
      if (whole > 0) {
        word.writeUInt32BE(key);
        x(start, whole, word.readInt32LE());
      }
      return whole;
    },
  };
}
