/** Go's clients send it where they mean none. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Go's clients send it for a time that is not set. */
export function isZeroTime(text: string): boolean {
  return text.startsWith('0001-01-01T00:00:00');
}
