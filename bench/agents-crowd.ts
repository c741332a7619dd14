// Scripted agents, many in one separate process. They report like upstream's agents, and reconnect when disconnected.

import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

export interface CrowdOrder {
  url: string;
  tokens: string[];
  /** Time between two reports of metadata. Each report has every key. */
  metadataMs: number;
  /** Whether agents whose connection ended connect again. */
  again?: boolean;
}

export type CrowdReport =
  | { kind: 'ready'; ms: number; retries: number }
  /** An agent has connected again. */
  | { kind: 'again' }
  | { kind: 'lost'; reason: string }
  | { kind: 'broken'; reason: string };

const RETRY_MS = 500;

/** Resolves when the agent has reported its start, with the end of its connection. */
async function connect({ url, metadataMs }: CrowdOrder, token: string): Promise<{ ended: Promise<unknown> }> {
  const { connection } = await dialWebSocket(`${url}/api/v2/workspaceagents/me/rpc?version=2.6`, {
    headers: { Cookie: `coder_session_token=${token}` },
    timeoutMs: 60_000,
  });
  const session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
  const rpc = createDrpcClient(Agent, () => session.openStream());
  const [{ metadata, apps }] = await Promise.all([
    rpc.getManifest({}),
    rpc.getResourcesMonitoringConfiguration({}),
    rpc.getAnnouncementBanners({}),
  ]);
  await rpc.updateStartup({ startup: { version: 'v2.26.0', expandedDirectory: '/home/coder' } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.STARTING } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.READY } });
  await rpc.batchUpdateAppHealths({ updates: apps.map(({ id }) => ({ id, health: 3 })) });
  const { reportInterval } = await rpc.updateStats({});
  const statsMs = Number(reportInterval!.seconds) * 1_000;
  const lost = (err: unknown) => send({ kind: 'lost', reason: String(err) });
  const every = (ms: number, call: () => Promise<unknown>) => {
    const first = setTimeout(() => {
      call().catch(lost);
      const timer = setInterval(() => call().catch(lost), ms);
      void session.closed.then(() => clearInterval(timer));
    }, Math.random() * ms);
    void session.closed.then(() => clearTimeout(first));
  };
  every(statsMs, () => rpc.updateStats({ stats: { connectionMedianLatencyMs: -1 } }));
  every(metadataMs, () =>
    rpc.batchUpdateMetadata({
      metadata: metadata.map(({ key }) => ({ key, result: { value: `${Math.random()} of 100`, error: '' } })),
    }),
  );
  return { ended: session.closed.then(({ reason }) => lost(reason)) };
}

/** Connects an agent, with as many attempts as it takes. Returns their number. */
async function insist(order: CrowdOrder, token: string): Promise<number> {
  for (let tries = 0; ; tries++) {
    try {
      const { ended } = await connect(order, token);
      if (order.again)
        void ended
          .then(() => new Promise((done) => setTimeout(done, Math.random() * RETRY_MS)))
          .then(() => insist(order, token))
          .then(() => send({ kind: 'again' }));
      return tries;
    } catch (err) {
      if (tries > 20) {
        send({ kind: 'broken', reason: String(err) });
        return tries;
      }
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

function send(message: CrowdReport): void {
  if (process.connected) process.send!(message);
}

if (process.argv[1] === import.meta.filename && process.send) {
  process.on('disconnect', () => process.exit(0));
  process.on('message', async (order: CrowdOrder) => {
    const started = performance.now();
    const tries = await Promise.all(order.tokens.map((token) => insist(order, token)));
    const retries = tries.reduce((sum, each) => sum + each, 0);
    send({ kind: 'ready', ms: performance.now() - started, retries });
  });
}
