import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { parseAddress } from '../address.ts';
import { checksum, writeChecksum, writeIpv6Header } from '../ipv6.ts';
import { SimulatedNetwork } from '../testing/simulated-network.ts';
import { fromHex, hex } from '../testing/vectors.ts';
import { MTU } from '../wireguard/session.ts';
import { Stack, type StackOptions } from './stack.ts';
import { MAX_DATAGRAM_BYTES, type UdpFlow } from './udp.ts';

const A = parseAddress('fd7a::a')!;
const B = parseAddress('fd7a::b')!;

/** A stack whose packets are collected. */
function lone(options: Partial<StackOptions> = {}) {
  const sent: Buffer[] = [];
  const stack = new Stack({ addresses: [A], onPacket: (packet) => sent.push(packet), ...options });
  return { stack, sent };
}

/** A packet from B to A. */
function packet(protocol: number, payload: Buffer, checksumAt?: number): Buffer {
  const built = Buffer.concat([Buffer.alloc(40), payload]);
  writeIpv6Header(built, protocol, B, A);
  if (checksumAt !== undefined) writeChecksum(built, 40 + checksumAt);
  return built;
}

test('the checksum is that of RFC 1071, and every changed byte shows', () => {
  const request = fromHex(`6000000000403a40${hex(B)}${hex(A)}8000${'0000'}2c710001${'a5'.repeat(56)}`);
  writeChecksum(request, 42);
  const sum = request.readUInt16BE(42);
  // pseudo-header and payload, without the checksum's own field
  let expected = 0;
  const words = Buffer.concat([
    B,
    A,
    Buffer.of(0, 0, 0, 64, 0, 0, 0, 58),
    request.subarray(40, 42),
    request.subarray(44),
  ]);
  for (let i = 0; i < words.length; i += 2) expected += words.readUInt16BE(i);
  while (expected > 0xffff) expected = (expected & 0xffff) + (expected >>> 16);
  assert.equal(sum, ~expected & 0xffff);
  assert.equal(checksum(request), 0);
  for (let i = 8; i < request.length; i++) {
    request[i]! ^= 0x10;
    assert.notEqual(checksum(request), 0);
    request[i]! ^= 0x10;
  }
});

test('the checksum covers every byte of packets of any length', () => {
  for (let length = 42; length < 70; length++) {
    const request = packet(58, Buffer.alloc(length - 36, 0x5a), 2);
    assert.equal(checksum(request), 0);
    request[request.length - 1]! ^= 1;
    assert.notEqual(checksum(request), 0);
    request[request.length - 1]! ^= 1;
    // pseudo-header and payload in words, with a zero after an odd end
    const words = Buffer.concat([
      B,
      A,
      Buffer.of(0, 0, 0, length - 36, 0, 0, 0, 58),
      request.subarray(40),
      Buffer.alloc(1),
    ]);
    let sum = 0;
    for (let i = 0; i + 1 < words.length; i += 2) sum += words.readUInt16BE(i);
    assert.equal(sum % 0xffff, 0);
  }
});

test('answers an ICMPv6 echo request with the same payload', () => {
  const { stack, sent } = lone();
  const body = Buffer.from('8000000012340001', 'hex');
  stack.receive(packet(58, Buffer.concat([body, Buffer.from('payload')]), 2));
  assert.equal(sent.length, 1);
  const [reply] = sent;
  assert.equal(checksum(reply!), 0);
  assert.deepEqual(reply!.subarray(8, 40), Buffer.concat([A, B]));
  assert.equal(hex(reply!.subarray(40, 42)), '8100');
  assert.equal(hex(reply!.subarray(44)), `12340001${Buffer.from('payload').toString('hex')}`);
  const damaged = packet(58, Buffer.concat([body, Buffer.from('payload')]), 2);
  damaged[50]! ^= 1;
  stack.receive(damaged);
  assert.equal(sent.length, 1);
});

test('answers a TSMP ping with the bytes that upstream expects', () => {
  const { stack, sent } = lone();
  stack.receive(packet(99, fromHex('700102030405060708')));
  assert.equal(sent.length, 1);
  assert.equal(hex(sent[0]!), `60000000000b6340${hex(A)}${hex(B)}6f0102030405060708${'0000'}`);
});

test('pings over ICMPv6 and TSMP measure the round trip', async () => {
  const net = new SimulatedNetwork(1, { delayMs: 20 });
  assert.equal(await net.until(net.a.ping(net.addresses.b)), 40);
  assert.equal(await net.until(net.a.ping(net.addresses.b, { protocol: 'tsmp' })), 40);
  net.links.b.passes = () => false;
  await assert.rejects(net.until(net.a.ping(net.addresses.b, { timeoutMs: 300 })), { code: 'ETIMEDOUT' });
  const controller = new AbortController();
  const ping = net.a.ping(net.addresses.b, { signal: controller.signal });
  controller.abort(new Error('enough'));
  await assert.rejects(net.until(ping), { message: 'enough' });
  const last = net.a.ping(net.addresses.b);
  net.a.close();
  await assert.rejects(net.until(last), { code: 'ECONNABORTED' });
  net.close();
});

