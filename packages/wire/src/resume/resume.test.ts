import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type Duplex, duplexPair } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, test } from 'node:test';
import { connectResumable, connectSession, type ResumeOptions } from './client.ts';
import { encodeHello, readWelcome } from './hello.ts';
import { ResumableSessions, type ResumableSessionsOptions } from './sessions.ts';
import { FIRST_WINDOW, ResumableStream, type ResumeError } from './stream.ts';

const ANN = { user: 'ann', key: 'k1' };

/** The two ends of a connection that copies bytes, as the network does. */
function carrierPair(): [Duplex, Duplex] {
  const [near, nearMiddle] = duplexPair();
  const [farMiddle, far] = duplexPair();
  const carry = (from: Duplex, to: Duplex) => {
    from.on('data', (part: Buffer) => {
      if (!to.write(Buffer.from(part))) from.pause();
    });
    to.on('drain', () => from.resume());
    from.on('end', () => to.end());
    from.on('error', () => {});
    from.on('close', () => to.destroy());
  };
  carry(nearMiddle, farMiddle);
  carry(farMiddle, nearMiddle);
  return [near, far];
}

/** Two ends joined by connections that can be cut. `refuse` decides whether a dial fails. */
async function joined(
  more: Partial<ResumeOptions> & { sessions?: ResumableSessionsOptions; holder?: () => typeof ANN } = {},
) {
  const sessions = new ResumableSessions(more.sessions);
  let served: ResumableStream | undefined;
  const ends: Duplex[] = [];
  const state = { dials: 0, refuse: undefined as Error | undefined };
  const session = await connectSession({
    mayRetry: () => true,
    ...more,
    dial: async (kind) => {
      state.dials++;
      if (state.refuse) throw state.refuse;
      const [near, far] = carrierPair();
      for (const end of [near, far]) end.on('error', () => {});
      ends.push(near, far);
      if (kind === 'new') served = sessions.serve(far, more.holder?.() ?? ANN);
      else void sessions.attach(far, more.holder?.() ?? ANN);
      return near;
    },
  });
  const cut = () => {
    for (const end of ends.splice(0)) end.destroy();
  };
  /** Another way to the other end, slow if it is asked for. */
  const otherWay = (delayMs = 0) => {
    const [near, far] = carrierPair();
    for (const end of [near, far]) end.on('error', () => {});
    ends.push(near, far);
    setTimeout(() => void sessions.attach(far, undefined, { timeoutMs: 1_000 }), delayMs);
    return near;
  };
  await until('it began', () => served!.attached);
  return { client: session.stream, session, server: served!, sessions, state, cut, otherWay };
}

/** The same with one connection, whose id and secret the test knows. */
async function known() {
  const sessions = new ResumableSessions();
  const id = randomBytes(16);
  const secret = randomBytes(32);
  const [near, far] = carrierPair();
  const server = sessions.serve(far, ANN);
  const client = new ResumableStream();
  near.write(encodeHello({ kind: 'new', id, secret, received: 0 }));
  client.attach(near, 0);
  await until('it began', () => server.attached);
  return { sessions, id, secret, server, client };
}

const gather = (stream: Duplex) => {
  const parts: Buffer[] = [];
  stream.on('data', (part: Buffer) => parts.push(part));
  return () => Buffer.concat(parts);
};

