import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { encodeNodeKey, formatDiscoKey, KeyPair } from '@ropewalk/tailnet/keys';
import { createTestTemplate, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Tailnet } from '@ropewalk/wire/proto/tailnet';
import { acceptWebSocket, byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { encodeHeader, FLAG, TYPE } from '@ropewalk/wire/yamux/frames';
import { findAgentForToken } from '../../app/find/agent.ts';
import { countConnections } from '../../db/queries/agents.ts';
import { dialAgent, makeAgents, refusal } from '../testing/agents.ts';
import { Peer } from '../testing/peer.ts';
import { createAgentConnections } from './connections.ts';

// Agents that tunnels do not reach: upstream's, which offer none, and those that have gone silent.

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('answers the calls of an agent without tunnels, and opens no stream to it', async (t) => {
  const template = await createTestTemplate(server, 'published');
  const { agents } = await makeAgents(server, template, 'published');
  const { id, token } = agents[0]!;
  let opened = 0;
  const session = new YamuxSession(byteStream(await dialAgent(server, token, { ours: false })), {
    role: 'client',
    keepAlive: false,
    onStream: () => opened++,
  });
  t.after(() => session.destroy());
  const tailnet = createDrpcClient(Tailnet, () => session.openStream());
  const maps = tailnet.streamDERPMaps({});
  assert.ok((await maps.receive())?.homeParams, "without it upstream's agent exits");
  let ended = false;
  const end = () => {
    ended = true;
  };
  void maps.receive().then(end, end);
  const coordinate = tailnet.coordinate();
  const { publicKey } = KeyPair.generate();
  const [key, disco] = [encodeNodeKey(publicKey), formatDiscoKey(publicKey)];
  await coordinate.send({ updateSelf: { node: { preferredDerp: 1, key, disco } } });
  void coordinate.receive().then(end, end);

  const from = performance.now();
  for (const way of ['tunnel?service=ssh', 'tunnel?service=tcp&port=22']) {
    const dial = dialWebSocket(`${server.url}/api/v2/workspaceagents/${id}/${way}`, {
      headers: { 'Coder-Session-Token': server.adminToken },
    });
    const { status, message } = await refusal(dial.then(({ connection }) => connection.destroy()));
    assert.equal(status, 501, way);
    assert.match(message, /has no tunnels/, way);
  }
  // its own reports are shown all the same
  const watching = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${id}/watch-metadata-ws`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  t.after(() => watching.connection.destroy());
  watching.connection.on('text', () => {});
  const { body } = await server.api<{ health: { healthy: boolean; reason?: string } }>('GET', `/workspaceagents/${id}`);
  assert.deepEqual(body.health, { healthy: true });
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, 3_000 - (performance.now() - from))));
  assert.equal(opened, 0);
  assert.equal(ended, false, 'its two streams stay open');
  assert.equal(session.isClosed, false);
});

test('ends the connection of an agent after two unanswered pings, and keeps one that answers', async (t) => {
  const template = await createTestTemplate(server, 'silent');
  const { agents } = await makeAgents(server, template, 'silent', { count: 2 });
  const everyMs = 150;
  const connections = createAgentConnections(server.services, { aliveEveryMs: everyMs });
  const http = createHttpServer();
  http.on('upgrade', (request, socket, head) => {
    void (async () => {
      const agent = await findAgentForToken(server.services, String(request.headers['x-token']));
      const { replicaId } = server.services;
      const traits = { reachable: true, version: '2.6', capabilities: [], replicaId };
      const [number] = await countConnections(server.services.sql, [{ agent, traits, hostKey: '' }]);
      const admitted = { is: 'agent' as const, number: number! };
      await connections.serve(acceptWebSocket(request, socket, head), agent, admitted, 'tunnel/1');
    })();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const join = async (token: string) => {
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
    return new Peer((await dialWebSocket(url, { headers: { 'X-Token': token } })).connection);
  };
  const [silent, answers] = await Promise.all(agents.map(({ token }) => join(token)));
  t.after(async () => {
    silent!.connection.destroy();
    answers!.connection.destroy();
    await connections.close();
    http.close();
  });
  let answered = 0;
  answers!.connection.on('binary', () => {
    for (const { type, flags, length } of answers!.headers.slice(answered)) {
      if (type === TYPE.ping && flags === FLAG.syn) answers!.send(encodeHeader(TYPE.ping, FLAG.ack, 0, length));
    }
    answered = answers!.headers.length;
  });
  await eventually('both are there', async () => agents.every(({ id }) => connections.connected(id)));
  // it reads and answers nothing from now on, like a machine that is gone
  silent!.connection.pause();
  await eventually('it is let go', async () => !connections.connected(agents[0]!.id), 9_000);
  await eventually('more tries of the other', async () => answered > 8, 5_000);
  assert.ok(connections.connected(agents[1]!.id));
});
