// IPv6 (RFC 8200) as nodes of the tailnet use it: a fixed header of 40 bytes, then TCP, UDP, ICMPv6 or TSMP. Packets
// with extension headers, fragments included, are dropped. An address has 16 bytes.

export const IPV6_HEADER_BYTES = 40;
export const SOURCE_OFFSET = 8;
export const DESTINATION_OFFSET = 24;
const HOP_LIMIT = 64;

/** Values of the header's field "next header". */
export const PROTOCOL = {
  tcp: 6,
  udp: 17,
  icmpv6: 58,
  /** Tailscale's own small messages. */
  tsmp: 99,
} as const;

/** Writes the header into the first 40 bytes. The packet's own length is that of the payload. */
export function writeIpv6Header(
  packet: Uint8Array,
  protocol: number,
  source: Uint8Array,
  destination: Uint8Array,
): void {
  const length = packet.length - IPV6_HEADER_BYTES;
  packet[0] = 0x60;
  packet[1] = 0;
  packet[2] = 0;
  packet[3] = 0;
  packet[4] = length >> 8;
  packet[5] = length;
  packet[6] = protocol;
  packet[7] = HOP_LIMIT;
  packet.set(source, SOURCE_OFFSET);
  packet.set(destination, DESTINATION_OFFSET);
}

/** The packet without bytes after its end. Undefined if it is not a whole IPv6 packet. */
export function wholeIpv6(packet: Buffer): Buffer | undefined {
  if (!isIpv6(packet)) return undefined;
  const end = IPV6_HEADER_BYTES + ((packet[4]! << 8) | packet[5]!);
  if (packet.length === end) return packet;
  return packet.length > end ? packet.subarray(0, end) : undefined;
}

/** The source and destination addresses, as in `nameOf`. Undefined if this is not an IPv6 packet. */
export const sourceOf = (packet: Buffer): string | undefined =>
  isIpv6(packet) ? packet.toString('latin1', SOURCE_OFFSET, DESTINATION_OFFSET) : undefined;
export const destinationOf = (packet: Buffer): string | undefined =>
  isIpv6(packet) ? packet.toString('latin1', DESTINATION_OFFSET, IPV6_HEADER_BYTES) : undefined;

function isIpv6(packet: Buffer): boolean {
  return packet.length >= IPV6_HEADER_BYTES && packet[0]! >> 4 === 6;
}

/** Whether an address can be the source of a packet: neither multicast nor unspecified. */
export function isUnicast(packet: Uint8Array, offset: number): boolean {
  if (packet[offset] === 0xff) return false;
  for (let i = 0; i < 16; i++) if (packet[offset + i] !== 0) return true;
  return false;
}

/**
 * The Internet checksum of a packet without extension headers, over pseudo-header and payload. It is 0 for a packet
 * whose checksum field is right, and the value of that field if the field is 0.
 */
export function checksum(packet: Uint8Array): number {
  const end = packet.length;
  const pseudo = end - IPV6_HEADER_BYTES + packet[6]!;
  const isLong = end >= LONG_BYTES && packet.byteOffset % WORD_BYTES === 0;
  const wordsEnd = isLong ? end - ((end - SOURCE_OFFSET) % WORD_BYTES) : SOURCE_OFFSET;
  // the sum of the largest packet, 32,800 numbers of 16 bits, needs 32 bits
  let sum = (isLong ? sumOfWords(packet, wordsEnd) : 0) + pseudo;
  let i = wordsEnd;
  for (; i + 7 < end; i += 8)
    sum +=
      ((packet[i]! << 8) | packet[i + 1]!) +
      ((packet[i + 2]! << 8) | packet[i + 3]!) +
      ((packet[i + 4]! << 8) | packet[i + 5]!) +
      ((packet[i + 6]! << 8) | packet[i + 7]!);
  for (; i + 1 < end; i += 2) sum += (packet[i]! << 8) | packet[i + 1]!;
  if (i < end) sum += packet[i]! << 8;
  return ~fold(sum) & 0xffff;
}

const WORD_BYTES = 4;
/** A view of a packet is worth its allocation from here on. */
const LONG_BYTES = 512;
const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** The folded sum from the source address to `end`. The order of bytes in all summands decides that of the sum (RFC 1071). */
function sumOfWords(packet: Uint8Array, end: number): number {
  const words = new Uint32Array(packet.buffer, packet.byteOffset + SOURCE_OFFSET, (end - SOURCE_OFFSET) / WORD_BYTES);
  const count = words.length;
  let low = 0;
  let high = 0;
  let i = 0;
  for (; i + 3 < count; i += 4) {
    const a = words[i]!;
    const b = words[i + 1]!;
    const c = words[i + 2]!;
    const d = words[i + 3]!;
    low += (a & 0xffff) + (b & 0xffff) + (c & 0xffff) + (d & 0xffff);
    high += (a >>> 16) + (b >>> 16) + (c >>> 16) + (d >>> 16);
  }
  for (; i < count; i++) {
    low += words[i]! & 0xffff;
    high += words[i]! >>> 16;
  }
  const sum = fold(low + high);
  return IS_LITTLE_ENDIAN ? ((sum & 0xff) << 8) | (sum >> 8) : sum;
}

function fold(sum: number): number {
  let folded = (sum & 0xffff) + (sum >>> 16);
  folded = (folded & 0xffff) + (folded >>> 16);
  return folded;
}

/** Writes the checksum at an offset of the packet. */
export function writeChecksum(packet: Uint8Array, offset: number): void {
  packet[offset] = 0;
  packet[offset + 1] = 0;
  const sum = checksum(packet);
  packet[offset] = sum >> 8;
  packet[offset + 1] = sum;
}

/** What is the same in both directions of a flow: peer's address, own address, peer's port, own port. */
export function flowKeyOf(packet: Buffer): string {
  // addresses and ports follow each other in a packet without extension headers
  return packet.toString('latin1', SOURCE_OFFSET, IPV6_HEADER_BYTES + 4);
}

/** The key of a flow by its parts. */
export function flowKey(peer: Buffer, peerPort: number, own: Buffer, ownPort: number): string {
  return (
    peer.toString('latin1') +
    own.toString('latin1') +
    String.fromCharCode(peerPort >> 8, peerPort & 0xff, ownPort >> 8, ownPort & 0xff)
  );
}
