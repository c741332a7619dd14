// own process: measures its memory

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import { DrpcDecoder, DrpcError, encodeMetadata, encodePacket, KIND } from './drpc/frames.ts';
import { implement, serveDrpc } from './drpc/index.ts';
import { eventually, seededRandom, socketPair } from './testing/sockets.ts';
import { encodeFrame, FrameParser, OP, WebSocketProtocolError } from './websocket/frames.ts';
import { encodeHeader, YamuxError, YamuxParser } from './yamux/frames.ts';
import { YamuxSession, type YamuxStream } from './yamux/index.ts';

// Arbitrary bytes give a defined error or wait for more. They never cause a hang, another error, or memory that grows
// with a header's announced length. A failure's message contains the seed.

const SEEDS = 300;
const LIMIT = 64 * 1024;

interface Subject {
  name: string;
  /** A sequence of well-formed frames. */
  valid(random: (below: number) => number): Buffer;
  /** A new decoder, which returns the number of delivered bytes. */
  decoder(): { push(chunk: Buffer): void; delivered(): number };
  expected: new (...args: never[]) => Error;
}

function bytes(random: (below: number) => number, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random(256)));
}

const subjects: Subject[] = [
  {
    name: 'WebSocket',
    valid: (random) => {
      const out: Uint8Array[] = [];
      for (let i = 0; i < 6; i++) {
        const opcode = [OP.text, OP.binary, OP.ping, OP.pong][random(4)]!;
        const payload = bytes(random, opcode >= 8 ? random(126) : random(3) === 0 ? 9_000 : random(300));
        out.push(...encodeFrame(opcode, [payload], true).map((buffer) => Buffer.from(buffer.bytes)));
      }
      return Buffer.concat(out);
    },
    decoder: () => {
      let count = 0;
      const parser = new FrameParser(true, {
        data: (_opcode, payload) => {
          count += payload.length;
        },
        control: (_opcode, payload) => {
          assert.ok(payload.length <= 125);
          count += payload.length;
        },
      });
      return { push: (chunk) => parser.push(chunk), delivered: () => count };
    },
    expected: WebSocketProtocolError,
  },
  {
    name: 'yamux',
    valid: (random) => {
      const out: Buffer[] = [];
      for (let i = 0; i < 6; i++) {
        const payload = bytes(random, random(200));
        if (random(2)) out.push(encodeHeader(0, random(16), random(9), payload.length), payload);
        else out.push(encodeHeader(1 + random(3), random(16), random(9), random(1_000_000)));
      }
      return Buffer.concat(out);
    },
    decoder: () => {
      let count = 0;
      const parser = new YamuxParser({
        header: () => {
          count += 12;
        },
        payload: (piece) => {
          count += piece.length;
        },
      });
      return { push: (chunk) => parser.push(chunk), delivered: () => count };
    },
    expected: YamuxError,
  },
  {
    name: 'DRPC',
    valid: (random) => {
      const out: Uint8Array[] = [];
      let message = 1;
      const add = (kind: number, data: Uint8Array) => out.push(...encodePacket(kind, 1, message++, data));
      add(KIND.invokeMetadata, encodeMetadata({ a: 'b' }));
      add(KIND.invoke, Buffer.from('/x/Y'));
      for (let i = 0; i < 5; i++) add(KIND.message, bytes(random, random(5) === 0 ? 9_000 : random(300)));
      add(KIND.closeSend, Buffer.alloc(0));
      return Buffer.concat(out);
    },
    decoder: () => {
      let count = 0;
      let held = 0;
      const taken = (packet: { data: Buffer }) => {
        assert.ok(packet.data.length <= LIMIT);
        assert.equal(held, 0, 'a complete packet belongs to its reader');
        count += packet.data.length;
      };
      const take = (bytes: number) => {
        held += bytes;
        assert.ok(held <= LIMIT);
      };
      const give = (bytes: number) => {
        held -= bytes;
      };
      const decoder = new DrpcDecoder(LIMIT, taken, { take, give });
      const delivered = () => {
        decoder.close();
        assert.equal(held, 0, 'nothing is held any more');
        return count;
      };
      return { push: (chunk) => decoder.push(chunk), delivered };
    },
    expected: DrpcError,
  },
];

function feed(
  subject: Subject,
  input: Buffer,
  random: (below: number) => number,
): { delivered: number; failed: boolean } {
  const decoder = subject.decoder();
  try {
    for (let at = 0; at < input.length; ) {
      const size = 1 + random(random(2) ? 7 : 5_000);
      decoder.push(Buffer.from(input.subarray(at, at + size)));
      at += size;
    }
    return { delivered: decoder.delivered(), failed: false };
  } catch (err) {
    assert.ok(err instanceof subject.expected, String((err as Error).stack));
    return { delivered: decoder.delivered(), failed: true };
  }
}

