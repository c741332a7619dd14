// UDP sockets and the addresses of this machine.
import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';
import {
  ADDRESS_BYTES,
  type Endpoint,
  formatAddress,
  isMappedIPv4,
  parseAddress,
  SERVICE_PREFIX,
  TAILNET_PREFIX,
} from '../address.ts';
import { relayRegionOf } from '../disco.ts';

export interface UdpSocket {
  readonly port: number;
  /** Sends a datagram, or drops it, as any network may. */
  send(packet: Uint8Array, port: number, host: string): void;
  close(): void;
}

export interface UdpEvents {
  /** `host` is a numeric address. The datagrams of one turn of the event loop come together, before any microtask. */
  onPacket: (packet: Buffer, host: string, port: number) => void;
  /** The socket failed and is closed. */
  onError: (error: Error) => void;
}

/** Opens a socket on all addresses of a family. Rejects if the machine does not have the family. */
export type OpenUdp = (family: 4 | 6, events: UdpEvents) => Promise<UdpSocket>;

/** Holds a burst of some thousand packets while this process is busy. The kernel may grant less. */
const BUFFER_BYTES = 4 * 1024 * 1024;

/** Sockets of this machine. The kernel sets "don't fragment", so that only paths for full packets work. */
export const openUdp: OpenUdp = async (family, { onPacket, onError }) => {
  const socket = createSocket({
    type: `udp${family}`,
    ipv6Only: family === 6,
    recvBufferSize: BUFFER_BYTES,
    sendBufferSize: BUFFER_BYTES,
    // all hosts are numeric: nothing to resolve
    lookup: (host, _options, done) => done(null, host, family),
  });
  // with this lookup, bind does everything immediately
  const listening = once(socket, 'listening');
  socket.bind(0, family === 4 ? '0.0.0.0' : '::');
  await listening;
  let isOpen = true;
  // Node runs microtasks after each datagram, so that a connection would answer each of them alone
  let waiting: { packet: Buffer; from: RemoteInfo }[] = [];
  const deliver = () => {
    const received = waiting;
    waiting = [];
    for (const { packet, from } of received) if (isOpen) onPacket(packet, from.address, from.port);
  };
  socket.on('message', (packet, from) => {
    if (waiting.push({ packet, from }) === 1) setImmediate(deliver);
  });
  const close = () => {
    if (isOpen) socket.close();
    isOpen = false;
  };
  socket.on('error', (err) => {
    close();
    onError(err);
  });
  socket.unref();
  return {
    port: socket.address().port,
    send: (packet, port, host) => {
      // Without a callback, Node ignores failures: unreachable networks and full buffers drop datagrams.
      if (isOpen) socket.send(packet, port, host);
    },
    close,
  };
};

/** Addresses of this machine's interfaces. Those of the loopback only if there are no others. */
export function interfaceAddresses(): Buffer[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const outer = all.filter(({ internal }) => !internal);
  const found = (outer.length > 0 ? outer : all).map(({ address }) => parseAddress(address));
  return found.filter((address) => address !== undefined && isReachable({ address, port: 1 })) as Buffer[];
}

/** What `UdpSocket.send` takes as `host`. */
export const hostOf = (address: Uint8Array): string => formatAddress(address);

const LINK_LOCAL = 0xfe80;

/**
 * Whether packets may be sent to an endpoint that a peer named: not to groups, to no address, to links, which need an
 * interface, or into the tailnet.
 */
export function isReachable(endpoint: Endpoint): boolean {
  const { address, port } = endpoint;
  if (address.length !== ADDRESS_BYTES || port === 0 || relayRegionOf(endpoint) !== undefined) return false;
  if (isMappedIPv4(address)) return address[12] !== 0 && address[12]! < 224;
  if (address.every((byte) => byte === 0)) return false;
  const isLink = ((address[0]! << 8) | (address[1]! & 0xc0)) === LINK_LOCAL;
  const isTailnet = [TAILNET_PREFIX, SERVICE_PREFIX].some((prefix) => prefix.every((byte, i) => byte === address[i]));
  return address[0] !== 0xff && !isLink && !isTailnet;
}

export function isLoopback(address: Uint8Array): boolean {
  if (isMappedIPv4(address)) return address[12] === 127;
  return address.every((byte, i) => byte === (i === ADDRESS_BYTES - 1 ? 1 : 0));
}

/** Whether an address is of a private network: RFC 1918, or fc00::/7. */
export function isPrivate(address: Uint8Array): boolean {
  if (!isMappedIPv4(address)) return (address[0]! & 0xfe) === 0xfc;
  const [first, second] = [address[12]!, address[13]!];
  return first === 10 || (first === 172 && second >> 4 === 1) || (first === 192 && second === 168);
}
