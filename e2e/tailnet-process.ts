// A relay with a STUN server, or a node with a network stack, as a separate process that a test starts in a network
// namespace. Both exchange lines of JSON with the test.
//
// A transfer is a TCP connection that carries one endless stream of bytes at a moderate rate, so that it lasts as long as a
// test needs. The receiver computes the same stream and compares it.
import { createCipheriv } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, isIPv4, isIPv6 } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Clock, systemClock } from '@ropewalk/kit';
import {
  DerpRelay,
  decodeStunRequest,
  encodeStunResponse,
  nodeWithStack,
  parseAddress,
  type RelayMap,
  readRelayMap,
  type TcpStream,
} from '@ropewalk/tailnet';
import { DERPMapSchema, NodeSchema } from '@ropewalk/wire/proto/tailnet';
import type { Line } from './tailnet-network.ts';

const TRANSFER_PORT = 7;
/** Ends connections. */
const SHORT_PORT = 9;
const CHUNK_BYTES = 32 * 1024;
const CHUNK_MS = 40;
const REPORT_MS = 50;
const TICK_MS = 20;
/** The next header of packets that carry a text of the test. */
const NO_NEXT_HEADER = 59;

const say = (line: Line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** A clock that runs so many times as fast. */
function clockOf(speed: number): Clock {
  const started = Date.now();
  const monotonic = () => speed * performance.now();
  return {
    now: () => new Date(started + monotonic()),
    monotonic,
    sleep: (ms, signal) => systemClock.sleep(ms / speed, signal),
  };
}

interface Common {
  clock: Clock;
  speed: number;
  /** Of the relay and STUN server. Nodes reach the relay at the first one. */
  addresses: string[];
  stunPort: number;
}

async function runRelay({ clock, addresses, stunPort }: Common): Promise<void> {
  const relay = new DerpRelay({ clock, policy: { introduced: () => true, permits: () => true } });
  const server = createServer((_req, res) => res.end());
  server.on('upgrade', (_req, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: DERP\r\nConnection: Upgrade\r\n\r\n');
    void relay.accept(socket);
  });
  for (const address of addresses) {
    const stun = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    stun.on('message', (packet, from) => {
      const tx = decodeStunRequest(packet);
      const source = { address: parseAddress(from.address)!, port: from.port };
      if (tx) stun.send(encodeStunResponse(tx, source), from.port, from.address);
    });
    stun.bind(stunPort, address);
    await once(stun, 'listening');
  }
  const address = addresses[0]!;
  server.listen(0, address);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  say({ url: `http://${isIPv6(address) ? `[${address}]` : address}:${port}` });
}

/** The map of a server whose relay is at this URL, and whose STUN server has these addresses. */
function mapOf({ addresses, stunPort }: Common, url: string): RelayMap {
  const { hostname, port } = new URL(url);
  const node = {
    ...{ name: '1a', hostName: hostname.replace(/^\[|\]$/g, ''), derpPort: Number(port), forceHttp: true, stunPort },
    ...{ ipv4: addresses.find(isIPv4) ?? '', ipv6: addresses.find(isIPv6) ?? '' },
  };
  return readRelayMap(
    create(DERPMapSchema, { regions: { 1: { regionId: 1n, regionName: 'One', nodes: [node] } } }),
    url,
  );
}

/** The bytes of every transfer. */
const keystream = () => {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16));
  return (length: number) => cipher.update(Buffer.alloc(length));
};

/** Reports when and why a transfer closed. */
function report(stream: TcpStream): void {
  stream.on('error', (err: NodeJS.ErrnoException) => say({ ended: err.code ?? err.message }));
  stream.on('close', () => stream.errored ?? say({ ended: '' }));
}

async function sendTransfer(stream: TcpStream, signal: AbortSignal): Promise<void> {
  report(stream);
  // without this, the stream does not see the end of the other direction
  stream.resume();
  const next = keystream();
  while (!signal.aborted && !stream.destroyed) {
    if (!stream.write(next(CHUNK_BYTES))) await once(stream, 'drain', { signal }).catch(() => {});
    await delay(CHUNK_MS, undefined, { signal }).catch(() => {});
  }
  stream.end();
}

