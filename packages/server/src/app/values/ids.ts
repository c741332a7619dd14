/** Go's clients send this id for an absent one. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether the text is a UUID with hyphens, in upper or lower case. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Whether this is the time that Go's clients send for an unset one. */
export function isZeroTime(text: string): boolean {
  return text.startsWith('0001-01-01T00:00:00');
}
