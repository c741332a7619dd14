/** Formats an id of the wire, 16 raw bytes, as text in lower case. Bytes that are missing count as 0. */
export function uuidText(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString('hex').padEnd(32, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** The 16 raw bytes of an id. */
export function uuidBytes(id: string): Uint8Array {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
