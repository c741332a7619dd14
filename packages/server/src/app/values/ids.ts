/** The zero value of Go's `uuid.UUID`. Upstream's clients send it for an absent id. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether the text is a UUID with hyphens, in upper or lower case. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** Whether this is the zero value of Go's `time.Time`, which upstream's clients send for an unset time. */
export function isZeroTime(text: string): boolean {
  return text.startsWith('0001-01-01T00:00:00');
}
