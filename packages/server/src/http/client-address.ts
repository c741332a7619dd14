import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { AppError } from '@ropewalk/kit';

/** The address of the client that sent a request: the connection's, or the one that a trusted proxy reports. */
export type ClientAddress = (request: IncomingMessage) => string;

/** An address in its IPv4 form if it has one. Sockets of both families report IPv4 addresses in an IPv6 form. */
const bare = (address: string) => address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '');

/** @throws AppError `invalid` if an entry is neither an address nor a range */
function ranges(origins: readonly string[]): BlockList {
  const list = new BlockList();
  for (const origin of origins) {
    const [, address = '', bits] = /^(.+?)(?:\/(\d{1,3}))?$/.exec(origin.trim()) ?? [];
    const family = isIP(address);
    const most = family === 4 ? 32 : 128;
    if (family === 0 || Number(bits ?? most) > most) {
      throw new AppError(
        'invalid',
        `Invalid --proxy-trusted-origins value "${origin}": use IP addresses or ranges such as 10.0.0.0/8.`,
      );
    }
    list.addSubnet(address, Number(bits ?? most), family === 4 ? 'ipv4' : 'ipv6');
  }
  return list;
}

/**
 * Headers count only on connections from the trusted origins (addresses or CIDR ranges), in the order given. In a list
 * such as X-Forwarded-For, the last address outside the trusted origins counts, because the client may have written
 * everything before it.
 */
export function createClientAddress(config: {
  proxyTrustedHeaders: readonly string[];
  proxyTrustedOrigins: readonly string[];
}): ClientAddress {
  const headers = config.proxyTrustedHeaders.map((name) => name.trim().toLowerCase()).filter(Boolean);
  const trusted = ranges(config.proxyTrustedOrigins.filter((origin) => origin.trim() !== ''));
  const isTrusted = (address: string) => {
    const family = isIP(address);
    return family !== 0 && trusted.check(address, family === 4 ? 'ipv4' : 'ipv6');
  };
  const direct: ClientAddress = ({ socket }) => bare(socket.remoteAddress ?? '');
  if (headers.length === 0 || config.proxyTrustedOrigins.length === 0) return direct;
  return (request) => {
    const peer = direct(request);
    if (!isTrusted(peer)) return peer;
    for (const name of headers) {
      const value = request.headers[name];
      const addresses = (Array.isArray(value) ? value.join(',') : (value ?? ''))
        .split(',')
        .map((part) => bare(part.trim().replace(/^\[(.*)\](?::\d+)?$/, '$1')))
        .filter((part) => isIP(part) !== 0);
      const client = addresses.findLast((address) => !isTrusted(address)) ?? addresses[0];
      if (client !== undefined) return client;
    }
    return peer;
  };
}
