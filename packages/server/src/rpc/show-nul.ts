/** NUL is a character that no text of the database can hold; this is its picture. */
const PICTURE = '\u2400';

/**
 * Puts a picture in place of each NUL in the texts of a message, whatever their depth: a program's output that holds
 * one must not cost its job. Changes the message itself; bytes are left as they are.
 */
export function showNul<T extends object>(message: T): T {
  const fields = message as Record<string, unknown>;
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    if (typeof value === 'string') {
      if (value.includes('\0')) fields[key] = value.replaceAll('\0', PICTURE);
    } else if (typeof value === 'object' && value !== null && !(value instanceof Uint8Array)) showNul(value);
  }
  return message;
}
