/** Go's clients send it where they mean none. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

/** An id that names something; undefined for an absent, empty or nil one. */
export function given(id: string | undefined): string | undefined {
  return id === undefined || id === '' || id === NIL_UUID ? undefined : id;
}
