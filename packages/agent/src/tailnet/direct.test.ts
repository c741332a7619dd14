import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type Duplex, duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { connectedStacks } from '@ropewalk/tailnet/testing/stacks';
import { DIRECT_PORT } from '@ropewalk/wire/direct-port';
import { connectSession, type ResumableSession } from '@ropewalk/wire/resume/client';
import { encodeHello, readWelcome } from '@ropewalk/wire/resume/hello';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { DirectPaths } from './direct.ts';

const ANN = { user: 'ann', key: 'k1' };

/** An agent with one session that echoes, and a client that is a peer of it in the tailnet. */
async function setUp(t: TestContext) {
  const { addresses, client, stack } = connectedStacks();
  const sessions = new ResumableSessions();
  const state = { lostMs: undefined as number | undefined, dials: [] as string[] };
  const direct = new DirectPaths({ sessions, node: { lostMs: () => state.lostMs }, maxLostMs: 1_000, checkMs: 5 });
  stack.listen(DIRECT_PORT, (stream) => direct.serve(stream));
  const session = await connectSession({
    mayRetry: () => false,
    dial: async (kind) => {
      state.dials.push(kind);
      const [near, far] = duplexPair();
      if (kind === 'attach') void sessions.attach(far, ANN);
      else {
        const stream = sessions.serve(far, ANN);
        stream.pipe(stream);
      }
      return near;
    },
  });
  t.after(() => {
    session.stream.destroy();
    direct.close();
    sessions.close();
    stack.close();
    client.close();
  });
  const connect = () => client.connect({ to: addresses[1], port: DIRECT_PORT });
  return { session, sessions, stack, state, connect, client: addresses[0] };
}

/** A reset is an error too. */
const closed = (stream: Duplex) => new Promise((resolve) => stream.once('close', resolve));

const echo = async ({ stream }: ResumableSession, text: string): Promise<void> => {
  stream.write(text);
  let got = '';
  while (got.length < text.length) got += String((await once(stream, 'data'))[0]);
  assert.equal(got, text);
};

test('continues a session, and loses it with its peer', async (t) => {
  const { session, stack, state, connect, client } = await setUp(t);
  await echo(session, 'through the server');
  const carrier = await connect();
  await session.move(carrier);
  await echo(session, 'directly');
  assert.deepEqual(state.dials, ['new']);
  // as when the coordinator ends the peer
  stack.forget(client);
  await closed(carrier);
  await echo(session, 'through the server again');
  assert.deepEqual(state.dials, ['new', 'attach']);
});

test('gives a stranger the same answer for each failure, and after some of them none', async (t) => {
  const { session, sessions, connect } = await setUp(t);
  await echo(session, 'begun');
  const answers = new Set<string>();
  let unread = 0;
  for (let n = 0; n < 40; n++) {
    const stream = await connect();
    const kind = n % 2 === 0 ? 'attach' : 'new';
    stream.write(encodeHello({ kind, id: randomBytes(16), secret: randomBytes(32), received: 0 }));
    const answer = await readWelcome(stream).then(
      () => 'welcome',
      (err: Error & { code?: string }) => `${err.code} ${err.message}`,
    );
    if (answer.startsWith('refused')) answers.add(answer);
    else unread++;
  }
  assert.equal(answers.size, 1, [...answers].join('\n'));
  assert.match([...answers][0]!, /has ended/);
  assert.ok(unread >= 15 && unread < 25, `${unread}`);
  assert.equal(sessions.size, 1);
  await echo(session, 'unharmed');
});

test('bounds the connections that name no session', async (t) => {
  const { connect, stack } = await setUp(t);
  const streams: Duplex[] = [];
  for (let n = 0; n < 60; n++) streams.push(await connect());
  await eventually(() => stack.stats.connections === 32, 'the others are reset');
  assert.equal(streams.filter(({ destroyed }) => !destroyed).length, 32);
});

test('takes no session from a peer that the coordinator lost, and keeps it only for a while', async (t) => {
  const { session, state, connect } = await setUp(t);
  await echo(session, 'begun');
  state.lostMs = 0;
  await assert.rejects(session.move(await connect()));
  state.lostMs = undefined;
  const carrier = await connect();
  await session.move(carrier);
  state.lostMs = 900;
  await echo(session, 'directly');
  assert.equal(carrier.destroyed, false);
  state.lostMs = 1_100;
  await closed(carrier);
  await echo(session, 'through the server');
});
