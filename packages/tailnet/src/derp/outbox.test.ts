import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { decodePacket, decodePeerGone, encodeFrame, encodeSend, FRAME } from './frames.ts';
import { Outbox } from './outbox.ts';
import { PacketQueue } from './packet-queue.ts';

/** A stream that accepts one frame at a time, each when `accept` is called. */
function slowStream(): { stream: Duplex; written: Buffer[]; accept(): Promise<void> } {
  const written: Buffer[] = [];
  let done: (() => void) | undefined;
  const stream = new Duplex({
    writableHighWaterMark: 1,
    read() {},
    write(chunk: Buffer, _encoding, callback) {
      written.push(chunk);
      done = callback;
    },
  });
  const accept = async () => {
    const finish = done;
    done = undefined;
    finish?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { stream, written, accept };
}

const key = Buffer.alloc(32, 1);
const types = (frames: Buffer[]) => frames.map((frame) => frame[0]);

test('a packet that waits is a copy, so that it does not keep the bytes that arrived with it', async () => {
  const { stream, written, accept } = slowStream();
  const outbox = new Outbox(stream, () => 0);
  const chunk = Buffer.alloc(2_000);
  chunk.set(encodeSend(key, Buffer.from('packet')));
  const frame = chunk.subarray(0, 43);
  assert.equal(outbox.packet(frame), 0);
  assert.equal(outbox.packet(frame), 0);
  assert.equal(written[0]!.buffer, chunk.buffer, 'the first one is not copied');
  assert.deepEqual([outbox.queuedPackets, outbox.queuedBytes], [1, 43]);
  await accept();
  assert.equal(decodePacket(written[1]!).packet.toString(), 'packet');
  assert.notEqual(written[1]!.buffer, chunk.buffer);
});

test('a small packet of a large chunk is a copy even if it does not wait', () => {
  const { stream, written } = slowStream();
  const outbox = new Outbox(stream, () => 0);
  const chunk = Buffer.concat([encodeSend(key, Buffer.from('packet')), Buffer.alloc(1_000_000)]);
  outbox.packet(chunk.subarray(0, 43));
  assert.deepEqual(written[0], chunk.subarray(0, 43));
  assert.ok(written[0]!.buffer.byteLength < 100_000);
});

test('queues that share a budget give up their own oldest packets, or the new one', () => {
  const budget = { bytes: 0, maxBytes: 60 };
  const queue = () => new PacketQueue(10, 100, budget);
  const [first, second, third] = [queue(), queue(), queue()];
  assert.deepEqual([first.push(Buffer.alloc(20)), first.push(Buffer.alloc(20))], [0, 1]);
  assert.equal(second.push(Buffer.alloc(20)), 0, 'the first one left room');
  assert.equal(third.push(Buffer.alloc(20)), 1);
  assert.deepEqual([first.length, second.length, third.length, budget.bytes], [1, 1, 0, 40]);
  first.clear();
  assert.equal(third.push(Buffer.alloc(20)), 0);
  third.shift();
  second.shift();
  assert.equal(budget.bytes, 0);
});

test('the queues of one key share a budget, and give up their own oldest packets', () => {
  const [all, key] = [
    { bytes: 0, maxBytes: 1_000 },
    { bytes: 0, maxBytes: 50 },
  ];
  const [first, second] = [new PacketQueue(10, 100, all), new PacketQueue(10, 100, all)];
  first.shareWithKey(key);
  second.shareWithKey(key);
  assert.deepEqual([first.push(Buffer.alloc(20)), second.push(Buffer.alloc(20))], [0, 0]);
  assert.deepEqual([first.push(Buffer.alloc(20)), second.push(Buffer.alloc(31))], [1, 2]);
  assert.deepEqual([first.length, second.length, key.bytes, all.bytes], [1, 0, 20, 20]);
  first.clear();
  assert.equal(key.bytes, 0);
});

test('waiting frames are written in the order answers, gone peers, disco, data', async () => {
  const { stream, written, accept } = slowStream();
  let now = 0;
  const outbox = new Outbox(stream, () => now);
  assert.equal(outbox.blockedMs, 0);
  outbox.keepAlive();
  now = 70;
  assert.equal(outbox.blockedMs, 70);
  const disco = Buffer.concat([Buffer.from('5453f09f92ac', 'hex'), Buffer.alloc(80)]);
  outbox.packet(encodeSend(key, Buffer.from('data')));
  outbox.packet(encodeSend(key, disco));
  for (let i = 0; i < 1_000; i++) {
    outbox.gone(Buffer.alloc(32, i % 250), 0);
    outbox.answer(encodeFrame(FRAME.pong, Buffer.alloc(8, i)));
    outbox.keepAlive();
  }
  for (let i = 0; i < 300; i++) await accept();
  const gone = Array.from({ length: 250 }, () => FRAME.peerGone);
  assert.deepEqual(types(written), [FRAME.keepAlive, FRAME.pong, ...gone, FRAME.send, FRAME.send]);
  assert.equal(written[1]!.at(-1), 999 % 256);
  assert.equal(new Set(written.slice(2, 252).map((frame) => decodePeerGone(frame).key.toString('hex'))).size, 250);
  assert.ok(decodePacket(written[252]!).packet.equals(disco));
  assert.equal(outbox.blockedMs, 0);
});

test('of gone peers a bounded number waits', async () => {
  const { stream, written, accept } = slowStream();
  const outbox = new Outbox(stream, () => 0);
  outbox.keepAlive();
  for (let i = 0; i < 1_000; i++) {
    const peer = Buffer.alloc(32);
    peer.writeUInt16BE(i);
    outbox.gone(peer, 0);
  }
  for (let i = 0; i < 1_000; i++) await accept();
  assert.equal(written.length, 1 + 512);
});

test('a destroyed stream and a cleared outbox take no frames', async () => {
  const { stream, written, accept } = slowStream();
  const outbox = new Outbox(stream, () => 0);
  outbox.keepAlive();
  outbox.packet(encodeSend(key, Buffer.from('x')));
  outbox.clear();
  await accept();
  stream.destroy();
  outbox.keepAlive();
  assert.deepEqual(types(written), [FRAME.keepAlive]);
});

test('a full queue drops the oldest packets, by number and by bytes', () => {
  const queue = new PacketQueue(3, 100);
  const packet = (length: number, fill: number) => Buffer.alloc(length, fill);
  assert.deepEqual(
    [1, 2, 3, 4].map((fill) => queue.push(packet(10, fill))),
    [0, 0, 0, 1],
  );
  assert.equal(queue.push(packet(90, 5)), 2);
  assert.deepEqual([queue.length, queue.bytes], [2, 100]);
  assert.equal(queue.push(packet(101, 6)), 1);
  assert.deepEqual([queue.shift(), queue.shift(), queue.shift()], [packet(10, 4), packet(90, 5), undefined]);
  for (let i = 0; i < 10; i++) queue.push(packet(1, i));
  assert.equal(queue.shift()![0], 7);
  queue.clear();
  assert.deepEqual([queue.length, queue.bytes, queue.shift()], [0, 0, undefined]);
});
