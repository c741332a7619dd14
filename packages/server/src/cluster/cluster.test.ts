import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import type { Replica } from '@ropewalk/contract';
import { createTestTemplate, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { acceptTunnel, type TunnelRequest } from '@ropewalk/wire/tunnel';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { dialAgent, type MadeAgent, makeAgents, refusal } from '../rpc/testing/agents.ts';
import { greet, ReplicaKey } from './handshake.ts';
import { PEER_PATH } from './peers.ts';

let one: TestServer;
let two: TestServer;
let agent: MadeAgent;
let requests: TunnelRequest[] = [];

before(async () => {
  one = await startTestServer();
  two = await startTestServer({ joins: one });
  const template = await createTestTemplate(one, 'cluster');
  agent = (await makeAgents(one, template, 'dev')).agents[0]!;
});
after(async () => {
  await two.stop();
  await one.stop();
});
beforeEach(() => {
  requests = [];
});

/** Connects the agent to a server. It accepts SSH, and sends back what it receives in upper case. */
async function connectAgent(server: TestServer): Promise<YamuxSession> {
  const session = new YamuxSession(
    byteStream(await dialAgent(server, agent.token, { capabilities: 'tunnel/1, resume/1', role: 'agent' })),
    {
      role: 'client',
      keepAlive: false,
      onStream: (stream) =>
        void acceptTunnel(stream).then((tunnel) => {
          requests.push(tunnel.request);
          // never answered
          if (tunnel.request.service === 'tcp') return;
          if (tunnel.request.service !== 'ssh') return tunnel.refuse('only ssh');
          const inside = tunnel.accept();
          inside.on('error', () => {});
          inside.on('data', (data: Buffer) => inside.write(data.toString().toUpperCase()));
          inside.on('end', () => inside.end());
        }),
    },
  );
  return session;
}

const tunnel = (server: TestServer, query = 'service=ssh') =>
  dialWebSocket(`${server.url}/api/v2/workspaceagents/${agent.id}/tunnel?${query}`, {
    headers: { 'Coder-Session-Token': one.adminToken, 'Platform-Capabilities': 'resume/1' },
  });

/** Sends a text through a server to the agent, and returns the answer. */
async function ask(server: TestServer, text: string): Promise<string> {
  const { connection } = await tunnel(server);
  const stream = byteStream(connection);
  stream.write(text);
  let answer = '';
  for await (const data of stream) {
    answer += String(data);
    if (answer.length >= text.length) break;
  }
  return answer;
}

const replicas = async (server: TestServer) => (await server.api<Replica[]>('GET', '/replicas')).body;

test('each server lists all servers, without those that ended', async () => {
  const ids = [one.services.replicaId, two.services.replicaId];
  for (const server of [one, two])
    assert.deepEqual(
      (await replicas(server)).map(({ id, error, relay_address }) => [id, error, relay_address]),
      [
        [ids[0], '', one.url],
        [ids[1], '', two.url],
      ],
    );
  const three = await startTestServer({ joins: one });
  assert.equal((await replicas(one)).length, 3);
  await three.stop();
  assert.deepEqual(
    (await replicas(two)).map(({ id }) => id),
    ids,
  );
});

test('a client of any server reaches an agent of any server, before and after it has moved', async () => {
  const onOne = await connectAgent(one);
  await eventually('the agent is connected', async () => (await ask(one, 'x').catch(() => '')) === 'X');
  assert.equal(await ask(two, 'through the other one'), 'THROUGH THE OTHER ONE');
  const long = 'y'.repeat(3_000_000);
  assert.equal(await ask(two, long), long.toUpperCase());

  const onTwo = await connectAgent(two);
  await eventually('the older connection ends', () => onOne.isClosed);
  assert.equal(await ask(one, 'moved'), 'MOVED');
  assert.equal(await ask(two, 'moved'), 'MOVED');

  // what the agent says is what the client reads, on whichever server
  for (const server of [one, two]) {
    const { status, message } = await refusal(tunnel(server, 'service=speedtest'));
    assert.deepEqual([status, message], [503, 'only ssh']);
  }
  // a session that outlives its connection
  requests = [];
  const { connection, responseHeaders } = await tunnel(one, 'service=ssh&resume=new');
  assert.match(String(responseHeaders['platform-capabilities']), /resume\/1/);
  connection.close();
  assert.equal(requests[0]!['resume'], 'new');
  assert.ok(requests[0]!['holder']);

  // a client that leaves while the agent does not answer
  requests = [];
  const leaving = new AbortController();
  const dialing = dialWebSocket(`${one.url}/api/v2/workspaceagents/${agent.id}/tunnel?service=tcp&port=1`, {
    headers: { 'Coder-Session-Token': one.adminToken },
    signal: leaving.signal,
  });
  await eventually('the agent is asked', () => requests.length === 1);
  leaving.abort(new Error('left'));
  await assert.rejects(dialing, /left/);
  assert.equal(await ask(one, 'still'), 'STILL');

  onTwo.close();
  await onTwo.closed;
  await eventually('it is not connected', async () =>
    (
      await Promise.all(
        [one, two].map((server) =>
          refusal(tunnel(server).then(({ connection: c }) => c.destroy())).catch(() => undefined),
        ),
      )
    ).every((found) => found?.status === 503 && found.message === 'The agent is not connected.'),
  );
});

interface Message {
  id: string;
  event: string;
  data: string;
}

/** Opens the stream of changes of a server, as a browser does. */
async function follow(server: TestServer, lastEventId?: string): Promise<{ received: Message[]; close(): void }> {
  const gone = new AbortController();
  const { body } = await fetch(`${server.url}/api/v2/events`, {
    headers: {
      cookie: `coder_session_token=${one.adminToken}`,
      ...(lastEventId ? { 'last-event-id': lastEventId } : {}),
    },
    signal: gone.signal,
  });
  const received: Message[] = [];
  void (async () => {
    let text = '';
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
      const parts = (text + chunk).split('\n\n');
      text = parts.pop()!;
      for (const part of parts)
        received.push(
          Object.fromEntries(
            part.split('\n').map((line) => [line.split(': ', 1)[0], line.slice(line.indexOf(': ') + 2)]),
          ),
        );
    }
  })().catch(() => {});
  await eventually('hello', () => received[0]);
  return { received, close: () => gone.abort() };
}

