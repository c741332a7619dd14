// Forwards connections and datagrams of the tailnet to the workspace's loopback.
import { createSocket } from 'node:dgram';
import type { Duplex } from 'node:stream';
import { errorText } from '@ropewalk/kit';
import { formatAddress } from '@ropewalk/tailnet/address';
import type { Incoming } from '@ropewalk/tailnet/stack/tcp/tcp';
import type { UdpFlow } from '@ropewalk/tailnet/stack/udp';
import type { Activity } from '../activity.ts';
import { dialLoopback } from '../services/tcp.ts';

const LOOPBACK = '127.0.0.1';
/** How long a program may keep its end of a connection open after the other end is closed, in ms. */
const LINGER_MS = 2_000;

/** Connects to the port before the client has its answer, so that it sees a refused connection as such. */
export async function forwardTcp(incoming: Incoming, activity: Activity): Promise<void> {
  const { route, signal } = incoming;
  const socket = await dialLoopback(route.port).catch(() => undefined);
  if (!socket || signal.aborted) {
    socket?.destroy();
    incoming.refuse();
    return;
  }
  const stream = await incoming.accept().catch((err: unknown) => {
    socket.destroy();
    throw err;
  });
  const id = activity.beginConnection('port', formatAddress(route.peer));
  stream.once('close', () => activity.tunnelEnded('port', id, stream.errored ? errorText(stream.errored) : ''));
  carry(stream, socket, (bytes) => activity.count(bytes, 0));
  carry(socket, stream, (bytes) => activity.count(0, bytes));
}

/** Passes bytes on. When one direction ends, both do: as upstream's agents do it, without half-close. */
function carry(from: Duplex, to: Duplex, count: (bytes: number) => void): void {
  from.on('data', (chunk: Buffer) => {
    if (to.writableEnded || to.destroyed) return;
    count(chunk.length);
    if (!to.write(chunk)) from.pause();
  });
  to.on('drain', () => from.resume());
  from.once('end', () => {
    for (const stream of [to, from]) {
      stream.end();
      // what still comes is dropped
      stream.resume();
    }
  });
  from.on('error', () => to.destroy());
  from.once('close', () => {
    if (!from.readableEnded) to.destroy();
    const timer = setTimeout(() => to.destroy(), LINGER_MS).unref();
    to.once('close', () => clearTimeout(timer));
  });
}

/** Passes the datagrams of one flow to and from the port, until the flow ends. */
export function forwardUdp(flow: UdpFlow, activity: Activity): void {
  const socket = createSocket('udp4');
  const id = activity.beginConnection('port', formatAddress(flow.peer));
  // the system may report that nothing listens there: the client sees silence, as with any UDP
  socket.on('error', () => flow.close());
  socket.bind(0, LOOPBACK);
  socket.on('message', (datagram, { address, port }) => {
    if (address !== LOOPBACK || port !== flow.port) return;
    if (flow.send(datagram)) activity.count(0, datagram.length);
  });
  flow.handle({
    onMessage: (payload) => {
      activity.count(payload.length, 0);
      socket.send(payload, flow.port, LOOPBACK, () => {});
    },
    onClose: () => {
      socket.close();
      activity.tunnelEnded('port', id, '');
    },
  });
}
