import { isIP } from 'node:net';

/**
 * The network that a rate limit counts an address with. All of an IPv6 network of 64 bits, which one host has to
 * itself, counts as one.
 */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = '', tail] = address.replace(/%.*$/, '').toLowerCase().split('::') as [string, string?];
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  // an IPv4 address at the end stands for two groups
  const groups = left.length + right.length + (address.includes('.') ? 1 : 0);
  const all = tail === undefined ? left : [...left, ...Array<string>(Math.max(0, 8 - groups)).fill('0'), ...right];
  const network = all.slice(0, 4).map((group) => group.replace(/^0+(?=.)/, ''));
  return `${network.join(':')}::/64`;
}
