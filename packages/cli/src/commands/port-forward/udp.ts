import { createSocket, type RemoteInfo } from 'node:dgram';
import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import { DatagramReader, frameDatagram } from '@platform/client/pipes';
import { type Forwarding, type Opener, tellEnd } from './forwarding.ts';
import { endpoint, type ForwardSpec } from './specs.ts';
import { cannotListen } from './tcp.ts';

/** A peer that says and hears nothing for so long is forgotten. */
const IDLE_MS = 60_000;
/** Peers at a time; the one that was silent longest makes room. */
const MOST_PEERS = 256;
/** Datagrams of a peer whose way is not there yet, or is full: more are lost. */
const MOST_WAITING_BYTES = 256 * 1024;

interface Peer {
  stream?: Duplex;
  early: Buffer[];
  earlyBytes: number;
  idle: NodeJS.Timeout;
  end(): void;
}

/** Takes datagrams on a UDP port; each peer has a way of its own to the port of the workspace. */
export async function forwardUdp(spec: ForwardSpec, open: Opener, tell: (text: string) => void): Promise<Forwarding> {
  const host = spec.host || '127.0.0.1';
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  await new Promise<void>((resolve, reject) => {
    socket.once('error', (err) => reject(cannotListen(host, spec.localPort, err)));
    socket.bind(spec.localPort, host, resolve);
  });
  socket.on('error', (err) => tell(`UDP ${spec.localPort}: ${err.message}`));
  const peers = new Map<string, Peer>();

  const begin = (name: string, from: RemoteInfo): Peer => {
    const peer: Peer = {
      early: [],
      earlyBytes: 0,
      idle: setTimeout(() => peer.end(), IDLE_MS),
      end() {
        clearTimeout(peer.idle);
        peers.delete(name);
        peer.stream?.destroy();
      },
    };
    peers.set(name, peer);
    open('udp', spec.remotePort).then(
      (stream) => {
        stream.on('error', (err) => tellEnd(`UDP port ${spec.remotePort}`, err, tell));
        if (peers.get(name) !== peer) return stream.destroy();
        peer.stream = stream;
        const reader = new DatagramReader();
        stream.on('data', (chunk: Buffer) => {
          peer.idle.refresh();
          for (const datagram of reader.write(chunk)) socket.send(datagram, from.port, from.address, () => {});
        });
        stream.on('close', () => peer.end());
        for (const datagram of peer.early.splice(0)) stream.write(frameDatagram(datagram));
      },
      (err: Error) => {
        tell(`UDP port ${spec.remotePort}: ${err.message}`);
        peer.end();
      },
    );
    return peer;
  };

  socket.on('message', (datagram, from) => {
    const name = endpoint(from.address, from.port);
    const known = peers.get(name);
    if (!known && peers.size >= MOST_PEERS) peers.values().next().value!.end();
    const peer = known ?? begin(name, from);
    // the map's order is that of use
    peers.delete(name);
    peers.set(name, peer);
    peer.idle.refresh();
    if (peer.stream) {
      if (peer.stream.writableLength <= MOST_WAITING_BYTES) peer.stream.write(frameDatagram(datagram));
    } else if (peer.earlyBytes + datagram.length <= MOST_WAITING_BYTES) {
      peer.early.push(datagram);
      peer.earlyBytes += datagram.length;
    }
  });
  return {
    local: endpoint(host, socket.address().port),
    connections: () => peers.size,
    close() {
      socket.close();
      for (const peer of [...peers.values()]) peer.end();
    },
  };
}
