import { createSocket, type RemoteInfo } from 'node:dgram';
import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import { DatagramReader, frameDatagram } from '@ropewalk/client/tunnel-streams';
import { type Forwarding, noteEnd, type Opener } from './forwarding.ts';
import { endpoint, type ForwardSpec } from './specs.ts';
import { cannotListen } from './tcp.ts';

/** The time without datagrams after which a sender is forgotten. */
const IDLE_MS = 60_000;
/** The number of senders at a time. A new one replaces the one that was idle longest. */
const MAX_SENDERS = 256;
/** The bytes that wait for a sender's tunnel to open or to drain. Further datagrams are dropped. */
const MAX_WAITING_BYTES = 256 * 1024;

interface Sender {
  stream?: Duplex;
  early: Buffer[];
  earlyBytes: number;
  idle: NodeJS.Timeout;
  end(): void;
}

/** Receives datagrams on a UDP port. Each sender has its own tunnel to the port of the workspace. */
export async function forwardUdp(spec: ForwardSpec, open: Opener, notify: (text: string) => void): Promise<Forwarding> {
  const host = spec.host || '127.0.0.1';
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  await new Promise<void>((resolve, reject) => {
    socket.once('error', (err) => reject(cannotListen(host, spec.localPort, err)));
    socket.bind(spec.localPort, host, resolve);
  });
  socket.on('error', (err) => notify(`UDP ${spec.localPort}: ${err.message}`));
  const senders = new Map<string, Sender>();

  const begin = (name: string, from: RemoteInfo): Sender => {
    const sender: Sender = {
      early: [],
      earlyBytes: 0,
      idle: setTimeout(() => sender.end(), IDLE_MS),
      end() {
        clearTimeout(sender.idle);
        senders.delete(name);
        sender.stream?.destroy();
      },
    };
    senders.set(name, sender);
    open('udp', spec.remotePort).then(
      (stream) => {
        stream.on('error', (err) => noteEnd(`UDP port ${spec.remotePort}`, err, notify));
        if (senders.get(name) !== sender) return stream.destroy();
        sender.stream = stream;
        const reader = new DatagramReader();
        stream.on('data', (chunk: Buffer) => {
          sender.idle.refresh();
          for (const datagram of reader.write(chunk)) socket.send(datagram, from.port, from.address, () => {});
        });
        stream.on('close', () => sender.end());
        for (const datagram of sender.early.splice(0)) stream.write(frameDatagram(datagram));
      },
      (err: Error) => {
        notify(`UDP port ${spec.remotePort}: ${err.message}`);
        sender.end();
      },
    );
    return sender;
  };

  socket.on('message', (datagram, from) => {
    const name = endpoint(from.address, from.port);
    const known = senders.get(name);
    if (!known && senders.size >= MAX_SENDERS) senders.values().next().value!.end();
    const sender = known ?? begin(name, from);
    // the map is in order of use
    senders.delete(name);
    senders.set(name, sender);
    sender.idle.refresh();
    if (sender.stream) {
      if (sender.stream.writableLength <= MAX_WAITING_BYTES) sender.stream.write(frameDatagram(datagram));
    } else if (sender.earlyBytes + datagram.length <= MAX_WAITING_BYTES) {
      sender.early.push(datagram);
      sender.earlyBytes += datagram.length;
    }
  });
  return {
    local: endpoint(host, socket.address().port),
    connections: () => senders.size,
    close() {
      socket.close();
      for (const sender of [...senders.values()]) sender.end();
    },
  };
}
