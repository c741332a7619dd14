import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';

export interface NetworkInterface {
  name: string;
  /** 0: unknown. */
  mtu: number;
  /** With the length of the prefix, such as `10.0.0.2/24`. */
  addresses: string[];
}

/** The network interfaces of this machine. Node does not report the MTU: Linux shows it in a file. */
export function describeInterfaces(): NetworkInterface[] {
  return Object.entries(networkInterfaces()).map(([name, addresses = []]) => ({
    name,
    mtu: mtuOf(name),
    addresses: addresses.flatMap(({ cidr }) => cidr ?? []),
  }));
}

function mtuOf(name: string): number {
  try {
    return Number(readFileSync(`/sys/class/net/${name}/mtu`, 'utf8')) || 0;
  } catch {
    return 0;
  }
}
