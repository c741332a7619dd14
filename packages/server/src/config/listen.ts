import type { Server } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { AppError } from '@ropewalk/kit';

export interface Address {
  host: string;
  port: number;
}

/** Parses `host:port`. Without a host, every address of the machine. */
export function parseAddress(text: string): Address {
  const at = text.lastIndexOf(':');
  return { host: text.slice(0, at).replace(/^\[|\]$/g, '') || '0.0.0.0', port: Number(text.slice(at + 1)) };
}

/** A host as it is written in a URL. */
export function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** The address of this machine that other machines most likely reach. */
export function ownAddress(protocol: 'http' | 'https', { host, port }: Address): string {
  if (host !== '0.0.0.0' && host !== '::') return `${protocol}://${hostText(host)}:${port}`;
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const outside = addresses.filter(({ internal, scopeid }) => !internal && !scopeid);
  const best = outside.find(({ family }) => family === 'IPv4') ?? outside[0];
  return `${protocol}://${best ? hostText(best.address) : '127.0.0.1'}:${port}`;
}

/**
 * Listens, and returns the port and the URL without a trailing slash.
 * @throws AppError `unavailable` that names `option` when the address is in use
 */
export async function listen(
  server: Server | HttpsServer,
  { host, port }: Address,
  option: string,
): Promise<{ url: string; port: number }> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (err: NodeJS.ErrnoException) => {
      const why =
        err.code === 'EADDRINUSE'
          ? `another program uses this address. Stop it or choose another with ${option}.`
          : err.message;
      reject(new AppError('unavailable', `Could not listen on ${hostText(host)}:${port}: ${why}`));
    });
    server.listen(port, host, resolve);
  });
  // the system could not accept a connection, such as for want of files: only its client notices
  server.on('error', () => {});
  const { port: actual } = server.address() as AddressInfo;
  const protocol = 'setSecureContext' in server ? 'https' : 'http';
  return { url: `${protocol}://${hostText(host)}:${actual}`, port: actual };
}
