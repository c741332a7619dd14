import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { create, toBinary } from '@bufbuild/protobuf';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { AcquiredJobSchema, ProvisionerDaemon, UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { byteStreamPair, eventually, fromHex, Inbox, socketPair } from '../testing/sockets.ts';
import { YamuxSession } from '../yamux/index.ts';
import { decodeMetadata, encodeMetadata, encodePacket, KIND } from './frames.ts';
import {
  createDrpcClient,
  type DrpcContext,
  DrpcError,
  type DrpcHandlers,
  implement,
  type ServeDrpcOptions,
  serveDrpc,
} from './index.ts';

type Handlers = DrpcHandlers<typeof ProvisionerDaemon>;

const ACQUIRE =
  '030101342f70726f766973696f6e6572642e50726f766973696f6e65724461656d6f6e2f416371756972654a6f625769746843616e63656c';
const PREFIX = '/provisionerd.ProvisionerDaemon/';

/** A server whose caller is a raw socket. */
async function rawCaller(
  t: TestContext,
  handlers: Handlers,
  options: ServeDrpcOptions = {},
): Promise<{ peer: Duplex; inbox: Inbox; served: Duplex }> {
  const [near, far] = await socketPair(t);
  serveDrpc(near, [implement(ProvisionerDaemon, handlers)], options);
  return { peer: far, inbox: new Inbox(far), served: near };
}

/** A client whose server is a raw socket. */
async function rawServer(t: TestContext) {
  const [near, far] = await socketPair(t);
  const client = createDrpcClient(ProvisionerDaemon, () => near);
  return { client, peer: far, inbox: new Inbox(far), near };
}

function packet(kind: number, messageId: number, data: Uint8Array | string = '', streamId = 1): Buffer {
  return Buffer.concat(encodePacket(kind, streamId, messageId, Buffer.from(data as string)));
}

function call(name: string, request: Uint8Array = Buffer.alloc(0), streamId = 1): Buffer {
  return Buffer.concat([
    packet(KIND.invoke, 1, PREFIX + name, streamId),
    packet(KIND.message, 2, request, streamId),
    packet(KIND.closeSend, 3, '', streamId),
  ]);
}

/** A client and a server over WebSocket and yamux, all on real sockets. */
async function whole(t: TestContext, handlers: Handlers, options: ServeDrpcOptions = {}) {
  const [near, far] = await byteStreamPair(t);
  const daemon = new YamuxSession(near, { role: 'client' });
  const server = new YamuxSession(far, { role: 'server' });
  t.after(() => {
    daemon.destroy();
    server.destroy();
  });
  serveDrpc(server, [implement(ProvisionerDaemon, handlers)], options);
  return { client: createDrpcClient(ProvisionerDaemon, () => daemon.openStream()), daemon, server };
}

test("a unary call sends upstream's bytes on both sides", async (t) => {
  const { client, peer, inbox } = await rawServer(t);
  const answer = client.updateJob({ jobId: 'j' });
  const name = Buffer.from('/provisionerd.ProvisionerDaemon/UpdateJob');
  assert.equal(await inbox.hex(4 + name.length), `030101${name.length.toString(16)}${name.toString('hex')}`);
  assert.equal(await inbox.hex(4 + 3), '050102030a016a');
  assert.equal(await inbox.hex(4), '0d010300');
  peer.write(fromHex('0501010c1a0a0a027631120464666c74 0d010200'));
  const response = await answer;
  assert.equal(response.variableValues[0]?.value, 'dflt');
  assert.equal(await inbox.hex(4), '0b010400');
  assert.equal((await inbox.rest()).length, 0, 'the stream ends');

  const caller = await rawCaller(t, { updateJob: () => ({ variableValues: [{ name: 'v1', value: 'dflt' }] }) });
  caller.peer.write(call('UpdateJob'));
  assert.equal(await caller.inbox.hex(16 + 4), '0501010c1a0a0a027631120464666c740d010200');
  caller.peer.end(packet(KIND.close, 4));
  assert.equal((await caller.inbox.rest()).length, 0);
});

test('AcquireJobWithCancel: one job or the empty job after a cancel, then Close', async (t) => {
  const seen: string[] = [];
  const handlers: Handlers = {
    async *acquireJobWithCancel(requests, ctx) {
      ctx.endWithClose();
      seen.push('begun');
      for await (const _ of requests) {
        seen.push('cancel');
        yield {};
        return;
      }
    },
  };
  const { peer, inbox } = await rawCaller(t, handlers);
  peer.write(fromHex(ACQUIRE));
  await eventually(() => seen.length === 1, 'begun');
  peer.write(fromHex('05010200'));
  assert.equal(await inbox.hex(8), '050101000b010200');
  assert.deepEqual(seen, ['begun', 'cancel']);

  const raw = await rawServer(t);
  const acquire = raw.client.acquireJobWithCancel();
  assert.equal(await raw.inbox.hex(56), ACQUIRE);
  const job = toBinary(AcquiredJobSchema, create(AcquiredJobSchema, { jobId: 'x'.repeat(3_000) }));
  raw.peer.write(Buffer.concat([packet(KIND.message, 1, job), fromHex('0b010200')]));
  assert.equal((await acquire.receive())?.jobId.length, 3_000);
  assert.equal(await acquire.receive(), undefined);
  // Nothing was sent in the meantime, in particular no CloseSend.
  assert.equal((await raw.inbox.rest()).toString('hex'), '0b010200');
});

test('handles empty messages, errors with and without a code, and unknown names', async (t) => {
  const errors: string[] = [];
  const options = { onError: (err: unknown, method: string) => errors.push(`${method}: ${(err as Error).message}`) };
  const { peer, inbox } = await rawCaller(
    t,
    {
      completeJob: () => ({}),
      failJob: () => {
        throw new Error('boom');
      },
      commitQuota: () => {
        throw new DrpcError('not now', 7);
      },
    },
    options,
  );
  // One after another on one transport, as DRPC allows.
  peer.write(call('CompleteJob'));
  assert.equal(await inbox.hex(8), '050101000d010200');
  peer.write(call('FailJob', undefined, 2));
  assert.equal(await inbox.hex(16), '0702010c0000000000000000626f6f6d');
  peer.write(call('CommitQuota', undefined, 3));
  assert.equal(await inbox.hex(19), '0703010f00000000000000076e6f74206e6f77');
  peer.write(call('UpdateJob', undefined, 4));
  assert.equal(String((await inbox.take(4 + 8 + 13)).subarray(11)), '\x0cUnimplemented');
  peer.write(call('Nope', undefined, 5));
  const unknown = `protocol error: unknown rpc: "${PREFIX}Nope"`;
  const answer = await inbox.take(4 + 8 + unknown.length);
  assert.equal(answer.subarray(4, 12).readBigUInt64BE(0), 0n);
  assert.equal(String(answer.subarray(12)), unknown);
  assert.equal(errors.length, 4);
  assert.equal(errors[0], `${PREFIX}FailJob: boom`);

  const { client, peer: server } = await rawServer(t);
  const failed = client.failJob({});
  server.write(fromHex('0701010c0000000000000000626f6f6d'));
  await assert.rejects(failed, { name: 'DrpcError', message: 'boom', code: 0 });
});

test('splits a message over 64 KiB and joins it again', async (t) => {
  const { client, inbox } = await rawServer(t);
  const readme = new Uint8Array(150_000).fill(65);
  const size = toBinary(UpdateJobRequestSchema, create(UpdateJobRequestSchema, { readme })).length;
  client.updateJob({ readme }).catch(() => {});
  await inbox.take(4 + '/provisionerd.ProvisionerDaemon/UpdateJob'.length);
  for (const [control, length] of [
    ['04', 65_536],
    ['04', 65_536],
    ['05', size - 131_072],
  ] as const) {
    const head = Buffer.concat([fromHex(`${control}0102`), varint(length)]);
    assert.equal(await inbox.hex(head.length), head.toString('hex'));
    await inbox.take(length);
  }
  assert.equal(await inbox.hex(4), '0d010300');

  let got = 0;
  const caller = await rawCaller(t, {
    updateJob: (request) => {
      got = request.readme.length;
      return {};
    },
  });
  const bytes = call('UpdateJob', toBinary(UpdateJobRequestSchema, create(UpdateJobRequestSchema, { readme })));
  for (let at = 0; at < bytes.length; at += 10_007) caller.peer.write(bytes.subarray(at, at + 10_007));
  assert.equal(await caller.inbox.hex(8), '050101000d010200');
  assert.equal(got, 150_000);
});

function varint(value: number): Buffer {
  const out: number[] = [];
  let rest = value;
  for (; rest > 127; rest >>>= 7) out.push((rest & 127) | 128);
  return Buffer.from([...out, rest]);
}

const invoke = packet(KIND.invoke, 1, `${PREFIX}UpdateJob`);
const fatal: [name: string, bytes: Buffer][] = [
  ['an id that decreases', Buffer.concat([invoke, packet(KIND.message, 3), packet(KIND.closeSend, 2)])],
  ['a repeated id', Buffer.concat([invoke, packet(KIND.message, 1)])],
  ['a stream id of zero', packet(KIND.invoke, 1, 'x', 0)],
  ['a message id of zero', packet(KIND.invoke, 0, 'x')],
  ['a kind that changes inside a packet', Buffer.concat([invoke, fromHex('04010201aa 0d010200')])],
  ['a message over 4 MiB in one frame', Buffer.concat([invoke, fromHex('050102'), varint(4_194_305)])],
  [
    'a message over 4 MiB in many frames',
    Buffer.concat([
      invoke,
      ...Array.from({ length: 64 }, () => Buffer.concat([fromHex('04010280 8004'), Buffer.alloc(65_536)])),
      fromHex('04010201'),
    ]),
  ],
  ['an overlong number', fromHex('0380808080808080808080808001')],
  ['a number beyond 2^53', fromHex('03ffffffffffffffff7f')],
  ['a second invoke on a stream', Buffer.concat([invoke, packet(KIND.invoke, 2, 'x')])],
  ['a message before any invoke', packet(KIND.message, 1)],
  ['an unknown kind', Buffer.concat([invoke, fromHex('15010200')])],
  ['malformed metadata', packet(KIND.invokeMetadata, 1, 'zzz')],
];
for (const [name, bytes] of fatal) {
  test(`${name} ends the transport`, async (t) => {
    const { peer, inbox, served } = await rawCaller(t, { updateJob: () => new Promise(() => {}) });
    peer.write(bytes);
    await inbox.rest();
    await eventually(() => served.closed, 'closed');
    assert.ok(served.errored instanceof DrpcError);
  });
}

test('a newer message discards a partial one, and an unknown control packet is ignored', async (t) => {
  const { peer, inbox } = await rawCaller(t, { updateJob: (request) => ({ canceled: request.jobId === 'j' }) });
  peer.write(Buffer.concat([invoke, fromHex('04010205 6161616161'), fromHex('95010300'), fromHex('050104030a016a')]));
  assert.equal(await inbox.hex(10), '050101020801' + '0d010200');
});

test('a call whose session ends as it begins fails immediately', async (t) => {
  for (const ended of ['before', 'in the same turn', 'in the next microtask'] as const) {
    const [near] = await byteStreamPair(t);
    const session = new YamuxSession(near, { role: 'client' });
    const client = createDrpcClient(ProvisionerDaemon, () => {
      const stream = session.openStream();
      if (ended === 'before') stream.destroy();
      return stream;
    });
    const call = client.updateJob({ jobId: 'j' }, { timeoutMs: 60_000 });
    if (ended === 'in the same turn') session.destroy();
    if (ended === 'in the next microtask') queueMicrotask(() => session.destroy());
    const from = performance.now();
    await assert.rejects(call, /closed|ended/, ended);
    assert.ok(performance.now() - from < 20_000, ended);
    session.destroy();
  }
});

test('limits what all calls of a peer hold, rejects the call beyond it, and frees everything in the end', async (t) => {
  const begun = new Map<string, () => void>();
  const { client, daemon } = await whole(
    t,
    {
      updateJob: async ({ jobId }) => {
        if (jobId.startsWith('slow')) await new Promise<void>((resolve) => begun.set(jobId.slice(0, 5), resolve));
        return {};
      },
    },
    { maxHeldBytes: 1_000 },
  );
  const long = (name: string) => client.updateJob({ jobId: name.padEnd(600, '.') });
  const taken = (name: string) =>
    long(name).then(
      () => true,
      () => false,
    );
  const fits = () => eventually(() => taken('fits'), 'there is room again');
  const refused = (name: string) => assert.rejects(long(name), /the peer dropped stream/);
  await long('first');

  const slow = long('slow1');
  await eventually(() => begun.has('slow1'), 'the handler runs');
  await refused('while a handler has 600');
  begun.get('slow1')!();
  await slow;
  await fits();

  const partial = daemon.openStream();
  partial.write(packet(KIND.invoke, 1, `${PREFIX}UpdateJob`));
  // 600 bytes of 700
  partial.write(Buffer.concat([fromHex('040102bc05'), Buffer.alloc(600)]));
  await eventually(async () => !(await taken('look')), 'they have arrived');
  partial.destroy();
  await fits();

  const canceled = new AbortController();
  const left = client.updateJob({ jobId: 'slow2'.padEnd(600, '.') }, { signal: canceled.signal });
  await eventually(() => begun.has('slow2'), 'the handler runs');
  canceled.abort();
  await assert.rejects(left);
  await refused('while the handler of a canceled call still has 600');
  begun.get('slow2')!();
  await fits();
});

test('metadata reaches the handler, encoded as a protobuf map', async (t) => {
  assert.equal(encodeMetadata({ k: 'vv' }).toString('hex'), '0a070a016b12027676');
  assert.deepEqual(
    { ...decodeMetadata(encodeMetadata({ a: '1', b: 'x'.repeat(300) })) },
    { a: '1', b: 'x'.repeat(300) },
  );
  const { client } = await whole(t, {
    updateJob: (_request, ctx) => ({ variableValues: [{ name: String(ctx.metadata['traceparent']) }] }),
  });
  const response = await client.updateJob({}, { metadata: { traceparent: '00-ab' } });
  assert.equal(response.variableValues[0]?.name, '00-ab');
  assert.equal((await client.updateJob({})).variableValues[0]?.name, 'undefined');
});

test('end to end: unary calls with a waiting acquire, uploads with backpressure, no stream left over', async (t) => {
  let uploaded = 0;
  let give: () => void = () => {};
  const wait = new Promise<void>((resolve) => {
    give = resolve;
  });
  const { client, daemon, server } = await whole(t, {
    async *acquireJobWithCancel(_requests, ctx) {
      ctx.endWithClose();
      await wait;
      yield { jobId: 'job', type: { case: 'templateImport', value: { metadata: { coderUrl: 'u' } } } };
    },
    updateJob: (request) => ({ canceled: request.jobId === 'job' }),
    uploadFile: async (requests) => {
      for await (const { type } of requests) if (type.case === 'chunkPiece') uploaded += type.value.data.length;
      return {};
    },
  });
  const acquire = client.acquireJobWithCancel();
  const updates = await Promise.all(Array.from({ length: 20 }, () => client.updateJob({ jobId: 'job' })));
  assert.ok(updates.every((update) => update.canceled));
  const upload = client.uploadFile();
  for (let i = 0; i < 5; i++) {
    await upload.send({ type: { case: 'chunkPiece', value: { data: new Uint8Array(2_097_152), pieceIndex: i } } });
  }
  await upload.closeSend();
  assert.ok(await upload.receive());
  assert.equal(uploaded, 5 * 2_097_152);
  give();
  const jobs: string[] = [];
  for await (const job of acquire.responses) jobs.push(`${job.jobId} ${job.type.case}`);
  assert.deepEqual(jobs, ['job templateImport']);
  await eventually(() => daemon.streamCount + server.streamCount === 0, 'no stream left');
});

test('a caller that cancels, times out or disconnects aborts the handler, which is not reported as an error', async (t) => {
  const aborted: unknown[] = [];
  const errors: unknown[] = [];
  const hang = (ctx: DrpcContext) =>
    new Promise<never>((_resolve, reject) => {
      ctx.signal.addEventListener('abort', () => {
        aborted.push(ctx.signal.reason);
        reject(ctx.signal.reason);
      });
    });
  const { client, daemon, server } = await whole(
    t,
    {
      updateJob: (_request, ctx) => hang(ctx),
      async *acquireJobWithCancel(_requests, ctx) {
        yield {};
        await hang(ctx);
      },
    },
    { onError: (err) => errors.push(err) },
  );
  const reason = new Error('enough');
  const abort = new AbortController();
  const canceled = client.updateJob({}, { signal: abort.signal });
  await client.failJob({}).catch(() => {});
  abort.abort(reason);
  await assert.rejects(canceled, reason);
  await eventually(() => aborted.length === 1, 'the first');
  await assert.rejects(client.updateJob({}, { timeoutMs: 500 }), /no answer within 500 ms/);
  await eventually(() => aborted.length === 2, 'the second');
  const acquire = client.acquireJobWithCancel();
  assert.ok(await acquire.receive());
  acquire.cancel();
  await assert.rejects(acquire.receive(), /was canceled/);
  await eventually(() => aborted.length === 3, 'the third');
  await assert.rejects(client.updateJob({}, { signal: AbortSignal.abort(reason) }), reason);
  const last = client.updateJob({});
  last.catch(() => {});
  await eventually(() => server.streamCount === 1, 'arrived');
  daemon.destroy();
  await assert.rejects(last);
  await eventually(() => aborted.length === 4, 'the fourth');
  assert.equal(errors.length, 1, 'only the method that is not implemented');
});

test('a stream that cannot be opened and an oversized message fail the call', async (t) => {
  const client = createDrpcClient(ProvisionerDaemon, () => Promise.reject(new Error('no stream')));
  await assert.rejects(client.updateJob({}), /no stream/);
  await assert.rejects(client.acquireJobWithCancel().receive(), /no stream/);
  const { client: real } = await whole(t, {
    updateJob: () => ({ variableValues: [{ value: 'x'.repeat(5_000_000) }] }),
  });
  await assert.rejects(real.updateJob({ readme: new Uint8Array(4_194_305) }), { code: 8 });
  await assert.rejects(real.updateJob({}), { code: 8 });
});

test('a server stream blocks its producer while the caller does not read', async (t) => {
  const [near, far] = await byteStreamPair(t);
  const daemon = new YamuxSession(near, { role: 'client' });
  const server = new YamuxSession(far, { role: 'server' });
  t.after(() => {
    daemon.destroy();
    server.destroy();
  });
  let made = 0;
  let ended = false;
  serveDrpc(server, [
    implement(JobControl, {
      async *watch() {
        try {
          for (; made < 10_000; made++) yield { jobId: 'x'.repeat(10_000) };
        } finally {
          ended = true;
        }
      },
    }),
  ]);
  const watch = createDrpcClient(JobControl, () => daemon.openStream()).watch({});
  assert.equal((await watch.receive())?.jobId.length, 10_000);
  for (let i = 0; i < 20; i++) await daemon.ping();
  assert.ok(made < 500, `the producer made ${made} messages for a caller that reads nothing`);
  let read = 1;
  for await (const _ of watch.responses) if (++read === 1_000) break;
  assert.ok(made >= 1_000);
  await eventually(() => ended, 'the producer ends when the caller leaves its loop');
});

test('a newer call on a transport ends the older one', async (t) => {
  const reasons: string[] = [];
  let begun = 0;
  const { peer, inbox } = await rawCaller(t, {
    updateJob: (_request, ctx) =>
      new Promise((_resolve, reject) => {
        begun++;
        ctx.signal.addEventListener('abort', () => {
          reasons.push(String(ctx.signal.reason));
          reject(ctx.signal.reason);
        });
      }),
    completeJob: () => ({}),
  });
  peer.write(call('UpdateJob'));
  await eventually(() => begun === 1, 'begun');
  peer.write(call('CompleteJob', undefined, 2));
  assert.equal(await inbox.hex(8), '050201000d020200');
  assert.match(reasons[0]!, /another call/);
  // A call that was replaced before it began never begins.
  peer.write(Buffer.concat([call('UpdateJob', undefined, 3), call('CompleteJob', undefined, 4)]));
  assert.equal(await inbox.hex(8), '050401000d040200');
  assert.equal(begun, 1);
  const closed = once(peer, 'end');
  peer.end();
  await closed;
});
