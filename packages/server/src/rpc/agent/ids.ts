import { AppError } from '@ropewalk/kit';
import { NIL_UUID } from '../../app/values/ids.ts';

/** Ids on this wire are 16 raw bytes. */
export function uuidBytes(id: string): Uint8Array {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
export function uuidText(bytes: Uint8Array): string {
  if (bytes.length === 0) return NIL_UUID;
  if (bytes.length !== 16) throw new AppError('invalid', 'An id must be 16 bytes.');
  const hex = Buffer.from(bytes).toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
