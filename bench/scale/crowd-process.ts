// Scripted agents, many in one separate process. They report like upstream's agents, and reconnect when disconnected.

import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { Histogram, type Times } from './histogram.ts';

export interface CrowdOrder {
  url: string;
  tokens: string[];
  /** Time between two reports of metadata. Each report has every key. */
  metadataMs: number;
  /** Time between two batches of log lines. Default: no logs. */
  logsMs?: number;
  /** Time between two changes of an app's health. Default: no changes after the first. */
  healthMs?: number;
  /** How many connect at the same time. Default: all. */
  atOnce?: number;
  /** Whether agents whose connection ended connect again. */
  again?: boolean;
}

export type CrowdReport =
  /** All have connected. The times are those of each agent, from its first attempt until it has reported its start. */
  | { kind: 'ready'; ms: number; retries: number; connecting: Times }
  /** An agent has connected again. */
  | { kind: 'again' }
  | { kind: 'lost'; reason: string }
  | { kind: 'broken'; reason: string };

/** Ends the connections of this share of the agents. */
export interface CrowdCut {
  cut: number;
}

const RETRY_MS = 500;
const LINES = 5;
const HEALTHY = 3;
const UNHEALTHY = 4;

const connecting = new Histogram();
const sessions = new Set<YamuxSession>();

/** Resolves when the agent has reported its start, with the end of its connection. */
async function connect(order: CrowdOrder, token: string): Promise<{ ended: Promise<unknown> }> {
  const { url, metadataMs, logsMs, healthMs } = order;
  const { connection } = await dialWebSocket(`${url}/api/v2/workspaceagents/me/rpc?version=2.6`, {
    headers: { Cookie: `coder_session_token=${token}` },
    timeoutMs: 60_000,
  });
  const session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
  sessions.add(session);
  void session.closed.then(() => sessions.delete(session));
  const rpc = createDrpcClient(Agent, () => session.openStream());
  const [{ metadata, apps }] = await Promise.all([
    rpc.getManifest({}),
    rpc.getResourcesMonitoringConfiguration({}),
    rpc.getAnnouncementBanners({}),
  ]);
  await rpc.updateStartup({ startup: { version: 'v2.26.0', expandedDirectory: '/home/coder' } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.STARTING } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.READY } });
  await rpc.batchUpdateAppHealths({ updates: apps.map(({ id }) => ({ id, health: HEALTHY })) });
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
  if (logsMs) every(logsMs, () => rpc.batchCreateLogs({ logs: logLines() }));
  let healthy = true;
  const change = () => {
    healthy = !healthy;
    return rpc.batchUpdateAppHealths({
      updates: apps.map(({ id }) => ({ id, health: healthy ? HEALTHY : UNHEALTHY })),
    });
  };
  if (healthMs) every(healthMs, change);
  return { ended: session.closed.then(({ reason }) => lost(reason)) };
}

function logLines() {
  const createdAt = { seconds: BigInt(Math.floor(Date.now() / 1_000)), nanos: 0 };
  return Array.from({ length: LINES }, (_, i) => ({ createdAt, output: `line ${i} of a script that runs`, level: 3 }));
}

/** Connects an agent, with as many attempts as it takes. Returns their number. */
async function insist(order: CrowdOrder, token: string): Promise<number> {
  const started = performance.now();
  for (let tries = 0; ; tries++) {
    try {
      const { ended } = await connect(order, token);
      connecting.record(performance.now() - started);
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
  process.on('message', async (order: CrowdOrder | CrowdCut) => {
    if ('cut' in order) {
      for (const session of [...sessions].slice(0, Math.ceil(order.cut * sessions.size))) void session.close();
      return;
    }
    const started = performance.now();
    const left = [...order.tokens];
    const tries: number[] = [];
    const next = async (): Promise<void> => {
      for (let token = left.pop(); token; token = left.pop()) tries.push(await insist(order, token));
    };
    await Promise.all(Array.from({ length: order.atOnce ?? left.length }, next));
    const retries = tries.reduce((sum, each) => sum + each, 0);
    send({ kind: 'ready', ms: performance.now() - started, retries, connecting: connecting.toJSON() });
  });
}
