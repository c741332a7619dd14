import { AppError } from '@ropewalk/kit';
import { uuidText as textOf } from '@ropewalk/wire/uuid';
import { NIL_UUID } from '../../app/values/ids.ts';

/** The text of an id that an agent sends. No bytes: the nil id. @throws AppError `invalid` for another length than 16 */
export function uuidText(bytes: Uint8Array): string {
  if (bytes.length === 0) return NIL_UUID;
  if (bytes.length !== 16) throw new AppError('invalid', 'An id must be 16 bytes.');
  return textOf(bytes);
}
