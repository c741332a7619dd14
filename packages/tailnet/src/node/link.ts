// How long packets may be that leave this machine for an address. Whether they arrive is what pings of that length show.
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { isMappedIPv4, parseAddress } from '../address.ts';
import { DATA_OVERHEAD_BYTES, MAX_PACKET_BYTES, MTU, PADDING_MULTIPLE } from '../wireguard/session.ts';
import { isLoopback } from './udp.ts';

export interface Link {
  address: Buffer;
  /** Of the network, such as 24. */
  prefixBits: number;
  /** The longest IP packet, in bytes. Undefined if the system does not show it. */
  mtu: number | undefined;
}

const IPV4_BITS_OFFSET = 96;
const UDP_BYTES = { ipv4: 28, ipv6: 48 } as const;

/** The longest packet of the tailnet in one datagram to an address of 16 bytes: from MTU to MAX_PACKET_BYTES. */
export function linkBytes(address: Uint8Array, links: readonly Link[] = linksOfThisMachine()): number {
  // packets for this machine don't leave it
  if (isLoopback(address) || links.some((link) => link.address.equals(address))) return MAX_PACKET_BYTES;
  const near = links.filter((link) => commonBits(link.address, address) >= link.prefixBits);
  const possible = near.length > 0 ? near : links;
  const mtu = possible.length > 0 ? Math.min(...possible.map((link) => link.mtu ?? 0)) : 0;
  const udpBytes = isMappedIPv4(address) ? UDP_BYTES.ipv4 : UDP_BYTES.ipv6;
  const room = mtu - udpBytes - DATA_OVERHEAD_BYTES;
  return Math.max(MTU, Math.min(room - (room % PADDING_MULTIPLE), MAX_PACKET_BYTES));
}

/** The interfaces that lead to other machines. */
function linksOfThisMachine(): Link[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses]) => {
    const mtu = mtuOf(name);
    return (addresses ?? []).flatMap(({ address: text, cidr, internal }) => {
      const address = parseAddress(text);
      if (internal || !address || !cidr) return [];
      const bits = Number(cidr.slice(cidr.indexOf('/') + 1));
      return [{ address, prefixBits: isMappedIPv4(address) ? IPV4_BITS_OFFSET + bits : bits, mtu }];
    });
  });
}

/** Only Linux shows it to a program without native modules. */
function mtuOf(name: string): number | undefined {
  try {
    return Number.parseInt(readFileSync(`/sys/class/net/${name}/mtu`, 'utf8'), 10);
  } catch {
    return undefined;
  }
}

function commonBits(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length; i++) {
    const difference = a[i]! ^ b[i]!;
    if (difference !== 0) return 8 * i + Math.clz32(difference) - 24;
  }
  return 8 * a.length;
}
