/** The symbol for NUL, a character that the database cannot store in a text. */
const SYMBOL = '\u2400';

/**
 * Replaces each NUL in the texts of a message with its symbol, at any depth, so that a program that prints NUL does not
 * fail its job. Changes the message itself. Bytes stay as they are.
 */
export function showNul<T extends object>(message: T): T {
  const fields = message as Record<string, unknown>;
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    if (typeof value === 'string') {
      if (value.includes('\0')) fields[key] = value.replaceAll('\0', SYMBOL);
    } else if (typeof value === 'object' && value !== null && !(value instanceof Uint8Array)) showNul(value);
  }
  return message;
}
