// Every node of the tailnet has addresses in IPv6. An agent's addresses follow from its id: a prefix of 6 bytes, then
// the last 10 bytes of the id. In this package an address is always 16 bytes; IPv4 addresses have their mapped form
// (::ffff:192.0.2.1).
import { randomFillSync } from 'node:crypto';
import { isIPv4, isIPv6 } from 'node:net';

export const ADDRESS_BYTES = 16;
const ID_BYTES = 16;

/** The prefix of the addresses that the command line and servers dial, fd7a:115c:a1e0::/48. */
export const TAILNET_PREFIX: Uint8Array = Buffer.from('fd7a115ca1e0', 'hex');
/** The prefix of the addresses that the desktop application dials, fd60:627a:a42b::/48. */
export const SERVICE_PREFIX: Uint8Array = Buffer.from('fd60627aa42b', 'hex');
/** The one address that every agent had before addresses followed from ids. Agents may still publish it. */
export const LEGACY_AGENT_ADDRESS: Uint8Array = Buffer.from('fd7a115ca1e049d6b259b7acb1b248f4', 'hex');

/** The address of a node under a prefix of 6 bytes. The id has 16 bytes. */
export function addressOf(prefix: Uint8Array, id: Uint8Array): Buffer {
  if (id.length !== ID_BYTES) throw new RangeError(`An id has ${ID_BYTES} bytes, not ${id.length}`);
  const address = Buffer.alloc(ADDRESS_BYTES);
  address.set(prefix, 0);
  address.set(id.subarray(prefix.length), prefix.length);
  return address;
}

/** A random address under the prefix. The last 10 bytes are those of a random UUID, as in every upstream client. */
export function randomAddress(prefix: Uint8Array): Buffer {
  const id = randomFillSync(Buffer.alloc(ID_BYTES));
  id[6] = (id[6]! & 0x0f) | 0x40;
  id[8] = (id[8]! & 0x3f) | 0x80;
  return addressOf(prefix, id);
}

/** The number of an agent's node: the absolute value of the last 8 bytes of its id as a signed integer of 64 bits. */
export function nodeIdOf(id: Uint8Array): bigint {
  if (id.length !== ID_BYTES) throw new RangeError(`An id has ${ID_BYTES} bytes, not ${id.length}`);
  const number = Buffer.from(id.buffer, id.byteOffset, id.length).readBigInt64BE(8);
  // the smallest integer has no positive counterpart of 64 bits and stays negative
  return BigInt.asIntN(64, number < 0n ? -number : number);
}

const MAPPED = Buffer.from('00000000000000000000ffff', 'hex');

export function isMappedIPv4(address: Uint8Array): boolean {
  return MAPPED.every((byte, i) => address[i] === byte);
}

/** Parses an IPv4 or IPv6 address without a zone. Returns undefined for any other text. */
export function parseAddress(text: string): Buffer | undefined {
  if (isIPv4(text)) return Buffer.from([...MAPPED, ...text.split('.').map(Number)]);
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const lastColon = text.lastIndexOf(':');
  const dotted = text.includes('.')
    ? text
        .slice(lastColon + 1)
        .split('.')
        .map(Number)
    : undefined;
  const groups = dotted
    ? `${text.slice(0, lastColon + 1)}${((dotted[0]! << 8) | dotted[1]!).toString(16)}:${((dotted[2]! << 8) | dotted[3]!).toString(16)}`
    : text;
  const [before = '', after] = groups.split('::');
  const head = before === '' ? [] : before.split(':');
  const tail = after ? after.split(':') : [];
  const address = Buffer.alloc(ADDRESS_BYTES);
  head.forEach((group, i) => {
    address.writeUInt16BE(Number.parseInt(group, 16), 2 * i);
  });
  tail.forEach((group, i) => {
    address.writeUInt16BE(Number.parseInt(group, 16), ADDRESS_BYTES - 2 * (tail.length - i));
  });
  return address;
}

/** The canonical text of an address (RFC 5952). IPv4 addresses have four decimal numbers. */
export function formatAddress(address: Uint8Array): string {
  if (address.length !== ADDRESS_BYTES) throw new RangeError(`An address has 16 bytes, not ${address.length}`);
  if (isMappedIPv4(address)) return address.subarray(12).join('.');
  const groups = Array.from({ length: 8 }, (_, i) => (address[2 * i]! << 8) | address[2 * i + 1]!);
  let best = { at: 0, length: 1 };
  for (let at = 0; at < groups.length; at++) {
    let length = 0;
    while (groups[at + length] === 0) length++;
    if (length > best.length) best = { at, length };
  }
  const text = (part: number[]) => part.map((group) => group.toString(16)).join(':');
  if (best.length === 1) return text(groups);
  return `${text(groups.slice(0, best.at))}::${text(groups.slice(best.at + best.length))}`;
}

/** Parses the form that nodes publish, such as `fd7a:115c:a1e0::1/128`. Other prefix lengths give undefined. */
export function parseHostPrefix(text: string): Buffer | undefined {
  return text.endsWith('/128') ? parseAddress(text.slice(0, -'/128'.length)) : undefined;
}

export function formatHostPrefix(address: Uint8Array): string {
  return `${formatAddress(address)}/128`;
}

/** A UDP address. */
export interface Endpoint {
  /** 16 bytes. */
  address: Uint8Array;
  port: number;
}

/** `192.0.2.1:41641` or `[2001:db8::1]:41641`. */
export function formatEndpoint({ address, port }: Endpoint): string {
  const text = formatAddress(address);
  return text.includes(':') ? `[${text}]:${port}` : `${text}:${port}`;
}

/** Returns undefined for text that is not an address with a port. */
export function parseEndpoint(text: string): Endpoint | undefined {
  const parts = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})$/.exec(text);
  const address = parts ? parseAddress((parts[1] ?? parts[2])!) : undefined;
  const port = Number(parts?.[3]);
  return address === undefined || port > 0xffff ? undefined : { address, port };
}