test('drops what it does not speak, and packets for others, without an answer', () => {
  const { stack, sent } = lone();
  const echo = packet(58, Buffer.from('8000000012340001', 'hex'), 2);
  const changed = (change: (packet: Buffer) => void) => {
    const copy = Buffer.from(echo);
    change(copy);
    return copy;
  };
  const dropped = [
    Buffer.alloc(0),
    echo.subarray(0, 39),
    echo.subarray(0, echo.length - 1),
    changed((p) => p.writeUInt8(0x45, 0)), // IPv4
    changed((p) => p.writeUInt8(0x61, 39)), // for another node
    changed((p) => p.fill(0, 8, 24)), // unspecified source
    changed((p) => p.writeUInt8(0xff, 8)), // multicast source
    ...[0, 43, 44, 60, 50, 51, 59, 4, 41, 1].map((header) => changed((p) => p.writeUInt8(header, 6))),
  ];
  for (const each of dropped) stack.receive(each);
  assert.equal(sent.length, 0);
  assert.equal(stack.stats.packetsDropped, dropped.length);
  stack.receive(Buffer.concat([echo, Buffer.alloc(9)]));
  assert.equal(sent.length, 1);
});

test('flows of UDP carry datagrams both ways and end when idle', async () => {
  const net = new SimulatedNetwork(1, { delayMs: 1 });
  const closed: string[] = [];
  const flows: UdpFlow[] = [];
  net.b.onUdpFlow((flow) => {
    flows.push(flow);
    flow.handle({
      onMessage: (payload) => flow.send(Buffer.concat([Buffer.from('re: '), payload])),
      onClose: () => closed.push('b'),
    });
  });
  const received: string[] = [];
  const flow = net.a.openUdp(net.addresses.b, 7, {
    onMessage: (payload) => received.push(payload.toString()),
    onClose: () => closed.push('a'),
  });
  for (const text of ['one', '', 'three']) assert.equal(flow.send(Buffer.from(text)), true);
  assert.equal(flow.send(Buffer.alloc(MAX_DATAGRAM_BYTES)), true);
  assert.equal(flow.send(Buffer.alloc(MAX_DATAGRAM_BYTES + 1)), false);
  await net.advance(10);
  assert.deepEqual(received.slice(0, 3), ['re: one', 're: ', 're: three']);
  assert.equal(flows.length, 1);
  assert.deepEqual([flows[0]!.port, flows[0]!.peerPort], [7, flow.port]);
  await net.advance(119_000);
  assert.deepEqual(closed, []);
  flow.send(Buffer.from('awake'));
  await net.advance(119_000);
  assert.deepEqual(closed, []);
  await net.advance(2_000);
  assert.deepEqual(closed.sort(), ['a', 'b']);
  assert.equal(flow.send(Buffer.from('late')), false);
  assert.deepEqual([net.a.stats.udpFlows, net.b.stats.udpFlows], [0, 0]);
  net.close();
});

test('a peer with too many flows of UDP loses its own oldest, not those of others', () => {
  const { stack } = lone({ limits: { maxFlows: 10, maxFlowsPerPeer: 4 } });
  let ended = 0;
  stack.onUdpFlow((flow) => flow.handle({ onMessage: () => {}, onClose: () => ended++ }));
  const datagram = (from: Buffer, port: number) => {
    const built = packet(17, Buffer.from([port >> 8, port & 255, 0, 9, 0, 8, 0, 0]));
    built.set(from, 8);
    writeChecksum(built, 46);
    stack.receive(built);
  };
  const other = parseAddress('fd7a::c')!;
  datagram(other, 1);
  for (let port = 1; port <= 1_000; port++) datagram(B, port);
  assert.equal(stack.stats.udpFlows, 5);
  assert.equal(ended, 996);
  stack.forget(B);
  assert.equal(stack.stats.udpFlows, 1);
  stack.close();
  assert.equal(stack.stats.udpFlows, 0);
});

test('random and damaged packets have no effect on others and hold no memory', async () => {
  const random = seededRandom(2_026);
  const net = new SimulatedNetwork(3, { delayMs: 1 });
  net.b.onUdpFlow((flow) => flow.handle({ onMessage: () => {} }));
  net.b.onIncoming((incoming) => void incoming.accept().catch(() => {}));
  const captured: Buffer[] = [];
  net.links.a.passes = (each) => {
    captured.push(each);
    return true;
  };
  const stream = await net.until(net.a.connect({ to: net.addresses.b, port: 5 }));
  stream.write(Buffer.alloc(5_000, 1));
  net.a.openUdp(net.addresses.b, 9, { onMessage: () => {} }).send(Buffer.from('x'));
  void net.a.ping(net.addresses.b).catch(() => {});
  await net.advance(100);
  for (let i = 0; i < 10_000; i++) {
    const damaged = Buffer.from(captured[random(captured.length)]!);
    const changes = 1 + random(4);
    // the headers behind the addresses, options included
    for (let j = 0; j < changes; j++) damaged[40 + random(Math.min(60, damaged.length - 40))] = random(256);
    const length = random(3) === 0 ? 40 + random(damaged.length - 39) : damaged.length;
    const cut = Buffer.from(damaged.subarray(0, Math.min(length, MTU)));
    cut.writeUInt16BE(cut.length - 40, 4);
    // with a right checksum, so that the packet passes the first check
    const at = { 6: 56, 17: 46, 58: 42 }[cut[6]!];
    if (at !== undefined && at + 2 <= cut.length) writeChecksum(cut, at);
    net.b.receive(cut);
    if (i % 500 === 0) await net.advance(1);
  }
  const { connections, halfOpen, udpFlows, receiveBytes } = net.b.stats;
  assert.ok(connections <= 1_024 && halfOpen <= 128 && udpFlows <= 256, JSON.stringify(net.b.stats));
  assert.ok(receiveBytes <= 64 * 1024 * 1024);
  net.close();
  assert.deepEqual([net.b.stats.connections, net.b.stats.sendBytes, net.b.stats.receiveBytes], [0, 0, 0]);
});
