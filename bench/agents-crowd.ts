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
}

export type CrowdReport =
  | { kind: 'ready'; ms: number; retries: number }
  | { kind: 'lost'; reason: string }
  | { kind: 'broken'; reason: string };

const RETRY_MS = 500;

async function connect(url: string, token: string, metadataMs: number): Promise<void> {
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
  void session.closed.then(({ reason }) => lost(reason));
}

function send(message: CrowdReport): void {
  if (process.connected) process.send!(message);
}

if (process.argv[1] === import.meta.filename && process.send) {
  process.on('disconnect', () => process.exit(0));
  process.on('message', async ({ url, tokens, metadataMs }: CrowdOrder) => {
    const started = performance.now();
    let retries = 0;
    await Promise.all(
      tokens.map(async (token) => {
        for (let tries = 0; ; tries++) {
          try {
            return await connect(url, token, metadataMs);
          } catch (err) {
            retries++;
            if (tries > 20) return send({ kind: 'broken', reason: String(err) });
            await new Promise((done) => setTimeout(done, RETRY_MS));
          }
        }
      }),
    );
    send({ kind: 'ready', ms: performance.now() - started, retries });
  });
}
