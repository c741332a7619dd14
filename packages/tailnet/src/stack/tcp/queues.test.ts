import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { Deque } from './deque.ts';
import { ReceiveQueue } from './receive-queue.ts';
import { SendQueue } from './send-queue.ts';

const SAMPLE = Buffer.from(Uint8Array.from({ length: 400_000 }, (_, i) => i % 251));
const bytes = (start: number, end: number) => SAMPLE.subarray(start, end);

function readAll(queue: ReceiveQueue): Buffer {
  const chunks: Buffer[] = [];
  for (let chunk = queue.read(); chunk; chunk = queue.read()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function blocks(queue: ReceiveQueue): number[] {
  const found: number[] = [];
  queue.sackBlocks(found);
  return found;
}

test('bytes are read in order, whatever order, overlap and repetition they come in', () => {
  const random = seededRandom(11);
  for (let round = 0; round < 60; round++) {
    const queue = new ReceiveQueue();
    const length = 1 + random(400);
    const read: Buffer[] = [];
    while (queue.next < length) {
      const start = random(length);
      queue.push(start, bytes(start, Math.min(length, start + 1 + random(40))));
      if (random(4) === 0) read.push(readAll(queue));
      const reported = blocks(queue);
      assert.ok(reported.length <= 6);
    }
    read.push(readAll(queue));
    assert.deepEqual(Buffer.concat(read), bytes(0, length));
    assert.equal(queue.held, 0);
    assert.equal(queue.readyHeld, 0);
    assert.equal(queue.hasGaps, false);
  }
});

test('reports the range that grew last first, and a duplicate once before the others', () => {
  const queue = new ReceiveQueue();
  queue.push(10, bytes(10, 20));
  queue.push(40, bytes(40, 50));
  queue.push(30, bytes(30, 35));
  assert.deepEqual(blocks(queue), [30, 35, 40, 50, 10, 20]);
  queue.push(20, bytes(20, 25));
  assert.deepEqual(blocks(queue), [10, 25, 30, 35, 40, 50]);
  queue.push(41, bytes(41, 45));
  assert.deepEqual(blocks(queue), [41, 45, 40, 50, 10, 25]);
  assert.deepEqual(blocks(queue), [40, 50, 10, 25, 30, 35]);
  queue.push(0, bytes(0, 41));
  assert.deepEqual(readAll(queue), bytes(0, 50));
});

test('many gaps and tiny segments hold a bounded number of buffers', () => {
  const queue = new ReceiveQueue();
  for (let start = 1; start < 20_000; start += 2) queue.push(start, bytes(start, start + 1));
  assert.ok(queue.held <= 1_024 * 256, `${queue.held}`);
  queue.push(0, bytes(0, 1));
  assert.equal(queue.next, 2);
});

test('a small payload does not keep the large buffer that it came in', () => {
  const queue = new ReceiveQueue();
  const large = Buffer.alloc(100_000);
  queue.push(0, large.subarray(10, 20));
  assert.ok(queue.read()!.buffer.byteLength < large.length);
});

test('a send queue returns what was written, until it is released', () => {
  const queue = new SendQueue();
  const random = seededRandom(5);
  let end = 0;
  for (let i = 0; i < 100; i++) {
    const length = random(3_000);
    queue.push(bytes(end, end + length));
    end += length;
  }
  assert.equal(queue.end, end);
  for (let released = 0; released < end; ) {
    for (let i = 0; i < 5; i++) {
      const offset = released + random(end - released);
      const length = Math.min(end - offset, random(70_000));
      const packet = Buffer.alloc(length + 7);
      queue.copy(offset, length, packet, 7);
      assert.ok(packet.subarray(7).equals(bytes(offset, offset + length)));
    }
    released = Math.min(end, released + random(20_000));
    queue.release(released);
    assert.equal(queue.start, released);
  }
  queue.push(bytes(end, end + 10));
  const packet = Buffer.alloc(10);
  queue.copy(end, 10, packet, 0);
  assert.deepEqual(packet, bytes(end, end + 10));
});

test('a deque is a queue', () => {
  const deque = new Deque<number>();
  const reference: number[] = [];
  const random = seededRandom(3);
  for (let i = 0; i < 20_000; i++) {
    if (random(100) < (i < 10_000 ? 60 : 40)) {
      deque.push(i);
      reference.push(i);
    } else assert.equal(deque.shift(), reference.shift());
    assert.equal(deque.length, reference.length);
    assert.equal(deque.first, reference[0]);
    assert.equal(deque.last, reference.at(-1));
    assert.equal(deque.at(3), reference[3]);
  }
  assert.deepEqual([...deque], reference);
});
