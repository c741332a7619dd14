import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { CAPABILITIES_HEADER } from '@ropewalk/wire/capabilities';
import { type DrpcHandlers, implement, serveDrpc } from '@ropewalk/wire/drpc';
import {
  Agent,
  type Agent as AgentService,
  type BatchUpdateAppHealthRequest,
  type Connection,
  Lifecycle_State,
  type Log_Level,
  ManifestSchema,
  type Metadata,
  type PushResourcesMonitoringUsageRequest_Datapoint,
  type Startup,
  type Stats,
  type Timing,
} from '@ropewalk/wire/proto/agent';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { acceptWebSocket, byteStream, refuseUpgrade } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';

export const TOKEN = '6a1f0c7e-53c5-4c56-9ad1-0d3bd1b1a001';
export const AGENT_ID = Buffer.from('11111111111111111111111111111111', 'hex');

/** What a server has received from the agent. */
export interface Received {
  startups: Startup[];
  lifecycles: string[];
  logs: { source: string; level: Log_Level; output: string }[];
  timings: Timing[];
  stats: (Stats | undefined)[];
  metadata: Metadata[];
  healths: BatchUpdateAppHealthRequest[];
  connections: Connection[];
  usage: PushResourcesMonitoringUsageRequest_Datapoint[][];
}

/** The server's side, scripted: real HTTP, WebSocket, yamux and DRPC. */
export interface TestServer {
  url: string;
  received: Received;
  /** The headers of each connection so far. */
  dials: IncomingHttpHeaders[];
  manifest: MessageInitShape<typeof ManifestSchema>;
  handlers: DrpcHandlers<typeof AgentService>;
  /** Answers with this status instead of 101. */
  refuse: number | undefined;
  tunnel(service?: string, more?: Record<string, unknown>): Promise<Duplex>;
  /** Open event streams that wait for the event to start over. */
  reinits: ReadonlySet<ServerResponse>;
  /** Cuts the agent's connection without a close frame. */
  cut(): void;
  /** Resolves when the condition holds. Polls, with a deadline. */
  until(what: string, condition: () => boolean | Promise<boolean>, timeoutMs?: number): Promise<void>;
  close(): Promise<void>;
}

export async function startTestServer(capabilities = 'tunnel/1'): Promise<TestServer> {
  const streams = new Set<ServerResponse>();
  const http = createServer((req, res) => {
    if (req.url !== '/api/v2/workspaceagents/me/reinit') {
      res.writeHead(404).end('{"message":"no such route"}');
      return;
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write('event: ping\n\n');
    streams.add(res);
    res.on('close', () => streams.delete(res));
  });
  const sockets = new Set<Socket>();
  http.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  let session: YamuxSession | undefined;
  const received: Received = {
    startups: [],
    lifecycles: [],
    logs: [],
    timings: [],
    stats: [],
    metadata: [],
    healths: [],
    connections: [],
    usage: [],
  };
  const server: TestServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    received,
    dials: [],
    manifest: {},
    refuse: undefined,
    handlers: {
      getManifest: () =>
        create(ManifestSchema, {
          agentId: AGENT_ID,
          agentName: 'main',
          ownerUsername: 'ann',
          workspaceId: AGENT_ID,
          workspaceName: 'dev',
          ...server.manifest,
        } as MessageInitShape<typeof ManifestSchema>),
      getServiceBanner: () => ({}),
      getAnnouncementBanners: () => ({ announcementBanners: [] }),
      updateStartup: ({ startup }) => {
        received.startups.push(startup!);
        return startup!;
      },
      updateLifecycle: ({ lifecycle }) => {
        received.lifecycles.push(Lifecycle_State[lifecycle!.state]!);
        return lifecycle!;
      },
      batchCreateLogs: ({ logSourceId, logs }) => {
        const source = Buffer.from(logSourceId).toString('hex');
        for (const { level, output } of logs) received.logs.push({ source, level, output });
        return {};
      },
      scriptCompleted: ({ timing }) => {
        received.timings.push(timing!);
        return {};
      },
      updateStats: ({ stats }) => {
        received.stats.push(stats);
        return { reportInterval: { seconds: 0n, nanos: 200_000_000 } };
      },
      batchUpdateMetadata: ({ metadata }) => {
        received.metadata.push(...metadata);
        return {};
      },
      batchUpdateAppHealths: (request) => {
        received.healths.push(request);
        return {};
      },
      getResourcesMonitoringConfiguration: () => ({
        config: { numDatapoints: 2, collectionIntervalSeconds: 1 },
        memory: { enabled: true },
        volumes: [{ enabled: true, path: '/' }],
      }),
      pushResourcesMonitoringUsage: ({ datapoints }) => {
        received.usage.push(datapoints);
        return {};
      },
      reportConnection: ({ connection }) => {
        received.connections.push(connection!);
        return {};
      },
    },
    reinits: streams,
    tunnel: (service = 'ssh', more = {}) => requestTunnel(session!, { ...more, service }),
    cut: () => {
      for (const socket of sockets) socket.destroy();
    },
    async until(what, condition, timeoutMs = 60_000) {
      const end = performance.now() + timeoutMs;
      while (!(await condition())) {
        if (performance.now() > end)
          throw new Error(`not within ${timeoutMs} ms: ${what}; received: ${describe(received)}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    async close() {
      server.cut();
      http.close();
      http.closeAllConnections();
      await once(http, 'close');
    },
  };
  http.on('upgrade', (req, socket, head) => {
    server.dials.push(req.headers);
    if (server.refuse) return refuseUpgrade(socket, server.refuse, { message: 'rejected by the test' });
    const headers: Record<string, string> = capabilities ? { [CAPABILITIES_HEADER]: capabilities } : {};
    const connection = acceptWebSocket(req, socket, head, { headers });
    session = new YamuxSession(byteStream(connection), { role: 'server', keepAlive: false, maxWindow: 1024 * 1024 });
    serveDrpc(session, [implement(Agent, server.handlers)]);
  });
  return server;
}

function describe(received: Received): string {
  return JSON.stringify(received, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)).slice(
    0,
    2_000,
  );
}
