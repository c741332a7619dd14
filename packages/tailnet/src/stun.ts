// STUN (RFC 5389) shows a node its public UDP address. Only binding requests and their responses are implemented.
import { crc32 } from 'node:zlib';
import { ADDRESS_BYTES, type Endpoint, isMappedIPv4 } from './address.ts';

const HEADER_BYTES = 20;
export const STUN_TX_BYTES = 12;
const COOKIE = 0x2112a442;
const TYPE = { request: 0x0001, response: 0x0101 } as const;
const ATTRIBUTE = { mappedAddress: 0x0001, xorMappedAddress: 0x0020, software: 0x8022, fingerprint: 0x8028 } as const;
const FAMILY = { ipv4: 1, ipv6: 2 } as const;
const SOFTWARE = Buffer.from('tailnode');
const FINGERPRINT_MASK = 0x5354554e;

/** Whether a UDP packet has the form of STUN, so that it can be kept apart from others on the same socket. */
export function isStun(packet: Buffer): boolean {
  return packet.length >= HEADER_BYTES && packet[0]! < 0x40 && packet.readUInt32BE(4) === COOKIE;
}

/** `tx` is 12 random bytes, which the response returns. */
export function encodeStunRequest(tx: Uint8Array): Buffer {
  const start = message(TYPE.request, tx, attribute(ATTRIBUTE.software, SOFTWARE));
  start.writeUInt16BE(start.length - HEADER_BYTES + 8, 2); // includes the fingerprint that follows
  const fingerprint = Buffer.allocUnsafe(4);
  fingerprint.writeUInt32BE((crc32(start) ^ FINGERPRINT_MASK) >>> 0);
  return Buffer.concat([start, attribute(ATTRIBUTE.fingerprint, fingerprint)]);
}

/**
 * The 12 bytes of a valid binding request. It must end with a FINGERPRINT, so a request has at least 28 bytes. A response
 * has 32 for IPv4 and 44 for IPv6: a server that answers hardly multiplies what a forged source address receives. Undefined for any other packet.
 */
export function decodeStunRequest(packet: Buffer): Buffer | undefined {
  const attributes = attributesOf(packet, TYPE.request);
  const last = attributes?.at(-1);
  if (last?.type !== ATTRIBUTE.fingerprint || last.value.length !== 4) return undefined;
  const expected = (crc32(packet.subarray(0, last.at)) ^ FINGERPRINT_MASK) >>> 0;
  return last.value.readUInt32BE(0) === expected ? txOf(packet) : undefined;
}

/** `source` is the address from which the request came. */
export function encodeStunResponse(tx: Uint8Array, source: Endpoint): Buffer {
  const isIPv4 = isMappedIPv4(source.address);
  const value = Buffer.allocUnsafe(isIPv4 ? 8 : 4 + ADDRESS_BYTES);
  value[0] = 0;
  value[1] = isIPv4 ? FAMILY.ipv4 : FAMILY.ipv6;
  value.writeUInt16BE(source.port ^ (COOKIE >>> 16), 2);
  value.set(mask(isIPv4 ? source.address.subarray(12) : source.address, tx), 4);
  return message(TYPE.response, tx, attribute(ATTRIBUTE.xorMappedAddress, value));
}

/** The request's 12 bytes and its sender's address as the server saw it. Undefined for any other packet. */
export function decodeStunResponse(packet: Buffer): { tx: Buffer; source: Endpoint } | undefined {
  const attributes = attributesOf(packet, TYPE.response);
  if (!attributes) return undefined;
  const tx = txOf(packet);
  let plain: Endpoint | undefined;
  for (const { type, value } of attributes) {
    if (type !== ATTRIBUTE.xorMappedAddress && type !== ATTRIBUTE.mappedAddress) continue;
    const source = readAddress(value, type === ATTRIBUTE.xorMappedAddress ? tx : undefined);
    if (source && type === ATTRIBUTE.xorMappedAddress) return { tx, source };
    plain ??= source;
  }
  return plain && { tx, source: plain };
}

function message(type: number, tx: Uint8Array, attributes: Buffer): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header.writeUInt16BE(type, 0);
  header.writeUInt16BE(attributes.length, 2);
  header.writeUInt32BE(COOKIE, 4);
  header.set(tx, 8);
  return Buffer.concat([header, attributes]);
}

/** `value` is a multiple of 4 bytes. */
function attribute(type: number, value: Uint8Array): Buffer {
  const header = Buffer.allocUnsafe(4);
  header.writeUInt16BE(type, 0);
  header.writeUInt16BE(value.length, 2);
  return Buffer.concat([header, value]);
}

interface Attribute {
  type: number;
  value: Buffer;
  /** Where it begins in the packet. */
  at: number;
}

/** The attributes of a packet of this type, whose lengths must add up. */
function attributesOf(packet: Buffer, type: number): Attribute[] | undefined {
  if (!isStun(packet) || packet.readUInt16BE(0) !== type) return undefined;
  if (packet.readUInt16BE(2) !== packet.length - HEADER_BYTES) return undefined;
  const attributes: Attribute[] = [];
  for (let at = HEADER_BYTES; at < packet.length; ) {
    if (packet.length - at < 4) return undefined;
    const length = packet.readUInt16BE(at + 2);
    const end = at + 4 + length;
    if (end > packet.length) return undefined;
    attributes.push({ type: packet.readUInt16BE(at), value: packet.subarray(at + 4, end), at });
    at = end + (-length & 3);
  }
  return attributes;
}

const txOf = (packet: Buffer): Buffer => packet.subarray(8, HEADER_BYTES);

function readAddress(value: Buffer, tx: Buffer | undefined): Endpoint | undefined {
  if (value.length !== 8 && value.length !== 4 + ADDRESS_BYTES) return undefined;
  const isIPv4 = value.length === 8;
  if (value[1] !== (isIPv4 ? FAMILY.ipv4 : FAMILY.ipv6)) return undefined;
  const bytes = tx ? mask(value.subarray(4), tx) : value.subarray(4);
  const address = Buffer.alloc(ADDRESS_BYTES);
  if (isIPv4) address.fill(0xff, 10, 12);
  address.set(bytes, ADDRESS_BYTES - bytes.length);
  const port = value.readUInt16BE(2) ^ (tx ? COOKIE >>> 16 : 0);
  return { address, port };
}

/** XORs an address with the cookie and the request's 12 bytes. Applied twice it has no effect. */
function mask(address: Uint8Array, tx: Uint8Array): Buffer {
  const pattern = Buffer.allocUnsafe(4 + STUN_TX_BYTES);
  pattern.writeUInt32BE(COOKIE, 0);
  pattern.set(tx, 4);
  return Buffer.from(address.map((byte, i) => byte ^ pattern[i]!));
}
