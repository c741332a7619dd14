/**
 * Requests to addresses that people give. The server sends them to the public Internet only, because its own network can
 * have services that trust it. The address counts that the connection uses: a name can resolve to another one each time.
 */
import { lookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { AppError } from '@ropewalk/kit';

/** What IANA's registries of special addresses do not call global, and what can lead to such addresses. */
const SPECIAL: [network: string, bits: number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
  ['::', 96],
  // NAT64, Teredo and 6to4 contain IPv4 addresses
  ['64:ff9b::', 32],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
];
const special = new BlockList();
for (const [network, bits] of SPECIAL) special.addSubnet(network, bits, isIP(network) === 4 ? 'ipv4' : 'ipv6');

export const isPublicAddress = (address: string): boolean =>
  isIP(address) !== 0 && !special.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');

/** Addresses of the machine's own link, where clouds have their metadata services, and of many hosts at a time. */
const unrouted = new BlockList();
unrouted.addSubnet('0.0.0.0', 8);
unrouted.addSubnet('169.254.0.0', 16);
unrouted.addSubnet('224.0.0.0', 3);
unrouted.addSubnet('fe80::', 10, 'ipv6');
unrouted.addSubnet('ff00::', 8, 'ipv6');
unrouted.addAddress('fd00:ec2::254', 'ipv6');

/** Whether a host can have this address, in the Internet or in a private network. */
export const isHostAddress = (address: string): boolean =>
  isIP(address) !== 0 && !unrouted.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');

/** The host of a URL if it is an address. Names are checked when the server connects. */
function addressIn(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  return isIP(host) === 0 ? undefined : host;
}

/** Whether a URL names an address that is not public. */
export function namesPrivateAddress(url: URL): boolean {
  const address = addressIn(url);
  return address !== undefined && !isPublicAddress(address);
}

const privateHost = (host: string) =>
  new AppError('invalid', `The server sends nothing to ${host}: its address is not public.`);

/** Resolves names as the system does, to allowed addresses only. */
export const lookupOf =
  (isAllowed: (address: string) => boolean): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (err, found) => {
      if (err) return callback(err, []);
      const addresses = found.filter(({ address }) => isAllowed(address));
      const [first] = addresses;
      if (!first) return callback(privateHost(hostname), []);
      if (options.all) return callback(null, addresses);
      return callback(null, first.address, first.family);
    });
  };

/** A dispatcher for `fetch` that connects to allowed addresses only. */
export async function publicDispatcher(isAllowed = isPublicAddress): Promise<NonNullable<RequestInit['dispatcher']>> {
  // loaded with the first request
  const { Agent } = await import('undici');
  const agent = new Agent({ connect: { lookup: lookupOf(isAllowed) } }).compose((dispatch) => (options, handler) => {
    // an address is not looked up
    const address = addressIn(new URL(options.origin ?? ''));
    if (address !== undefined && !isAllowed(address)) throw privateHost(address);
    return dispatch(options, handler);
  });
  return agent as never;
}