async function until(what: string, look: () => boolean) {
  const end = performance.now() + 60_000;
  while (!look()) {
    assert.ok(performance.now() < end, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** A generator of numbers below `below`, the same for each seed. */
function numbers(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe('a session that outlives its connections', () => {
  for (let seed = 1; seed <= 12; seed++) {
    test(`loses and doubles nothing, whenever it is cut (seed ${seed})`, async () => {
      const next = numbers(seed);
      const { client, server, state, cut, sessions } = await joined();
      const got = [gather(client), gather(server)];
      const digests = [createHash('sha256'), createHash('sha256')];
      const write = async (to: Duplex, digest: ReturnType<typeof createHash>) => {
        for (let n = 0; n < 120; n++) {
          const part = randomBytes(1 + next(next(4) === 0 ? 60_000 : 40));
          digest.update(part);
          if (!to.write(part)) await once(to, 'drain');
          if (next(6) === 0) await new Promise((resolve) => setImmediate(resolve));
          if (n % 50 === 10 + seed) cut();
        }
        to.end();
      };
      await Promise.all([
        write(client, digests[0]!),
        write(server, digests[1]!),
        once(client, 'end'),
        once(server, 'end'),
      ]);
      assert.equal(createHash('sha256').update(got[1]!()).digest('hex'), digests[0]!.digest('hex'));
      assert.equal(createHash('sha256').update(got[0]!()).digest('hex'), digests[1]!.digest('hex'));
      await until('both are gone', () => client.destroyed && server.destroyed && sessions.size === 0);
      assert.ok(state.dials > 2, 'it was cut');
      assert.equal(client.errored, null);
      assert.equal(server.errored, null);
    });
  }

  for (let seed = 1; seed <= 12; seed++) {
    test(`loses and doubles nothing, whenever it moves under load (seed ${seed})`, async () => {
      const next = numbers(seed);
      const { client, session, server, cut, otherWay, sessions } = await joined();
      const got = [gather(client), gather(server)];
      const sent: Buffer[][] = [[], []];
      const state = { moves: 0, isEnding: false };
      const write = async (to: Duplex, parts: Buffer[], count: number, minMoves = 0) => {
        for (let n = 0; n < count || state.moves < minMoves; n++) {
          const part = randomBytes(1 + next(next(3) === 0 ? 200_000 : 40));
          parts.push(part);
          if (!to.write(part)) await once(to, 'drain');
          if (next(6) === 0) await new Promise((resolve) => setImmediate(resolve));
        }
        state.isEnding ||= to === client;
        to.end();
      };
      const isOver = () => client.destroyed || (client.readableEnded && client.writableFinished);
      const move = async () => {
        while (!isOver()) {
          const connection = otherWay(next(3));
          const moved = session.move(connection).then(
            () => state.moves++,
            () => {},
          );
          // either way may break during a move, but not with the last acknowledgement: nobody can know then whether it arrived
          const fail = () => !state.isEnding && (next(2) === 0 ? cut() : connection.destroy());
          if (next(4) === 0) setTimeout(fail, next(3));
          await moved;
          await new Promise((resolve) => setTimeout(resolve, next(4)));
        }
      };
      const moving = move();
      // one direction ends long before the other, between moves or during one
      await Promise.all([
        write(client, sent[0]!, 40 + next(200), 4),
        write(server, sent[1]!, 40 + next(200)),
        once(client, 'end'),
        once(server, 'end'),
      ]);
      await moving;
      assert.ok(got[1]!().equals(Buffer.concat(sent[0]!)), 'from the client');
      assert.ok(got[0]!().equals(Buffer.concat(sent[1]!)), 'to the client');
      await until('both are gone', () => client.destroyed && server.destroyed && sessions.size === 0);
      assert.deepEqual([client.errored, server.errored], [null, null]);
    });
  }

  test('moves without a loss that anyone notices, and stays where it is if the other way leads nowhere', async (t) => {
    const events: string[] = [];
    const { client, session, server, state, otherWay } = await joined({
      onLost: () => events.push('lost'),
      onResumed: () => events.push('resumed'),
    });
    const got = gather(server);
    client.write('one ');
    await session.move(otherWay());
    client.write('two ');
    const [nowhere] = carrierPair();
    const failing = session.move(nowhere);
    await assert.rejects(session.move(otherWay()), /cannot be moved now/);
    nowhere.destroy();
    await assert.rejects(failing, { name: 'TunnelError' });
    client.write('three');
    await until('all arrive', () => String(got()) === 'one two three');
    server.write('back');
    assert.equal(String((await once(client, 'data'))[0]), 'back');
    // a way to somebody else
    const [near, far] = carrierPair();
    t.after(() => far.destroy());
    void new ResumableSessions().attach(far);
    await assert.rejects(session.move(near), { name: 'ResumeError', code: 'refused' });
    assert.ok(client.attached);
    assert.deepEqual([events, state.dials], [[], 1]);
  });

  test('waits for the answer of a slow way after the peer has given up the other one', async () => {
    const events: string[] = [];
    const { client, session, server, state, sessions, cut } = await joined({ onLost: () => events.push('lost') });
    const [near, nearMiddle] = duplexPair();
    const [farMiddle, far] = duplexPair();
    nearMiddle.on('data', (part: Buffer) => farMiddle.write(Buffer.from(part)));
    const held: Buffer[] = [];
    let isSlow = true;
    farMiddle.on('data', (part: Buffer) =>
      isSlow ? held.push(Buffer.from(part)) : nearMiddle.write(Buffer.from(part)),
    );
    void sessions.attach(far);
    const moved = session.move(near);
    server.write('sent on the new way');
    await until('the peer has answered', () => held.length > 0);
    cut();
    await until('the other one is gone', () => !client.attached);
    isSlow = false;
    nearMiddle.write(Buffer.concat(held));
    await moved;
    assert.equal(String((await once(client, 'data'))[0]), 'sent on the new way');
    assert.deepEqual([events, state.dials], [[], 1]);
    // a move that fails while the other one is gone
    const [nowhere, end] = duplexPair();
    const failing = assert.rejects(session.move(nowhere));
    near.destroy();
    await until('it is gone', () => !client.attached);
    end.destroy();
    nowhere.destroy();
    await failing;
    await until('it is back', () => client.attached && server.attached);
    assert.deepEqual([events, state.dials], [['lost'], 2]);
  });

  test('a connection without a holder needs the secret, and leaves the session to its holder', async () => {
    const { sessions, id, secret, server, client } = await known();
    const answers: string[] = [];
    for (const wrong of [
      { id, secret: randomBytes(32) },
      { id: randomBytes(16), secret },
    ])
      for (const kind of ['attach', 'new'] as const) {
        const [near, far] = carrierPair();
        void sessions.attach(far);
        near.write(encodeHello({ kind, ...wrong, received: 0 }));
        answers.push(
          await readWelcome(near).then(
            () => 'welcome',
            (err: Error) => err.message,
          ),
        );
      }
    assert.equal(new Set(answers).size, 1, answers.join('\n'));
    assert.match(answers[0]!, /has ended/);
    assert.ok(client.attached && server.attached);
    const [near, far] = carrierPair();
    void sessions.attach(far);
    near.write(encodeHello({ kind: 'attach', id, secret, received: client.received }));
    client.attach(near, await readWelcome(near));
    sessions.forget(({ key }) => key === ANN.key);
    await until('it has ended', () => server.destroyed && client.destroyed);
  });

  test('survives 90 s without the server, and the client is back within 2 s', async (t) => {
    const { client, server, state, cut } = await joined();
    let now = performance.now();
    t.mock.method(performance, 'now', () => now);
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const pass = async (ms: number) => {
      for (let at = 0; at < ms; at += 100) {
        now += 100;
        t.mock.timers.tick(100);
        for (let n = 0; n < 5; n++) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    state.refuse = new Error('away');
    cut();
    await pass(90_000);
    state.refuse = undefined;
    await pass(2_000);
    assert.deepEqual([client.destroyed, server.destroyed], [false, false]);
    assert.deepEqual([client.attached, server.attached], [true, true]);
    // Each attempt came at its own time, at most 2 s after the previous one.
    assert.ok(state.dials > 45, `${state.dials}`);
  });

  test('one direction may end long before the other, and over another connection', async () => {
    const { client, server, cut } = await joined();
    client.end('last words');
    const received = gather(server);
    await once(server, 'end');
    assert.equal(String(received()), 'last words');
    cut();
    const answer = gather(client);
    server.write('still ');
    await until('the answer', () => String(answer()) === 'still ');
    cut();
    server.end('here');
    await once(client, 'end');
    assert.equal(String(answer()), 'still here');
  });

  test('a peer that does not read stops its writer after a bounded number of bytes', async () => {
    const { client, server, cut } = await joined();
    let written = 0;
    const piece = Buffer.alloc(16_384);
    const fill = () => {
      while (written < 50_000_000 && client.write(piece)) written += piece.length;
    };
    client.on('drain', fill);
    fill();
    await until('it stops', () => client.writableNeedDrain && client.writableLength > 0);
    const before = written;
    cut();
    await until('it is back', () => client.attached && server.attached);
    assert.ok(written - before <= 2 * FIRST_WINDOW && written < 4 * FIRST_WINDOW, `${written} bytes were taken`);
    // The other direction is free.
    server.write('hello');
    const [hello] = (await once(client, 'data')) as [Buffer];
    assert.equal(String(hello), 'hello');
    let read = 0;
    server.on('data', (part: Buffer) => {
      read += part.length;
    });
    await until('all was read', () => read >= 50_000_000);
  });

  test('joins many tiny pieces that nobody acknowledges', async () => {
    const { client, server, cut, state } = await joined();
    state.refuse = new Error('away');
    cut();
    await until('it is cut', () => !client.attached);
    for (let n = 0; n < 100_000; n++) client.write(Buffer.from([n & 255]));
    state.refuse = undefined;
    const got = gather(server);
    client.end();
    await once(server, 'end');
    assert.ok(got().equals(Buffer.from(Array.from({ length: 100_000 }, (_, n) => n & 255))));
  });

  test('without a connection both sides give up in time, with the reason', async () => {
    const { client, server, state, cut, sessions } = await joined({ graceMs: 300, sessions: { graceMs: 300 } });
    const lost = once(client, 'error');
    const gone = once(server, 'error');
    state.refuse = new Error('away');
    cut();
    assert.equal(((await lost)[0] as ResumeError).code, 'lost');
    assert.equal(((await gone)[0] as ResumeError).code, 'lost');
    assert.equal(sessions.size, 0);
  });

  test('a final answer ends the attempts immediately', async () => {
    const { client, state, cut } = await joined({ mayRetry: (err) => (err as Error).message !== 'signed out' });
    const over = once(client, 'error');
    state.refuse = new Error('signed out');
    cut();
    assert.equal(((await over)[0] as Error).message, 'signed out');
    assert.equal(state.dials, 2);
  });

  test('destroying one side ends the other and leaves nothing behind', async () => {
    for (const side of ['client', 'server'] as const) {
      const pair = await joined();
      pair.client.write('x');
      await once(pair.server, 'data');
      const other = once(side === 'client' ? pair.server : pair.client, 'error');
      pair[side].destroy();
      assert.equal(((await other)[0] as ResumeError).code, 'closed');
      assert.equal(pair.sessions.size, 0);
      assert.equal(pair.state.dials, 1);
    }
  });

  test('only its holder with the secret can resume a session, and failed attempts do not change it', async () => {
    const { client, server, sessions, id, secret } = await known();
    const received = gather(server);
    client.write('one');
    await until('the first', () => String(received()) === 'one');
    const tries: [Partial<Parameters<typeof encodeHello>[0]>, typeof ANN][] = [
      [{ secret: randomBytes(32) }, ANN],
      [{ id: randomBytes(16) }, ANN],
      [{ secret }, { user: 'eve', key: 'k2' }],
    ];
    for (const [wrong, holder] of tries) {
      const [near, far] = carrierPair();
      void sessions.attach(far, holder);
      near.write(encodeHello({ kind: 'attach', id, secret: randomBytes(32), received: 0, ...wrong }));
      await assert.rejects(readWelcome(near), /The session has ended/);
    }
    client.write(' two');
    await until('the second', () => String(received()) === 'one two');
  });

  test('rejects a position that the peer cannot have', async () => {
    const { sessions, client, server, id, secret } = await known();
    for (const received of [5, 2 ** 50]) {
      const [near, far] = carrierPair();
      void sessions.attach(far, ANN);
      near.write(encodeHello({ kind: 'attach', id, secret, received }));
      near.on('error', () => {});
      await readWelcome(near).catch(() => {});
      near.destroy();
    }
    client.end('x');
    const received = gather(server);
    await once(server, 'end');
    assert.equal(String(received()), 'x');
  });

  test('ends the session of a holder who lost access', async () => {
    const { client, server, sessions } = await joined();
    const over = once(client, 'error');
    sessions.forget(({ key }) => key === 'other');
    assert.equal(server.destroyed, false);
    sessions.forget(({ key }) => key === 'k1');
    await over;
    assert.equal(sessions.size, 0);
  });

  test('garbage ends only the session that received it', async () => {
    const next = numbers(99);
    for (let n = 0; n < 200; n++) {
      const sessions = new ResumableSessions({ graceMs: 5 });
      const [near, far] = carrierPair();
      near.on('error', () => {});
      const stream = sessions.serve(far, ANN);
      stream.resume();
      const hello = encodeHello({ kind: 'new', id: randomBytes(16), secret: randomBytes(32), received: 0 });
      const noise = randomBytes(1 + next(300));
      if (next(3) === 0) noise[0] = next(6);
      near.end(next(4) === 0 ? noise : Buffer.concat([hello, noise]));
      near.resume();
      if (n % 2) await once(stream, 'close').catch(() => {});
      else sessions.close();
      await until('it is gone', () => sessions.size === 0);
    }
  });

  test('limits sessions without a connection and drops the oldest first', async () => {
    const sessions: ResumableSessionsOptions = { mostDetached: 2 };
    const all = new ResumableSessions(sessions);
    const streams: ResumableStream[] = [];
    for (let n = 0; n < 4; n++) {
      const [near, far] = carrierPair();
      near.on('error', () => {});
      const stream = all.serve(far, ANN);
      near.write(encodeHello({ kind: 'new', id: randomBytes(16), secret: randomBytes(32), received: 0 }));
      await until('it began', () => stream.attached);
      near.destroy();
      far.destroy();
      streams.push(stream);
    }
    await until('two are gone', () => all.size === 2);
    assert.deepEqual(
      streams.map(({ destroyed }) => destroyed),
      [true, true, false, false],
    );
    all.close();
  });
});

test('a session begins again when its first connection broke before it arrived', async () => {
  const sessions = new ResumableSessions();
  const kinds: string[] = [];
  let served: ResumableStream | undefined;
  const client = await connectResumable({
    mayRetry: () => true,
    dial: async (kind) => {
      kinds.push(kind);
      const [near, far] = carrierPair();
      for (const end of [near, far]) end.on('error', () => {});
      if (kinds.length === 1) setImmediate(() => near.destroy());
      else if (kind === 'new') served = sessions.serve(far, ANN);
      else void sessions.attach(far, ANN);
      return near;
    },
  });
  client.write('hello');
  await until('it begins again', () => served?.attached === true);
  const [text] = (await once(served!, 'data')) as [Buffer];
  assert.equal(String(text), 'hello');
  assert.deepEqual(kinds, ['new', 'attach', 'new']);
  client.destroy();
  served!.destroy();
});

test('a window that is used up within a round trip grows', async () => {
  const delay = 20;
  /** The bytes on their way to the server, and the most that there were. */
  let carried = 0;
  let most = 0;
  const sessions = new ResumableSessions();
  let server: ResumableStream | undefined;
  const client = await connectResumable({
    mayRetry: () => false,
    dial: async () => {
      const [near, middleA] = duplexPair({ highWaterMark: 64 * 1024 * 1024 });
      const [middleB, far] = duplexPair({ highWaterMark: 64 * 1024 * 1024 });
      const later = (from: Duplex, to: Duplex, count = (_bytes: number) => {}) =>
        from.on('data', (part: Buffer) => {
          count(part.length);
          setTimeout(() => {
            count(-part.length);
            to.write(Buffer.from(part));
          }, delay);
        });
      later(middleA, middleB, (bytes) => {
        carried += bytes;
        most = Math.max(most, carried);
      });
      later(middleB, middleA);
      server = sessions.serve(far, ANN);
      return near;
    },
  });
  let read = 0;
  server!.on('data', (part: Buffer) => {
    read += part.length;
  });
  const total = 32 * 1024 * 1024;
  await pipeline(async function* () {
    for (let sent = 0; sent < total; sent += 65_536) yield Buffer.alloc(65_536);
  }, client);
  assert.equal(read, total);
  assert.ok(most > 4 * FIRST_WINDOW, `${most} bytes; a window that does not grow has ${FIRST_WINDOW}`);
  client.destroy();
});
