import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Reads one file of recorded vectors. The caller states its shape. */
export function vectors<T>(name: string): T {
  return JSON.parse(readFileSync(join(import.meta.dirname, 'vectors', `${name}.json`), 'utf8')) as T;
}

export function fromHex(hex: string): Buffer {
  return Buffer.from(hex, 'hex');
}

/** The hexadecimal form of bytes, so that a failed comparison shows both values in full. */
export function hex(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('hex');
}
