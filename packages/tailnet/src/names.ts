// Bytes as texts, which are keys of maps: keys, ids and addresses.

/** Hexadecimal digits. */
export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}

/** One character for each byte: shorter and faster than digits, and not for people. */
export function nameOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
