import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import {
  type CoordinateResponse_PeerUpdate,
  CoordinateResponse_PeerUpdateSchema,
  CoordinateResponse_PeerUpdate_Kind as Kind,
} from '@ropewalk/wire/proto/tailnet';
import { ResponseQueue } from './responses.ts';

const { NODE, LOST, DISCONNECTED, READY_FOR_HANDSHAKE: READY } = Kind;
const update = (kind: Kind, reason = ''): CoordinateResponse_PeerUpdate =>
  create(CoordinateResponse_PeerUpdateSchema, { kind, reason });

/** Everything that waits: one text per response. */
async function drain(queue: ResponseQueue): Promise<string[]> {
  queue.end();
  const responses: string[] = [];
  for await (const { error, peerUpdates } of queue)
    responses.push(error || peerUpdates.map(({ kind, reason }) => `${Kind[kind]} ${reason}`.trim()).join(', '));
  return responses;
}

test('of the updates about a peer the newest waits, at the place of the first', async () => {
  const queue = new ResponseQueue(10);
  for (const [name, kind, reason] of [
    ['a', NODE, 'a1'],
    ['b', NODE, 'b1'],
    ['a', READY, 'a'],
    ['a', NODE, 'a2'],
    ['b', LOST, 'b2'],
    ['a', READY, 'a'],
    ['b', NODE, 'b3'],
    ['c', READY, 'c'],
    ['c', DISCONNECTED, 'c1'],
  ] as const) {
    queue.startBatch();
    queue.update(name, update(kind, reason));
  }
  assert.equal(queue.length, 4);
  assert.deepEqual(await drain(queue), ['NODE a2', 'NODE b3', 'READY_FOR_HANDSHAKE a', 'DISCONNECTED c1']);
});

test('an end cancels an introduction that was not read', async () => {
  const queue = new ResponseQueue(10);
  queue.update('a', update(NODE), true);
  queue.update('a', update(READY));
  queue.update('a', update(NODE));
  queue.update('a', update(DISCONNECTED));
  assert.equal(queue.length, 0);
  queue.update('a', update(LOST));
  queue.update('a', update(NODE), true);
  queue.update('a', update(DISCONNECTED));
  assert.deepEqual(await drain(queue), ['DISCONNECTED']);
});

test('errors and ends are limited, nodes are not', async () => {
  const queue = new ResponseQueue(2);
  for (let i = 0; i < 100; i++) assert.equal(queue.update(`${i}`, update(NODE)), true);
  assert.equal(queue.error('e'), true);
  assert.equal(queue.update('0', update(LOST)), true);
  assert.equal(queue.error('full'), false);
  assert.equal(queue.update('x', update(LOST)), false);
  assert.equal(queue.update('0', update(NODE)), true);
  assert.equal(queue.error('f'), true, 'a node replaced an end');
  const responses = await drain(queue);
  assert.deepEqual([responses[0]!.split(', ').length, ...responses.slice(1)], [100, 'e', 'f']);
});

test('a batch is one response, and updates of separate batches are separate until the reader lags', async () => {
  const queue = new ResponseQueue(10);
  for (let i = 0; i < 64; i++) {
    if (i !== 1) queue.startBatch();
    queue.update(`${i}`, update(NODE));
  }
  assert.deepEqual((await drain(queue)).slice(0, 2), ['NODE, NODE', 'NODE']);
  const lagging = new ResponseQueue(10);
  for (let i = 0; i < 2_000; i++) {
    lagging.startBatch();
    lagging.update(`${i}`, update(NODE));
  }
  assert.deepEqual(
    (await drain(lagging)).map((text) => text.split(', ').length),
    [1_024, 976],
  );
});

test('nothing is added after the end', async () => {
  const queue = new ResponseQueue(1);
  queue.update('a', update(NODE));
  queue.end();
  queue.error('e');
  queue.update('b', update(NODE));
  assert.deepEqual(await drain(queue), ['NODE']);
});
