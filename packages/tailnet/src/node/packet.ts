// The fixed header of an IPv6 packet (RFC 8200, section 3): the source address is at byte 8, the destination at byte 24.
const HEADER_BYTES = 40;
const SOURCE = 8;
const DESTINATION = 24;

/** Bytes as text, one character each: the key of a map. */
export function nameOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

function isIPv6(packet: Buffer): boolean {
  return packet.length >= HEADER_BYTES && packet[0]! >> 4 === 6;
}

/** The names of the source and destination addresses. Undefined if this is not an IPv6 packet. */
export const sourceOf = (packet: Buffer): string | undefined =>
  isIPv6(packet) ? packet.toString('latin1', SOURCE, DESTINATION) : undefined;
export const destinationOf = (packet: Buffer): string | undefined =>
  isIPv6(packet) ? packet.toString('latin1', DESTINATION, HEADER_BYTES) : undefined;
