import assert from 'node:assert/strict';
import { get } from 'node:https';
import { after, before, beforeEach, test } from 'node:test';
import type { Replica } from '@ropewalk/contract';
import { silentLogger, systemClock } from '@ropewalk/kit';
import { createTestTemplate, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { acceptTunnel, type TunnelRequest } from '@ropewalk/wire/tunnel';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { systemContext } from '../app/context/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { endReplica, liveReplicas, upsertReplica } from '../db/queries/replicas.ts';
import { dialAgent, type MadeAgent, makeAgents, refusal } from '../rpc/testing/agents.ts';
import { greet, type PublishedKeys, ReplicaKey } from './handshake.ts';
import { PEER_PATH, Peers } from './peers.ts';

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
    assert.equal(found.headers.get('retry-after'), '1');
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

test('servers with a listener for each other use only that, with the certificates of their rows', async () => {
  // nothing answers at the relay address
  const env = { CODER_CLUSTER_ADDRESS: '127.0.0.1:0', CODER_DERP_SERVER_RELAY_URL: 'http://127.0.0.1:1' };
  const three = await startTestServer({ joins: one, env });
  const four = await startTestServer({ joins: one, env });
  try {
    const session = await connectAgent(three);
    for (const server of [one, four])
      await eventually('it reaches the agent', async () => (await ask(server, 'x').catch(() => '')) === 'X');
    session.close();

    const row = (await liveReplicas(one.services.sql)).find(({ id }) => id === three.services.replicaId)!;
    const dial = (options: Parameters<typeof dialWebSocket>[1], path = PEER_PATH) =>
      refusal(dialWebSocket(`${row.cluster_address}${path}`, { ca: row.certificate, servername: row.id, ...options }));
    const stranger = new ReplicaKey(two.services.replicaId);
    const { headers } = greet(stranger, { from: two.services.replicaId, to: row.id, now: new Date() });
    const notServer = { status: 401, message: 'The certificate is not that of a server of this deployment.' };
    assert.deepEqual(await dial({ headers }), notServer, 'no certificate');
    assert.deepEqual(await dial({ headers, ...stranger.tls }), notServer, 'a certificate of nobody');
    assert.equal((await dial({}, '/api/v2/workspaces/watch')).status, 404);

    // nor does a server connect to another program at that address
    const id = two.services.replicaId;
    const rows = [{ ...row, certificate: new ReplicaKey(row.id).published.certificate }];
    const peers = new Peers({
      id,
      key: stranger,
      log: silentLogger,
      now: () => new Date(),
      readRows: async () => rows,
    });
    peers.update(rows);
    await peers.pingAll();
    assert.match(peers.problem(), /self-signed certificate|signature failure/);
    peers.close();

    const page = await new Promise<number | undefined>((resolve, reject) => {
      const request = get(`${row.cluster_address}/api/v2/buildinfo`, { ca: row.certificate, servername: row.id });
      request.once('response', (answer) => resolve(answer.resume().statusCode));
      request.once('error', reject);
    });
    assert.equal(page, 404);
  } finally {
    await four.stop();
    await three.stop();
  }
});

test('a server renews its keys each day, and streams in both directions go on', async () => {
  let elapsed = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + elapsed };
  const three = await startTestServer({ joins: one, clock, env: { CODER_CLUSTER_ADDRESS: '127.0.0.1:0' } });
  const keys = async () => {
    const row = (await liveReplicas(one.services.sql)).find(({ id }) => id === three.services.replicaId)!;
    return [row.public_key.toString('base64'), row.certificate];
  };
  try {
    const session = await connectAgent(three);
    await eventually('a server reaches it', async () => (await ask(one, 'x').catch(() => '')) === 'X');
    const before = await keys();
    elapsed = 24 * 3_600_000;
    const renewed = await eventually(
      'the keys are renewed',
      async () => {
        const now = await keys();
        return now[0] !== before[0] && now;
      },
      20_000,
    );
    assert.notEqual(renewed[1], before[1]);
    assert.equal(await ask(one, 'same session'), 'SAME SESSION');
    // servers that start now have only the new keys
    const four = await startTestServer({ joins: one });
    assert.equal(await ask(four, 'new session'), 'NEW SESSION');
    session.close();
    const moved = await connectAgent(four);
    await eventually('the renewed server reaches it', async () => (await ask(three, 'x').catch(() => '')) === 'X');
    moved.close();
    await four.stop();
  } finally {
    await three.stop();
  }
});

test('reads the keys of a server once more when they have just changed', async () => {
  const { sql, replicaId } = one.services;
  const id = crypto.randomUUID();
  const key = new ReplicaKey(id);
  const row = {
    id,
    hostname: 'h',
    version: 'v',
    relay_address: '',
    cluster_address: '',
    database_latency_us: 1,
    problem: '',
  };
  const publish = ({ publicKey: public_key, certificate }: PublishedKeys) =>
    upsertReplica(sql, systemTask(systemContext(one.services, 'test')), { ...row, public_key, certificate });
  await publish(key.published);
  const readRows = () => liveReplicas(sql);
  const peers = new Peers({ id, key, log: silentLogger, now: () => new Date(), readRows });
  const before = await readRows();
  peers.update(
    before
      .filter((each) => each.id === replicaId)
      .map((each) => ({ ...each, public_key: new ReplicaKey(replicaId).published.publicKey })),
  );
  await peers.pingAll();
  assert.equal(peers.problem(), '');
  peers.close();
  await endReplica(sql, systemTask(systemContext(one.services, 'test')), id);
});

test('serves no stream to anyone who is not a server of the deployment', async () => {
  const dial = (headers: Record<string, string>) => refusal(dialWebSocket(`${one.url}${PEER_PATH}`, { headers }));
  const from = two.services.replicaId;
  const to = one.services.replicaId;
  const now = new Date();
  assert.equal((await dial({})).status, 409);
  assert.equal((await dial(greet(new ReplicaKey(crypto.randomUUID()), { from, to, now }).headers)).status, 401);
  assert.equal(
    (await dial(greet(new ReplicaKey(crypto.randomUUID()), { from: crypto.randomUUID(), to, now }).headers)).status,
    401,
  );
  assert.equal((await fetch(`${one.url}${PEER_PATH}`)).status, 400);
  const asAdmin = {
    'Coder-Session-Token': one.adminToken,
    ...greet(new ReplicaKey(crypto.randomUUID()), { from, to, now }).headers,
  };
  assert.equal((await dial(asAdmin)).status, 401, 'nor to an owner');
});
