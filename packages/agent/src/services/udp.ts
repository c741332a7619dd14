import { createSocket } from 'node:dgram';
import { DatagramReader, frameDatagram } from '@platform/wire/datagrams';
import type { Activity } from '../activity.ts';
import type { Service } from './service.ts';
import { requestedPort } from './tcp.ts';

/** Without a datagram either way for so long, the peer is gone: nothing else tells. */
const IDLE_MS = 120_000;
/** More than this on its way to a slow reader, and datagrams are lost, as they are on any network. */
const MOST_WAITING = 1024 * 1024;

/** `{service: 'udp', port}`: the datagrams of one peer to and from a UDP port of the workspace's loopback. */
export function udpService(activity: Activity): Service {
  return async ({ request, accept }) => {
    const port = requestedPort(request['port']);
    const socket = createSocket('udp4');
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.connect(port, '127.0.0.1', resolve);
    });
    const stream = accept();
    const idle = setTimeout(() => stream.destroy(), IDLE_MS).unref();
    const reader = new DatagramReader();
    stream.on('data', (chunk: Buffer) => {
      idle.refresh();
      activity.count(chunk.length, 0);
      for (const datagram of reader.write(chunk)) socket.send(datagram, () => {});
    });
    socket.on('message', (datagram) => {
      idle.refresh();
      if (stream.destroyed || stream.writableLength > MOST_WAITING) return;
      stream.write(frameDatagram(datagram));
      activity.count(0, datagram.length);
    });
    // that nothing listens there is told by the system now and again; the peer sees silence, as with any UDP
    socket.on('error', () => {});
    stream.on('error', () => {});
    stream.on('end', () => stream.end());
    stream.on('close', () => {
      clearTimeout(idle);
      socket.close();
    });
  };
}
