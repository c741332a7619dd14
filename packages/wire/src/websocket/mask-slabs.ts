import { applyMask } from './mask.ts';

export const SLAB = 64 * 1024;
/** How many slabs wait for their next use. */
const MAX_IDLE = 32;

/** Memory for masked payload. Return it after writing. */
export interface MaskSlab {
  readonly bytes: Buffer;
  /** Masks the first `length` bytes. See applyMask. */
  mask(length: number, key: number): number;
  release(): void;
}

const idle: MaskSlab[] = [];

/** Takes memory for masking from the pool, or allocates it if the pool is empty. */
export function takeMaskSlab(): MaskSlab {
  const waiting = idle.pop();
  if (waiting) return waiting;
  const bytes = Buffer.allocUnsafeSlow(SLAB);
  const slab: MaskSlab = {
    bytes,
    mask: (length, key) => applyMask(bytes.subarray(0, length), key),
    release() {
      if (idle.length < MAX_IDLE) idle.push(slab);
    },
  };
  return slab;
}
