// own process: it looks at which modules its process has loaded
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { registerHooks } from 'node:module';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { silentLogger } from '@ropewalk/kit';
import { type Connection, Connection_Action, ManifestSchema } from '@ropewalk/wire/proto/agent';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { createActivity } from '../activity.ts';
import { createAgentMetrics } from '../metrics.ts';
import { AGENT_ID, startTestServer, TOKEN } from '../testing/server.ts';
import type { AgentClient } from '../wire-types.ts';
import type { Workspace } from '../workspace.ts';

const loaded = new Set<string>();
registerHooks({
  load: (url, context, next) => {
    loaded.add(url);
    return next(url, context);
  },
});
const isOfTailnet = () => [...loaded].some((url) => url.includes('/packages/tailnet/'));

// first: the other test loads the package
test('an agent loads nothing of the tailnet before the server asks for it', async (t) => {
  // after the hook, so that it sees what the agent imports
  const { runAgent } = await import('../agent.ts');
  const server = await startTestServer();
  const agent = runAgent({
    ...{ url: server.url, token: TOKEN, version: 'v0.1.0', log: silentLogger, devcontainers: false },
    env: { PATH: process.env['PATH'], HOME: '/', SHELL: '/bin/sh' },
  });
  t.after(async () => {
    await agent.stop();
    await server.close();
  });
  await server.until('ready', () => server.received.lifecycles.includes('READY'));
  assert.match(String(server.dials[0]!['platform-capabilities']), /tailnet\/1/);
  assert.ok(!isOfTailnet());
  const answered = await server.tunnel('tailnet');
  answered.destroy();
  await server.until('the package is loaded', isOfTailnet);
});

/** A coordinator and a relay behind their protocols, and one agent and one client that know them. */
async function setUp(t: TestContext, idleMs: number) {
  const { TailnetMembership } = await import('./membership.ts');
  const { addressOf, randomAddress, TAILNET_PREFIX } = await import('@ropewalk/tailnet/address');
  const { CoordinatorClient } = await import('@ropewalk/tailnet/coordinator/client');
  const { DerpRelay } = await import('@ropewalk/tailnet/derp/relay');
  const { KeyPair } = await import('@ropewalk/tailnet/keys');
  const { TailnetNode } = await import('@ropewalk/tailnet/node/tailnet-node');
  const { Stack } = await import('@ropewalk/tailnet/stack/stack');
  const { ControlServer } = await import('@ropewalk/tailnet/testing/control-server');
  const { RelayServer } = await import('@ropewalk/tailnet/testing/relay-server');
  const nodes = [{ name: '999b', regionId: 999n, hostName: 'elsewhere.example', derpPort: 1, stunPort: -1 }];
  const region = { regionId: 999n, embeddedRelay: true, regionName: 'Embedded', nodes };
  const control = new ControlServer({ homeParams: {}, regions: { 999: region } });
  const relay = new DerpRelay({ policy: control.coordinator });
  const { url } = await RelayServer.start(t, relay);
  const activity = createActivity(createAgentMetrics());
  const reports: Connection[] = [];
  const reporting = new AbortController();
  const server = {
    reportConnection: async ({ connection }: { connection: Connection }) => void reports.push(connection),
  };
  void activity.reportConnections(server as unknown as AgentClient, reporting.signal).catch(() => {});
  const membership = new TailnetMembership({
    ...{ log: silentLogger, idleMs, options: { url, log: silentLogger, version: 'v0.1.0' } },
    services: {
      activity,
      ssh: { serve: (stream) => void stream.end('SSH-2.0-x\r\n') },
      pty: () => {},
      devcontainers: undefined as never,
      sessions: new ResumableSessions(),
    },
  });
  const manifest = create(ManifestSchema, { agentId: AGENT_ID, disableDirectConnections: true });
  membership.setWorkspace({ manifest } as Workspace);
  const session = await control.dialAsAgent(AGENT_ID)();
  membership.setConnection(session as never, true);
  t.after(async () => {
    reporting.abort();
    await membership.close();
    await control.close();
    relay.close();
  });
  const ask = () =>
    membership.serve({ request: { service: 'tailnet' }, accept: () => duplexPair()[0], refuse: assert.fail });
  const agent = addressOf(TAILNET_PREFIX, AGENT_ID);
  const join = () => {
    // not nodeWithStack, whose stack would end the connections with a lost peer before the agent does
    const addresses = [randomAddress(TAILNET_PREFIX)];
    const stack = new Stack({ addresses, onPacket: (packet) => void node.send(packet) });
    const node = new TailnetNode({
      ...{ addresses, keys: KeyPair.generate(), id: 1n, blockDirect: true },
      onPacket: (packet) => stack.receive(packet),
    });
    const client = new CoordinatorClient({ node, role: 'client', serverUrl: url, dial: control.dialAsClient });
    client.addTunnel(AGENT_ID);
    void client.run();
    const leave = async () => {
      await client.close();
      stack.close();
      node.close();
    };
    t.after(leave);
    const reached = () =>
      eventually(() => {
        // as the server does while somebody wants the agent, which may have left as unused meanwhile
        ask();
        return stack.ping(agent, { timeoutMs: 200 }).then(
          () => true,
          () => false,
        );
      }, 'the agent answers');
    return { stack, client, leave, reached };
  };
  return { control, membership, join, agent, reports };
}

test('an agent joins when asked, cuts off clients that lose it, leaves when unused, and joins again', async (t) => {
  const { control, membership, join, agent, reports } = await setUp(t, 50);
  const sockets: Socket[] = [];
  const service = createServer((socket) => void sockets.push(socket.on('error', () => {}).resume())).listen(
    0,
    '127.0.0.1',
  );
  await once(service, 'listening');
  t.after(() => service.close());
  const { port } = service.address() as AddressInfo;
  const first = join();
  await first.reached();
  const stream = await first.stack.connect({ to: agent, port });
  stream.write('x');
  await eventually(() => (sockets[0]?.bytesRead ?? 0) > 0, 'the connection');
  // as the coordinator announces it when the client loses the right to reach the agent
  first.client.removeTunnel(AGENT_ID);
  await eventually(() => sockets[0]!.destroyed, 'the connection ends');
  stream.destroy();
  await eventually(() => reports.length === 2, 'both reports');
  const [began, ended] = reports;
  assert.match(began!.ip, /^fd7a:115c:a1e0:/);
  assert.deepEqual([began!.action, ended!.action], [Connection_Action.CONNECT, Connection_Action.DISCONNECT]);
  await first.leave();
  await eventually(() => !membership.isActive, 'the agent leaves');
  assert.equal(control.coordinator.size.peers, 0);
  const second = join();
  await second.reached();
  assert.ok(membership.isActive);
});
