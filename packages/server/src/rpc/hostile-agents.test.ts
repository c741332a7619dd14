// own process: measures its memory

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import type { Template } from '@ropewalk/contract';
import { createLogger } from '@ropewalk/kit';
import { createTestTemplate, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { encodePacket, KIND } from '@ropewalk/wire/drpc/frames';
import { Agent } from '@ropewalk/wire/proto/agent';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { encodeHeader, FLAG, TYPE } from '@ropewalk/wire/yamux/frames';
import { dialAgent, type MadeAgent, makeAgents } from './testing/agents.ts';
import { data, fin, memory, Peer, syn, verdicts } from './testing/peer.ts';

// Agents with a valid token that break every rule of the wire. Each ends as the protocol says. The server and the other
// agents go on, with no more memory than before.

const MIB = 1024 * 1024;
const RPC = '/api/v2/workspaceagents/me/rpc';
/** Concurrent calls of one agent that the server accepts. */
const MAX_STREAMS = 64;
/** Bytes of messages that these calls may hold together. */
const MAX_HELD = 16 * MIB;

let server: TestServer;
let template: Template;
let agents: MadeAgent[];
let healthy: { session: YamuxSession; rpc: ReturnType<typeof clientOf> };
const log = { connected: 0, disconnected: 0 };
const clientOf = (session: YamuxSession) => createDrpcClient(Agent, () => session.openStream());

before(async () => {
  const write = (line: string) => {
    if (line.includes('agent connected')) log.connected++;
    if (line.includes('agent disconnected')) log.disconnected++;
  };
  server = await startTestServer({ log: createLogger({ sinks: [{ format: 'human', write }] }) });
  template = await createTestTemplate(server, 'hostile');
  ({ agents } = await makeAgents(server, template, 'hostile', { count: 13 }));
  const session = new YamuxSession(byteStream(await dialAgent(server, agents[0]!.token)), { role: 'client' });
  healthy = { session, rpc: clientOf(session) };
});
after(async () => {
  await healthy.session.close();
  await server.stop();
});

const left = () => log.connected - log.disconnected;
/** Waits until every hostile agent's session has ended at the server, too. */
afterEach(async () => {
  await eventually('only the healthy agent is left', async () => left() === 1, 8_000);
});

let next = 0;
/** The token of the next hostile agent. The first token is the healthy agent's, and the last one stays unused. */
const token = () => agents[1 + (next++ % (agents.length - 2))]!.token;
const joinPeer = async () => new Peer(await dialAgent(server, token()));
const call = (name: string) => Buffer.concat(encodePacket(KIND.invoke, 1, 1, Buffer.from(name)));
const invoke = call('/coder.agent.v2.Agent/BatchCreateLogs');

/** Checks that the server serves the healthy agent. */
async function goesOn(): Promise<void> {
  const manifest = await healthy.rpc.getManifest({});
  assert.equal(manifest.workspaceName, 'hostile');
}

/** Input that breaks the session: the server sends GoAway and ends the connection in order. */
const fatal: Record<string, (peer: Peer) => void> = {
  'garbage bytes': (peer) => peer.send(Buffer.from([0xff]), randomBytes(5_000)),
  'an unknown frame type': (peer) => peer.send(encodeHeader(9, 0, 1, 0)),
  'data beyond the window': (peer) => peer.send(syn(1), encodeHeader(TYPE.data, 0, 1, 2 * MIB)),
  'a stream opened twice': (peer) => peer.send(syn(1), data(1, invoke), syn(1)),
  'a stream ended twice': (peer) => peer.send(syn(1), data(1, invoke), fin(1), fin(1)),
  'a stream of the server’s numbers': (peer) => peer.send(syn(2)),
};
for (const [what, breach] of Object.entries(fatal)) {
  test(`${what}: the session ends`, async () => {
    const peer = await joinPeer();
    breach(peer);
    const { clean, code } = await peer.closed();
    assert.ok(clean, 'by a closing handshake');
    assert.equal(code, 1011);
    assert.equal(peer.headers.filter(({ type, length }) => type === TYPE.goAway && length === 1).length, 1);
    await goesOn();
  });
}

/** Input that breaks one stream: the server resets it, and the session goes on. */
const broken: Record<string, Uint8Array[]> = {
  'a message longer than the most': [Buffer.from([0x05, 1, 2, 0x81, 0x80, 0x80, 0x02])],
  'a message before any call': encodePacket(KIND.message, 1, 1, Buffer.from('x')),
  'a call inside a call': [invoke, ...encodePacket(KIND.invoke, 1, 2, Buffer.from('x'))],
};
for (const [what, frames] of Object.entries(broken)) {
  test(`${what}: the stream is reset, the session lives`, async () => {
    const peer = await joinPeer();
    peer.send(syn(1), data(1, Buffer.concat(frames)));
    await peer.reset(1);
    await peer.alive();
    peer.connection.close();
    await peer.closed();
    await goesOn();
  });
}

test('answers unknown calls and malformed requests with an error, and the session goes on', async () => {
  const session = new YamuxSession(byteStream(await dialAgent(server, token())), { role: 'client' });
  const answerTo = async (...frames: Uint8Array[]) => {
    const stream = session.openStream();
    stream.write(Buffer.concat(frames));
    const [answer] = (await once(stream, 'data')) as [Buffer];
    stream.destroy();
    return answer.toString('latin1');
  };
  assert.match(await answerTo(call('/coder.agent.v2.Agent/Nothing')), /unknown rpc/);
  assert.match(await answerTo(invoke, ...encodePacket(KIND.message, 1, 2, Buffer.from([0xff, 0xff]))), /./);
  const rpc = clientOf(session);
  await assert.rejects(async () => rpc.updateLifecycle({}), /Unknown lifecycle state/);
  await assert.rejects(async () => rpc.batchCreateLogs({ logSourceId: Buffer.alloc(3), logs: [] }), /16 bytes/);
  assert.equal((await rpc.getManifest({})).workspaceName, 'hostile');
  await session.close();
});

test('survives truncated frames, a text message and malformed WebSocket frames', async () => {
  const cut = [
    syn(1).subarray(0, 7),
    Buffer.concat([syn(1), encodeHeader(TYPE.data, 0, 1, 100), invoke.subarray(0, 20)]),
  ];
  for (const bytes of cut) {
    const gone = await joinPeer();
    gone.send(bytes);
    gone.connection.destroy();
  }
  const talks = await joinPeer();
  talks.connection.sendText('hello');
  assert.equal((await talks.closed()).code, 1003);
  // an unmasked frame, reserved bits, a ping of 126 bytes, a length with its highest bit set
  const frames = ['820000', 'f280', '89fe007e', '82ffffffffffffffffff'];
  for (const frame of frames) {
    const socket = await rawUpgrade(token());
    const answer: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => answer.push(chunk));
    socket.write(Buffer.concat([Buffer.from(frame, 'hex'), Buffer.alloc(200)]));
    await once(socket, 'close');
    const close = Buffer.concat(answer);
    assert.equal(close[0], 0x88, `${frame}: it is closed`);
    assert.ok([1002, 1009].includes(close.readUInt16BE(2)), `${frame}: with ${close.readUInt16BE(2)}`);
  }
  await goesOn();
});

