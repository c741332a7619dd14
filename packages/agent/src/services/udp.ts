import { createSocket } from 'node:dgram';
import { DatagramReader, frameDatagram } from '@ropewalk/wire/datagrams';
import type { Activity } from '../activity.ts';
import type { Service } from './service.ts';
import { requestedPort } from './tcp.ts';

/** How long both sides may be silent before the client counts as gone, in ms. UDP has no other sign. */
const IDLE_MS = 120_000;
/** The maximum number of bytes that wait for a slow reader. Further datagrams are lost, as on any network. */
const MAX_WAITING = 1024 * 1024;

/** `{service: 'udp', port}`: forwards one client's datagrams to and from a UDP port of the workspace's loopback. */
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
      if (stream.destroyed || stream.writableLength > MAX_WAITING) return;
      stream.write(frameDatagram(datagram));
      activity.count(0, datagram.length);
    });
    // The system sometimes reports that nothing listens there. The client sees silence, as with any UDP.
    socket.on('error', () => {});
    stream.on('error', () => {});
    stream.on('end', () => stream.end());
    stream.on('close', () => {
      clearTimeout(idle);
      socket.close();
    });
  };
}
