import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { createTestTemplate, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { acceptTunnel } from '@ropewalk/wire/tunnel';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { Departure } from '../rpc/departure.ts';
import { dialAgent, type MadeAgent, makeAgents, refusal } from '../rpc/testing/agents.ts';
import { joinDaemon } from '../rpc/testing/daemons.ts';
import { Leaving } from './leaving.ts';

const PSK = 'a pre-shared key';
/** Longer than a test takes. */
const env = { CODER_PROVISIONER_DAEMON_PSK: PSK, CODER_SHUTDOWN_DELAY: '10m' };

let one: TestServer;
let agents: MadeAgent[];
before(async () => {
  one = await startTestServer({ env });
  const template = await createTestTemplate(one, 'moving');
  agents = (await makeAgents(one, template, 'dev', { count: 3 })).agents;
});
after(() => end(one));

/** Ends a server, also one that drains: the second call ends the delay. */
async function end(server: TestServer): Promise<void> {
  void server.drain();
  await server.drain();
  await server.stop();
}

/** Another server, until the test ends or `end`. */
async function another(t: TestContext): Promise<{ server: TestServer; end(): Promise<void> }> {
  const server = await startTestServer({ joins: one, env });
  let ended: Promise<void> | undefined;
  const endOnce = () => (ended ??= end(server));
  t.after(endOnce);
  return { server, end: endOnce };
}

/** How long each step may take. */
const SOON_MS = 10_000;

interface Connected {
  session: YamuxSession;
  /** How often the server asked it to move. */
  asked(): number;
}

/** Connects an agent to a server. It sends back what it receives. `moves`: whether it has the service for moving. */
async function connectAgent(server: TestServer, { token }: MadeAgent, { moves = true } = {}): Promise<Connected> {
  let asked = 0;
  const options = { capabilities: 'tunnel/1, resume/1', role: 'agent' };
  const session = new YamuxSession(byteStream(await dialAgent(server, token, options)), {
    role: 'client',
    keepAlive: false,
    onStream: (stream) =>
      void acceptTunnel(stream).then((tunnel) => {
        const { service } = tunnel.request;
        if (service === 'move') asked += 1;
        if (service !== 'ssh' && !(service === 'move' && moves)) return tunnel.refuse('not here');
        const inside = tunnel.accept();
        inside.on('error', () => {});
        inside.pipe(inside);
      }),
  });
  return { session, asked: () => asked };
}

/** A tunnel through a server to the agent, on which a text was echoed. */
async function tunnel(server: TestServer, { id }: MadeAgent) {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${id}/tunnel?service=ssh`, {
    headers: { 'Coder-Session-Token': one.adminToken },
  });
  const stream = byteStream(connection);
  const echo = async (text: string) => {
    stream.write(text);
    for await (const data of stream.iterator({ destroyOnReturn: false })) return String(data);
    return undefined;
  };
  assert.equal(await echo('begun'), 'begun');
  return { stream, echo };
}

const LEAVING = 'The server is shutting down. Connect again to reach another server.';

test('a server that drains moves its agents and daemons, and open tunnels stay', async (t) => {
  const [{ server: two }, { server: three }] = [await another(t), await another(t)];
  const [agent, earlier] = agents as [MadeAgent, MadeAgent];
  const there = await connectAgent(two, agent);
  const old = await connectAgent(two, earlier, { moves: false });
  const kept = await tunnel(two, agent);
  const { session: daemon } = await joinDaemon(two, 'mover', { psk: PSK });
  void two.drain();

  await eventually('the agent is asked to move', () => there.asked() === 1, SOON_MS);
  await Promise.all([daemon.closed, old.session.closed]);
  assert.deepEqual(await refusal(dialAgent(two, agent.token)), { status: 503, message: LEAVING });
  const rejected = await refusal(joinDaemon(two, 'mover', { psk: PSK }));
  assert.deepEqual(rejected, { status: 503, message: LEAVING });
  assert.equal(there.session.isClosed, false, 'its connection stays until it has another one');
  assert.equal(await kept.echo('waiting'), 'waiting');

  const here = await connectAgent(three, agent);
  // each server reaches it at its new place
  for (const server of [two, three, one])
    await eventually('a new tunnel uses the new connection', async () => {
      const before = here.session.streamCount;
      const { stream } = await tunnel(server, agent);
      const isNew = here.session.streamCount > before;
      stream.destroy();
      return isNew;
    });
  assert.equal(await kept.echo('still open'), 'still open');
  assert.equal(there.session.isClosed, false);
  kept.stream.destroy();
  await there.session.closed;
  assert.equal(here.session.isClosed, false);
  assert.equal(here.asked(), 0);
  (await joinDaemon(three, 'mover', { psk: PSK })).session.close();

  // the others drain, too: the last one keeps what it has
  void three.drain();
  await eventually('the agent is asked to move', () => here.asked() === 1, SOON_MS);
  const last = await connectAgent(one, agent);
  await here.session.closed;
  last.session.close();
});

test('without another server that is ready, agents stay, until there is one', async (t) => {
  const { server: two } = await another(t);
  const agent = agents[2]!;
  const there = await connectAgent(two, agent);
  const kept = await tunnel(two, agent);
  void one.drain();
  await eventually('it rejects agents', async () => {
    const connection = await dialAgent(one, agent.token).catch(() => undefined);
    connection?.destroy();
    return !connection;
  });
  assert.deepEqual(await refusal(dialAgent(one, agent.token)), { status: 503, message: LEAVING });
  void two.drain();
  // the other server drains, too, so agents stay until a third one is ready
  const again = await connectAgent(two, agent);
  await there.session.closed;
  assert.equal(there.asked(), 0);
  kept.stream.destroy();
  const three = await another(t);
  await eventually('it is asked to move', () => again.asked() === 1, 20_000);
  assert.deepEqual(await refusal(dialAgent(two, agent.token)), { status: 503, message: LEAVING });
  await three.end();
  await eventually(
    'agents are accepted again',
    async () => {
      const { session } = await connectAgent(two, agent).catch(() => ({ session: undefined }));
      session?.close();
      return session;
    },
    30_000,
  );
});

test('asks again if the other servers changed while it asked, such as one that has just started', async () => {
  let changed = () => {};
  const answers = [Promise.withResolvers<boolean>(), Promise.withResolvers<boolean>()];
  let asked = 0;
  const departure = new Departure();
  const leaving = new Leaving({
    peers: {
      watch(watcher) {
        changed = () => watcher([]);
        changed();
      },
      refresh: async () => changed(),
      isAnyReady: () => answers[asked++]!.promise,
    },
    departure,
    log: silentLogger,
  });
  leaving.begin();
  await eventually('the first servers are asked', () => asked === 1);
  // the rows named a new server meanwhile
  answers[0]!.resolve(false);
  answers[1]!.resolve(true);
  await eventually('the departure begins', () => departure.isOn, 2_000);
  leaving.end();
});
