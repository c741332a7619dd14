// own process: measures its memory

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { Box } from '../box.ts';
import { KeyPair } from '../keys.ts';
import { derpVectors } from '../testing/derp.ts';
import { fromHex, hex, vectors } from '../testing/vectors.ts';
import {
  DerpError,
  DerpFrameReader,
  decodeClientInfo,
  decodePacket,
  decodePeerGone,
  decodePing,
  decodeRestarting,
  decodeServerInfo,
  decodeServerKey,
  encodeClientInfo,
  encodeFrame,
  encodePeerGone,
  encodeRestarting,
  encodeSend,
  encodeServerInfo,
  encodeServerKey,
  FRAME,
  GONE,
  HEADER_BYTES,
  MAX_PACKET_BYTES,
  turnIntoReceive,
} from './frames.ts';

const { server, a, b, mesh } = derpVectors;

function framesOf(...chunks: Buffer[]): { type: number; frame: Buffer }[] {
  const frames: { type: number; frame: Buffer }[] = [];
  const reader = new DerpFrameReader((type, frame) => frames.push({ type, frame }));
  for (const chunk of chunks) reader.push(chunk);
  return frames;
}

const first = (side: typeof a, type: number) => side.frames.find((entry) => entry.frame[0] === type)!.frame;

test('the recorded sign-ins open, and encode to frames of the same form', () => {
  assert.equal(hex(encodeServerKey(server.publicKey)), hex(first(a, FRAME.serverKey)));
  for (const side of [a, b, mesh]) {
    assert.equal(hex(decodeServerKey(first(side, FRAME.serverKey))), hex(server.publicKey));
    const { key, info } = decodeClientInfo(server, first(side, FRAME.clientInfo));
    assert.equal(hex(key), hex(side.pair.publicKey));
    const box = Box.between(side.pair, server.publicKey)!;
    assert.deepEqual(decodeServerInfo(box, first(side, FRAME.serverInfo)), {});
    const own = decodeClientInfo(server, encodeClientInfo(side.pair.publicKey, box, info));
    assert.deepEqual(own.info, info);
    assert.equal(encodeServerInfo(own.box, {}).length, first(side, FRAME.serverInfo).length);
  }
  const { info, box } = decodeClientInfo(server, first(b, FRAME.clientInfo));
  assert.deepEqual(info, { canAckPings: false, isProber: false });
  assert.equal(encodeClientInfo(b.pair.publicKey, box, info).length, first(b, FRAME.clientInfo).length);
  assert.deepEqual(decodeClientInfo(server, first(a, FRAME.clientInfo)).info.canAckPings, true);
});

test('limits of the relay and the mark of a prober are read back', () => {
  const box = Box.between(a.pair, server.publicKey)!;
  const limits = { bytesPerSecond: 1000, burstBytes: 2000 };
  assert.deepEqual(decodeServerInfo(box, encodeServerInfo(box, limits)), limits);
  const frame = encodeClientInfo(a.pair.publicKey, box, { canAckPings: true, isProber: true });
  assert.deepEqual(decodeClientInfo(server, frame).info, { canAckPings: true, isProber: true });
});

test('a frame that sends becomes the recorded one that its destination receives, in place', () => {
  const sent = Buffer.from(first(a, FRAME.send));
  const received = first(b, FRAME.receive);
  const { key, packet } = decodePacket(sent);
  assert.equal(hex(encodeSend(key, packet)), hex(sent));
  assert.equal(hex(key), hex(b.pair.publicKey));
  turnIntoReceive(sent, a.pair.publicKey);
  assert.equal(hex(sent), hex(received));
  assert.throws(() => encodeSend(key, Buffer.alloc(MAX_PACKET_BYTES + 1)), RangeError);
});

test('frames about peers, pings and restarts match the recorded ones', () => {
  const gone = first(a, FRAME.peerGone);
  const { key, reason } = decodePeerGone(gone);
  assert.equal(reason, GONE.notHere);
  assert.equal(hex(encodePeerGone(key, reason)), hex(gone));
  assert.equal(decodePeerGone(encodeFrame(FRAME.peerGone, key)).reason, GONE.disconnected);
  assert.equal(hex(decodePing(first(a, FRAME.ping))), '0102030405060708');
  assert.equal(hex(encodeFrame(FRAME.pong, decodePing(first(a, FRAME.ping)))), hex(first(a, FRAME.pong)));
  const restart = { reconnectInMs: 500, tryForMs: 60_000 };
  assert.equal(hex(encodeRestarting(restart)), '1500000008000001f40000ea60');
  assert.deepEqual(decodeRestarting(encodeRestarting(restart)), restart);
});

