import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { openUdp, type UdpEvents } from './udp.ts';

async function open(t: TestContext, onPacket: UdpEvents['onPacket']) {
  const socket = await openUdp(4, { onPacket, onError: (err) => assert.fail(err) });
  t.after(() => socket.close());
  return socket;
}

test('gives the datagrams of one turn together, in order', async (t) => {
  const received: number[] = [];
  let groups = 0;
  let isNew = true;
  const to = await open(t, (packet) => {
    received.push(packet[0]!);
    if (!isNew) return;
    isNew = false;
    groups++;
    queueMicrotask(() => {
      isNew = true;
    });
  });
  const from = await open(t, () => {});
  const sent = Array.from({ length: 20 }, (_, i) => i);
  for (const i of sent) from.send(Buffer.from([i]), to.port, '127.0.0.1');
  await eventually(() => received.length === sent.length, 'all datagrams');
  assert.deepEqual(received, sent);
  assert.ok(groups <= 5, `${groups} groups`);
});

test('gives nothing after it is closed', async (t) => {
  let received = 0;
  const to = await open(t, () => {
    received++;
    to.close();
  });
  const from = await open(t, () => {});
  for (let i = 0; i < 20; i++) from.send(Buffer.from([i]), to.port, '127.0.0.1');
  await eventually(() => received > 0, 'the first datagram');
  await nextTurn();
  assert.equal(received, 1);
});

test('a datagram that cannot be sent is dropped, and the socket stays', async (t) => {
  const received: number[] = [];
  const to = await open(t, (packet) => void received.push(packet.length));
  const from = await open(t, () => {});
  from.send(Buffer.alloc(70_000), to.port, '127.0.0.1');
  from.send(Buffer.alloc(10), to.port, '255.255.255.255');
  from.send(Buffer.alloc(20), to.port, '127.0.0.1');
  await eventually(() => received.length > 0, 'the datagram');
  assert.deepEqual(received, [20]);
});