function receiveTransfer(stream: TcpStream): void {
  report(stream);
  stream.on('end', () => stream.end());
  const next = keystream();
  let bytes = 0;
  let isEqual = true;
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    isEqual &&= next(chunk.length).equals(chunk);
  });
  const timer = setInterval(() => say({ bytes, isEqual }), REPORT_MS);
  stream.on('close', () => {
    clearInterval(timer);
    say({ bytes, isEqual });
  });
}

interface Command {
  /** A node to know. */
  peer?: string;
  /** A text to send to an address, and the path that it takes. */
  send?: string;
  to?: string;
  /** Begins a transfer to this address, or ends it. */
  transfer?: string;
  finish?: true;
  /** Opens another connection to this address. */
  connect?: string;
}

function runNode(common: Common, url: string, own: string): void {
  const { clock, speed } = common;
  const address = parseAddress(own)!;
  const { node, stack } = nodeWithStack({
    ...{ addresses: [address], clock },
    schedule: (callback, ms) => {
      const timer = setTimeout(callback, ms / speed);
      return () => clearTimeout(timer);
    },
    onPacket: (packet) => {
      if (packet[6] === NO_NEXT_HEADER) say({ received: packet.subarray(40).toString() });
      else stack.receive(packet);
    },
  });
  stack.listen(TRANSFER_PORT, receiveTransfer);
  stack.listen(SHORT_PORT, (stream) => stream.end());
  node.setRelayMap(mapOf(common, url));
  node.onChange((self) => {
    const { endpoints, derpLatency } = self;
    const encoded = Buffer.from(toBinary(NodeSchema, self)).toString('base64');
    say({ node: encoded, endpoints, latencies: Object.keys(derpLatency) });
  });
  let transferTo: Buffer | undefined;
  const sayPath = () => {
    const { path, handshakeAt } = node.status().peers[0] ?? {};
    const packetBytes = transferTo && node.packetBytes(transferTo);
    if (path) say({ path, packetBytes, ...(handshakeAt && { handshakeAt: handshakeAt.getTime() }) });
  };
  setInterval(sayPath, REPORT_MS);
  // the node's timer has the speed of this machine
  if (speed > 1) setInterval(() => node.tick(), TICK_MS);
  const finished = new AbortController();
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { peer, send, to, transfer, finish, connect } = JSON.parse(line) as Command;
    if (peer !== undefined) node.setPeer(Buffer.from('peer'), fromBinary(NodeSchema, Buffer.from(peer, 'base64')));
    if (send !== undefined) {
      const header = Buffer.from([0x60, 0, 0, 0, 0, Buffer.byteLength(send), NO_NEXT_HEADER, 64]);
      node.send(Buffer.concat([header, address, parseAddress(to!)!, Buffer.from(send)]));
      sayPath();
    }
    if (transfer !== undefined) {
      transferTo = parseAddress(transfer)!;
      void stack.connect({ to: transferTo, port: TRANSFER_PORT }).then(
        (stream) => sendTransfer(stream, finished.signal),
        (err: Error) => say({ ended: err.message }),
      );
    }
    if (finish) finished.abort();
    if (connect !== undefined)
      void stack.connect({ to: parseAddress(connect)!, port: SHORT_PORT }).then(
        (stream) => {
          stream.end();
          say({ connected: 'yes' });
        },
        (err: Error) => say({ connected: err.message }),
      );
  });
}

const [role, stunPort, speed, addresses, url, own] = process.argv.slice(2);
process.stdin.on('close', () => process.exit());
process.stdin.resume();
const common: Common = {
  ...{ clock: clockOf(Number(speed)), speed: Number(speed) },
  ...{ addresses: addresses!.split(','), stunPort: Number(stunPort) },
};
if (role === 'relay') await runRelay(common);
else runNode(common, url!, own!);