test('the sessions of upstream programs have only frames that are known and within the limits', () => {
  const sessions = vectors<{ events: { frame?: number; len: number; hex?: string }[] }[]>('derp-sessions');
  const types = new Set<number>();
  for (const { events } of sessions)
    for (const { frame: type, len, hex: payload } of events) {
      if (type === undefined) continue; // the end of a stream
      const frame = encodeFrame(type, payload === undefined ? Buffer.alloc(len) : fromHex(payload));
      assert.equal(frame.length, HEADER_BYTES + len);
      assert.equal(framesOf(frame).length, 1, `frame ${type}`);
      types.add(type);
    }
  assert.ok(types.size >= 6, [...types].join());
});

test('a frame within one piece is a view of it, and joined frames are equal', () => {
  const whole = Buffer.concat(a.frames.map(({ frame }) => frame));
  const views = framesOf(whole);
  assert.ok(views.every(({ frame }) => frame.buffer === whole.buffer));
  assert.deepEqual(
    views.map(({ frame }) => hex(frame)),
    a.frames.map(({ frame }) => hex(frame)),
  );
  for (const size of [1, 2, 4, 5, 6, 7, 36, 37, 38, 100]) {
    const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
      whole.subarray(i * size, (i + 1) * size),
    );
    assert.deepEqual(
      framesOf(...pieces).map(({ frame }) => hex(frame)),
      views.map(({ frame }) => hex(frame)),
      `${size}`,
    );
  }
});

test('unknown types are skipped, however they are cut, and long frames are rejected', () => {
  const unknown = encodeFrame(0x77, Buffer.alloc(100_000, 0xee));
  const ping = encodeFrame(FRAME.ping, Buffer.alloc(8));
  const empty = encodeFrame(0x78);
  const input = Buffer.concat([unknown, ping, empty, ping, encodeFrame(FRAME.keepAlive), ping]);
  for (const size of [1, 3, 1_000, input.length]) {
    const pieces = Array.from({ length: Math.ceil(input.length / size) }, (_, i) =>
      input.subarray(i * size, (i + 1) * size),
    );
    assert.deepEqual(
      framesOf(...pieces).map(({ type }) => type),
      [FRAME.ping, FRAME.ping, FRAME.keepAlive, FRAME.ping],
    );
  }
  for (const header of ['77ffffffff', '0400010021', '0600000001', '0200010000']) {
    assert.throws(() => framesOf(fromHex(header)), { name: 'DerpError', code: 'protocol' }, header);
    assert.throws(() => framesOf(fromHex(header.slice(0, 4)), fromHex(header.slice(4))), DerpError, header);
  }
  assert.equal(framesOf(encodeSend(Buffer.alloc(32), Buffer.alloc(MAX_PACKET_BYTES))).length, 1);
});

test('a reader that its receiver stops delivers nothing more', () => {
  let count = 0;
  const reader = new DerpFrameReader(() => {
    count++;
    reader.stop();
  });
  reader.push(Buffer.concat([encodeFrame(FRAME.keepAlive), encodeFrame(FRAME.keepAlive)]));
  reader.push(encodeFrame(FRAME.keepAlive));
  assert.equal(count, 1);
});

test('a length that a header only announces takes no memory', () => {
  const before = process.memoryUsage().arrayBuffers;
  const readers = Array.from({ length: 2_000 }, () => {
    const reader = new DerpFrameReader(() => {});
    reader.push(fromHex('0400010020aa'));
    return reader;
  });
  const grown = process.memoryUsage().arrayBuffers - before;
  assert.ok(grown < readers.length * 2_048, `${grown} bytes for ${readers.length} readers`);
});

test('arbitrary and damaged frames cause no error except DerpError', () => {
  const decoders = [
    decodePacket,
    decodeServerKey,
    decodePeerGone,
    decodePing,
    decodeRestarting,
    (frame: Buffer) => decodeClientInfo(server, frame),
    (frame: Buffer) => decodeServerInfo(Box.between(a.pair, server.publicKey)!, frame),
  ];
  let rejected = 0;
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom(seed);
    const input = Buffer.concat([...a.frames, ...b.frames].map(({ frame }) => frame));
    for (let flips = random(20); flips > 0; flips--) input[random(input.length)]! ^= 1 << random(8);
    const attempt = (action: () => void) => {
      try {
        action();
      } catch (err) {
        assert.ok(err instanceof DerpError, `seed ${seed}: ${(err as Error).stack}`);
        rejected++;
      }
    };
    const reader = new DerpFrameReader((_type, frame) => {
      for (const decode of decoders) attempt(() => decode(frame));
    });
    attempt(() => {
      for (let at = 0; at < input.length; ) {
        const size = 1 + random(300);
        reader.push(Buffer.from(input.subarray(at, at + size)));
        at += size;
      }
    });
  }
  assert.ok(rejected > 1_000, `${rejected}`);
});

test('a sign-in with content other than a JSON object is rejected', () => {
  const box = Box.between(KeyPair.generate(), server.publicKey)!;
  for (const text of ['', '[]', 'null', '7', '{', '"x"'])
    assert.throws(() => decodeServerInfo(box, encodeFrame(FRAME.serverInfo, box.seal(Buffer.from(text)))), {
      code: 'protocol',
    });
});