/** A raw socket after the upgrade of an agent. */
async function rawUpgrade(agentToken: string): Promise<Socket> {
  const socket = rawSocket();
  socket.write(upgradeText(agentToken));
  const [head] = (await once(socket, 'data')) as [Buffer];
  assert.match(head.toString('latin1'), /^HTTP\/1\.1 101 /);
  return socket;
}
function rawSocket(): Socket {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => {});
  return socket;
}
function upgradeText(agentToken: string): string {
  const lines = [
    `GET ${RPC}?version=2.6 HTTP/1.1`,
    'Host: x',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
    `Cookie: coder_session_token=${agentToken}`,
    'Platform-Capabilities: tunnel/1',
    'Platform-Ssh-Host-Key: a2V5',
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

test('resets calls beyond the limit of an agent, and bounds the bytes that they hold', async () => {
  const peer = await joinPeer();
  const before = await memory();
  // each sends nearly a whole message, and never its end
  const piece = Buffer.concat([invoke, Buffer.from([0x04, 1, 2, 0x80, 0x80, 0x20]), Buffer.alloc(MIB / 2)]);
  for (let n = 0; n < 4_096; n++) peer.send(syn(2 * n + 1));
  await peer.alive();
  assert.deepEqual(verdicts(peer), { acknowledged: MAX_STREAMS, reset: 4_096 - MAX_STREAMS });
  for (let n = 0; n < MAX_STREAMS; n++) peer.send(data(2 * n + 1, piece));
  await peer.alive();
  const held = (await memory()) - before;
  assert.ok(held < 2.2 * MAX_HELD, `${held / MIB} MiB`);
  assert.equal(verdicts(peer).reset, 4_096 - MAX_HELD / (MIB / 2), 'calls beyond the bytes that all of them may hold');
  await goesOn();
  peer.connection.destroy();
  await eventually('it is gone', async () => left() === 1);
  await eventually('its memory is free', async () => (await memory()) - before < 5 * MIB);
});

test('cuts off an agent that calls and never reads, with few bytes in memory', async () => {
  const before = await memory();
  const connection = await dialAgent(server, token());
  const ping = encodeHeader(TYPE.ping, FLAG.syn, 0, 1);
  const pings = Buffer.concat(Array.from({ length: 20_000 }, () => ping));
  await eventually('it is connected', async () => left() === 2);
  for (let n = 0; n < 200 && left() === 2; n++) {
    if (!connection.sendBinary(pings)) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await eventually('it is cut off', async () => left() === 1);
  connection.destroy();
  const held = (await memory()) - before;
  assert.ok(held < 20 * MIB, `${held / MIB} MiB`);
  await goesOn();
});

test('gives up an upgrade that is never finished, or whose agent leaves meanwhile', async () => {
  let http: Server | undefined;
  const seen = (message: unknown) => {
    http = (message as { server: Server }).server;
  };
  subscribe('http.server.request.start', seen);
  await server.api('GET', '/buildinfo', { token: null });
  unsubscribe('http.server.request.start', seen);
  assert.ok(http);
  assert.ok(http.headersTimeout > 0 && http.headersTimeout <= 60_000);
  const slow = Array.from({ length: 50 }, () => {
    const socket = rawSocket();
    socket.write(upgradeText(token()).slice(0, -4));
    return socket;
  });
  await Promise.all(slow.map((socket) => once(socket, 'connect')));
  await goesOn();
  const limit = http.headersTimeout;
  http.headersTimeout = 1;
  await new Promise((resolve) => setTimeout(resolve, 20));
  // Node checks every half minute: make it check now
  const name = Object.getOwnPropertySymbols(http).find(({ description }) =>
    description?.endsWith('connectionsCheckingInterval'),
  );
  // with an answer, or with a reset
  const closed = slow.map((socket) => new Promise((resolve) => socket.resume().once('close', resolve)));
  (http as unknown as Record<symbol, { _onTimeout(): void }>)[name!]!._onTimeout();
  http.headersTimeout = limit;
  await Promise.all(closed);

  // they leave while the server looks up their token
  for (let n = 0; n < 100; n++) {
    const socket = rawSocket();
    socket.write(upgradeText(token()));
    await once(socket, 'connect');
    if (n % 2 === 0) socket.resetAndDestroy();
    else socket.destroy();
  }
  await eventually('all are gone', async () => left() === 1, 8_000);
  await goesOn();
});

test('counts empty lines of a log like others, and bounds every batch', async () => {
  // no other test uses its token, which would replace the connection
  const agent = agents.at(-1)!;
  const session = new YamuxSession(byteStream(await dialAgent(server, agent.token)), { role: 'client' });
  const rpc = clientOf(session);
  const empty = (count: number) => Array.from({ length: count }, () => ({ output: '' }));
  await assert.rejects(async () => rpc.batchCreateLogs({ logs: empty(50_001) }), /at most 50000 are accepted/);
  for (let n = 0; n < 5; n++) await rpc.batchCreateLogs({ logs: empty(49_000) });
  const [row] = await server.services.sql<{ cut: boolean }[]>`SELECT log_cut_id IS NOT NULL AS cut
    FROM workspace_agents WHERE id = ${agent.id}`;
  assert.ok(row!.cut, 'the head is full');
  await rpc.batchCreateLogs({ logs: empty(10_000) });
  const [kept] = await server.services.sql<{ n: number }[]>`SELECT count(*)::int AS n FROM workspace_agent_logs
    WHERE agent_id = ${agent.id}`;
  assert.ok(kept!.n < 5 * 49_000 + 3_000, `${kept!.n} lines are kept`);
  await session.close();
});

test('leaves nothing behind after a thousand connects and drops', async () => {
  const round = async (count: number) => {
    for (let n = 0; n < count; n += 10) {
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          const connection = await dialAgent(server, token());
          connection.sendBinary(Buffer.concat([syn(1), data(1, invoke)]));
          connection.destroy();
        }),
      );
    }
    await eventually('all are gone', async () => left() === 1, 8_000);
  };
  await round(200);
  const handles = process.getActiveResourcesInfo().length;
  const [before, rss] = [await memory(), process.memoryUsage().rss];
  await round(1_000);
  const grown = (await memory()) - before;
  assert.ok(grown < 2 * MIB, `the heap grew by ${grown} bytes`);
  const rssGrown = process.memoryUsage().rss - rss;
  assert.ok(rssGrown < 64 * MIB, `the process grew by ${rssGrown} bytes`);
  await eventually('no handle is left', async () => process.getActiveResourcesInfo().length <= handles + 5);
  await goesOn();
});
