import { applyMask } from './mask.ts';
import { maskMemory, PAGE } from './mask-wasm.ts';

export const SLAB = PAGE;
const SLABS = 32;

/** Memory for masked payload. Return it after writing. */
export interface MaskSlab {
  readonly bytes: Buffer;
  /** Masks the first `length` bytes. See applyMask. */
  mask(length: number, key: number): number;
  release(): void;
}

let idle: MaskSlab[] | undefined;

function fastSlabs(): MaskSlab[] {
  const memory = maskMemory(SLABS);
  return Array.from({ length: SLABS }, (_, index) => {
    const start = index * SLAB;
    const bytes = memory.bytes.subarray(start, start + SLAB);
    const slab: MaskSlab = {
      bytes,
      // The key is the same after each multiple of four.
      mask: (length, key) => applyMask(bytes.subarray(memory.mask(start, length, key), length), key),
      release: () => void idle!.push(slab),
    };
    return slab;
  });
}

/** Takes memory for masking from the pool, or allocates it if the pool is empty. */
export function takeMaskSlab(): MaskSlab {
  idle ??= fastSlabs();
  const slab = idle.pop();
  if (slab) return slab;
  const bytes = Buffer.allocUnsafeSlow(SLAB);
  return { bytes, mask: (length, key) => applyMask(bytes.subarray(0, length), key), release() {} };
}