test('a stream of changes continues on another server, without a gap', async () => {
  const groups = (stream: { received: Message[] }) =>
    stream.received.filter(({ event, data }) => event === 'change' && data.includes('"group"')).map(({ data }) => data);
  const make = async (name: string) => {
    const { id } = (await one.api<{ id: string }[]>('GET', '/organizations')).body[0]!;
    const made = await two.api('POST', `/organizations/${id}/groups`, { body: { name } });
    assert.equal(made.status, 201);
  };
  const first = await follow(one);
  // from then on the other server collects, too, which has no stream yet
  await make('before');
  await eventually('the change', () => groups(first).length === 1);
  first.close();
  const { id } = first.received.at(-1)!;
  await make('meanwhile');
  await make('later');
  for (const server of [two, one]) {
    const again = await follow(server, id);
    assert.match(again.received[0]!.data, /"resumed":true/, server.url);
    await eventually('both changes', () => new Set(groups(again)).size >= 2);
    assert.ok(!again.received.some(({ event }) => event === 'reset'));
    again.close();
  }
  const unknown = await follow(two, 'ffffffffffffffff');
  await eventually('the gap', () => unknown.received.some(({ event }) => event === 'reset'));
  unknown.close();
});

test('names a server that the others do not reach, and the address', async () => {
  const lost = await startTestServer({ joins: one, env: { CODER_DERP_SERVER_RELAY_URL: 'http://127.0.0.1:1' } });
  try {
    const session = await connectAgent(lost);
    const found = await eventually('it is tried', async () => {
      const answer = await one.api<{ message: string; detail: string }>(
        'GET',
        `/workspaceagents/${agent.id}/listening-ports`,
      );
      return /cannot be reached/.test(answer.body.message) && answer;
    });
    assert.equal(found.status, 503);
    assert.match(found.body.detail, /at http:\/\/127\.0\.0\.1:1: .*ECONNREFUSED/);
    await eventually(
      'the list says so',
      async () => (await replicas(two)).some(({ error }) => /at http:\/\/127\.0\.0\.1:1: .*ECONNREFUSED/.test(error)),
      20_000,
    );
    session.close();
  } finally {
    await lost.stop();
  }
});

test('says so when another server answers at the address of a server', async () => {
  const lost = await startTestServer({ joins: one, env: { CODER_DERP_SERVER_RELAY_URL: one.url } });
  try {
    await eventually(
      'the list says so',
      async () => (await replicas(two)).some(({ error }) => error.endsWith('Another server answers at this address.')),
      20_000,
    );
  } finally {
    await lost.stop();
  }
});

test('serves no stream to anyone who is not a server of the deployment', async () => {
  const dial = (headers: Record<string, string>) => refusal(dialWebSocket(`${one.url}${PEER_PATH}`, { headers }));
  const from = two.services.replicaId;
  const to = one.services.replicaId;
  const now = new Date();
  assert.equal((await dial({})).status, 409);
  assert.equal((await dial(greet(new ReplicaKey(), { from, to, now }).headers)).status, 401);
  assert.equal((await dial(greet(new ReplicaKey(), { from: crypto.randomUUID(), to, now }).headers)).status, 401);
  assert.equal((await fetch(`${one.url}${PEER_PATH}`)).status, 400);
  const asAdmin = { 'Coder-Session-Token': one.adminToken, ...greet(new ReplicaKey(), { from, to, now }).headers };
  assert.equal((await dial(asAdmin)).status, 401, 'nor to an owner');
});
