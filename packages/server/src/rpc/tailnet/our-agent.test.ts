import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import type { WorkspaceAgent } from '@ropewalk/contract';
import { addressOf, TAILNET_PREFIX } from '@ropewalk/tailnet/address';
import { CoordinatorClient } from '@ropewalk/tailnet/coordinator/client';
import { nodeWithStack } from '@ropewalk/tailnet/node/node-with-stack';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import type { Stack } from '@ropewalk/tailnet/stack/stack';
import type { TcpStream } from '@ropewalk/tailnet/stack/tcp/stream';
import {
  eventually,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { uuidBytes } from '@ropewalk/wire/uuid';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import type { AgentNetwork, AgentRow } from '../../db/rows.ts';

// A client of the tailnet reaches this platform's agent, against a whole server.

let server: TestServer;
let workspace: TestWorkspace;
before(async () => {
  server = await startTestServer({ env: { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' } });
  workspace = await startTestWorkspace(server, 'joins');
});
after(async () => {
  await workspace.stop();
  await server.stop();
});

interface Client {
  node: TailnetNode;
  stack: Stack;
  coordinator: CoordinatorClient;
  agent: Buffer;
}

/** A client, as upstream's command has it, that asks for the agent. */
function joinAsClient(t: TestContext, agentId = workspace.agentId): Client {
  const { node, stack } = nodeWithStack({ blockDirect: true });
  const coordinator = new CoordinatorClient({
    ...{ node, role: 'client', serverUrl: server.url },
    dial: async ({ signal }) => {
      const { connection } = await dialWebSocket(
        `${server.url}/api/v2/workspaceagents/${agentId}/coordinate?version=2.0`,
        { headers: { 'Coder-Session-Token': server.adminToken }, signal },
      );
      const session = new YamuxSession(byteStream(connection), { role: 'client' });
      return { openStream: () => session.openStream(), close: () => void session.close() };
    },
  });
  coordinator.addTunnel(uuidBytes(agentId));
  void coordinator.run();
  t.after(async () => {
    await coordinator.close();
    stack.close();
    node.close();
  });
  return { node, stack, coordinator, agent: addressOf(TAILNET_PREFIX, uuidBytes(agentId)) };
}

/** Waits until the agent answers. */
async function reached(t: TestContext): Promise<Client> {
  const client = joinAsClient(t);
  await eventually('the agent answers', async () =>
    client.stack.ping(client.agent, { timeoutMs: 200 }).then(
      () => true,
      () => false,
    ),
  );
  return client;
}

async function firstBytes(stream: TcpStream, length: number): Promise<string> {
  let text = '';
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    text += (chunk as Buffer).toString('latin1');
    if (text.length >= length) break;
  }
  return text;
}

test('an agent joins when a client wants it, and serves SSH and the ports of its loopback', async (t) => {
  const echo = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  t.after(() => echo.close());
  const { port } = echo.address() as AddressInfo;
  const { stack, agent } = await reached(t);
  for (const ssh of [1, 22]) {
    const stream = await stack.connect({ to: agent, port: ssh });
    assert.match(await firstBytes(stream, 8), /^SSH-2\.0-/);
    stream.destroy();
  }
  const forwarded = await stack.connect({ to: agent, port });
  forwarded.write('through the tailnet');
  assert.equal(await firstBytes(forwarded, 19), 'through the tailnet');
  forwarded.end();
  await once(forwarded.resume(), 'close');
  const bare = createServer().listen(0, '127.0.0.1');
  await once(bare, 'listening');
  const { port: free } = bare.address() as AddressInfo;
  bare.close();
  await once(bare, 'close');
  for (const refused of [free, 5, 8])
    await assert.rejects(stack.connect({ to: agent, port: refused }), { code: 'ECONNREFUSED' });
});

test("shows the agent's latency to relays, before and after it joins", async (t) => {
  const other = await startTestWorkspace(server, 'measured');
  t.after(() => other.stop());
  const { sql, events } = server.services;
  const { id, owner_id } = other.workspace;
  const latency = (what: string, isIt: (network: AgentNetwork) => boolean) =>
    eventually(what, async () => {
      // the server stores it when it looks at the agents of a workspace again
      await events.publish(sql, 'workspace_changed', { workspace_id: id, owner_id, agents_outdated: true });
      const [row] = await sql<
        Pick<AgentRow, 'network'>[]
      >`SELECT network FROM workspace_agents WHERE id = ${other.agentId}`;
      if (!row?.network || !isIt(row.network)) return undefined;
      const { body } = await server.api<WorkspaceAgent>('GET', `/workspaceagents/${other.agentId}`);
      return body.latency;
    });
  const before = await latency('a round trip', ({ node }) => node === null);
  joinAsClient(t, other.agentId);
  const after = await latency(
    'a node with a latency',
    ({ node, home, latencies }) => node !== null && home in latencies,
  );
  for (const shown of [before, after]) {
    assert.deepEqual(Object.keys(shown), ['Coder Embedded Relay']);
    const { latency_ms: ms, preferred } = shown['Coder Embedded Relay']!;
    assert.ok(ms > 0 && ms < 10_000 && preferred, String(ms));
  }
  await sql`UPDATE workspace_agents SET disconnected_at = now() WHERE id = ${other.agentId}`;
  const { body: gone } = await server.api<WorkspaceAgent>('GET', `/workspaceagents/${other.agentId}`);
  assert.equal(gone.latency, undefined);
});

test('offers the direct path with a tunnel, unless the server blocks it', async (t) => {
  const offered = async (of: TestServer, agentId: string) => {
    const path = `/workspaceagents/${agentId}/tunnel?service=ping&resume=new`;
    const { connection, responseHeaders } = await dialWebSocket(`${of.url}/api/v2${path}`, {
      headers: { 'Coder-Session-Token': of.adminToken },
    });
    connection.close();
    return responseHeaders['platform-capabilities'];
  };
  assert.equal(await offered(server, workspace.agentId), 'resume/1, direct/1');
  const blocking = await startTestServer({
    env: { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable', CODER_BLOCK_DIRECT: 'true' },
  });
  t.after(() => blocking.stop());
  const other = await startTestWorkspace(blocking, 'blocked');
  t.after(() => other.stop());
  assert.equal(await offered(blocking, other.agentId), 'resume/1');
});