for (const subject of subjects) {
  test(`${subject.name}: well-formed bytes decode the same, however they are cut`, () => {
    for (let seed = 1; seed <= 40; seed++) {
      const input = subject.valid(seededRandom(seed));
      const whole = subject.decoder();
      whole.push(Buffer.from(input));
      const cut = feed(subject, input, seededRandom(seed * 31));
      assert.deepEqual(cut, { delivered: whole.delivered(), failed: false }, `seed ${seed}`);
    }
  });

  test(`${subject.name}: arbitrary, damaged and truncated bytes end cleanly`, () => {
    let failures = 0;
    const before = process.memoryUsage().arrayBuffers;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = seededRandom(seed);
      let input = random(3) === 0 ? bytes(random, 200) : subject.valid(random);
      for (let flips = random(6); flips > 0; flips--) input[random(input.length)]! ^= 1 << random(8);
      if (random(3) === 0) input = input.subarray(0, random(input.length));
      const { delivered, failed } = feed(subject, input, random);
      assert.ok(delivered <= input.length * 2, `seed ${seed}: ${delivered} bytes out of ${input.length}`);
      if (failed) failures++;
    }
    assert.ok(failures > SEEDS / 10, `only ${failures} inputs were rejected`);
    assert.ok(process.memoryUsage().arrayBuffers - before < 64 * 1024 * 1024);
  });
}

test('a length that a header only announces takes no memory', () => {
  const before = process.memoryUsage().arrayBuffers;
  const kept: unknown[] = [];
  for (let i = 0; i < 2_000; i++) {
    const decoder = new DrpcDecoder(4 * 1024 * 1024, () => {});
    decoder.push(Buffer.from([3, 1, 1, 0xff, 0xff, 0xff, 1, 0]));
    const parser = new FrameParser(false, { data: () => {}, control: () => {} });
    parser.push(Buffer.from([0x82, 127, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0]));
    kept.push(decoder, parser);
  }
  const grown = process.memoryUsage().arrayBuffers - before;
  assert.ok(grown < 2_000 * 8_192, `${grown} bytes for ${kept.length} decoders`);
});

test('a whole server survives random frames: every session and every stream ends', async (t) => {
  const handlers = implement(ProvisionerDaemon, { updateJob: () => ({}) });
  let ended = 0;
  const seeds = 60;
  for (let seed = 1; seed <= seeds; seed++) {
    const random = seededRandom(seed);
    const [near, far] = await socketPair(t);
    const session = new YamuxSession(near, { role: 'server', keepAlive: false });
    const streams: YamuxStream[] = [];
    session.on('stream', (stream) => streams.push(stream));
    serveDrpc(session, [handlers]);
    void session.closed.then(async () => {
      await eventually(() => streams.every((stream) => stream.destroyed), `seed ${seed}: streams left`);
      ended++;
    });
    far.resume();
    for (let i = 0; i < 40; i++) {
      const id = 1 + 2 * random(4);
      const flags = i < 4 ? 1 : 1 << random(4);
      if (random(2)) {
        const body = random(2)
          ? bytes(random, random(300))
          : Buffer.concat(
              encodePacket(1 + random(7), 1, 1 + random(5), Buffer.from('/provisionerd.ProvisionerDaemon/UpdateJob')),
            );
        far.write(Buffer.concat([encodeHeader(0, random(3) ? 0 : flags, id, body.length), body]));
      } else far.write(encodeHeader(random(4), flags, id, random(2_000)));
    }
    far.end();
  }
  await eventually(() => ended === seeds, 'every session ends');
});

test('waiting tiny frames and fragments take little more than their bytes', async (t) => {
  const [near, far] = await socketPair(t);
  const session = new YamuxSession(near, { role: 'server', keepAlive: false, onStream: () => {} });
  t.after(() => session.destroy());
  const heap = () => {
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const before = heap();
  const one = Buffer.concat([encodeHeader(0, 0, 1, 1), Buffer.from('x')]);
  far.resume();
  far.write(encodeHeader(1, 1, 1, 0));
  far.write(Buffer.concat(Array.from({ length: 200_000 }, () => one)));
  await eventually(() => near.bytesRead === 12 + 200_000 * one.length, 'all of it');
  await session.ping({ timeoutMs: 10 }).catch(() => {});
  assert.equal(session.isClosed, false);
  const grown = heap() - before;
  assert.ok(grown < 15_000_000, `${grown} bytes for 200,000`);
});
