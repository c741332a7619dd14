import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
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
  const http = createServer();
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return new ScriptedServer(http, capabilities);
}

class ScriptedServer implements TestServer {
  readonly url: string;
  readonly received: Received = {
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
  readonly dials: IncomingHttpHeaders[] = [];
  readonly reinits = new Set<ServerResponse>();
  manifest: MessageInitShape<typeof ManifestSchema> = {};
  refuse: number | undefined;
  handlers: DrpcHandlers<typeof AgentService> = { ...answers(() => this.manifest), ...recorders(this.received) };
  readonly #http: Server;
  readonly #capabilities: string;
  readonly #sockets = new Set<Socket>();
  /** The newest connection of the agent. */
  #session: YamuxSession | undefined;

  constructor(http: Server, capabilities: string) {
    this.#http = http;
    this.#capabilities = capabilities;
    this.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    http.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    http.on('request', (req, res) => this.#serveReinit(req, res));
    http.on('upgrade', (req, socket, head) => this.#acceptAgent(req, socket, head));
  }

  #serveReinit(req: IncomingMessage, res: ServerResponse): void {
    if (req.url !== '/api/v2/workspaceagents/me/reinit') {
      res.writeHead(404).end('{"message":"no such route"}');
      return;
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write('event: ping\n\n');
    this.reinits.add(res);
    res.on('close', () => this.reinits.delete(res));
  }

  #acceptAgent(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.dials.push(req.headers);
    if (this.refuse) return void refuseUpgrade(socket, this.refuse, { message: 'rejected by the test' });
    const headers: Record<string, string> = this.#capabilities ? { [CAPABILITIES_HEADER]: this.#capabilities } : {};
    const connection = acceptWebSocket(req, socket, head, { headers });
    const options = { role: 'server', keepAlive: false, maxWindow: 1024 * 1024 } as const;
    this.#session = new YamuxSession(byteStream(connection), options);
    serveDrpc(this.#session, [implement(Agent, this.handlers)]);
  }

  tunnel(service = 'ssh', more: Record<string, unknown> = {}): Promise<Duplex> {
    return requestTunnel(this.#session!, { ...more, service });
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async until(what: string, condition: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
    const end = performance.now() + timeoutMs;
    while (!(await condition())) {
      if (performance.now() > end)
        throw new Error(`not within ${timeoutMs} ms: ${what}; received: ${describe(this.received)}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async close(): Promise<void> {
    this.cut();
    this.#http.close();
    this.#http.closeAllConnections();
    await once(this.#http, 'close');
  }
}

/** Answers what the agent asks for. `manifest` overrides parts of the manifest. */
function answers(manifest: () => MessageInitShape<typeof ManifestSchema>): DrpcHandlers<typeof AgentService> {
  return {
    getManifest: () =>
      create(ManifestSchema, {
        agentId: AGENT_ID,
        agentName: 'main',
        ownerUsername: 'ann',
        workspaceId: AGENT_ID,
        workspaceName: 'dev',
        ...manifest(),
      } as MessageInitShape<typeof ManifestSchema>),
    getServiceBanner: () => ({}),
    getAnnouncementBanners: () => ({ announcementBanners: [] }),
    getResourcesMonitoringConfiguration: () => ({
      config: { numDatapoints: 2, collectionIntervalSeconds: 1 },
      memory: { enabled: true },
      volumes: [{ enabled: true, path: '/' }],
    }),
  };
}

/** Records what the agent reports. */
function recorders(received: Received): DrpcHandlers<typeof AgentService> {
  return {
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
    pushResourcesMonitoringUsage: ({ datapoints }) => {
      received.usage.push(datapoints);
      return {};
    },
    reportConnection: ({ connection }) => {
      received.connections.push(connection!);
      return {};
    },
  };
}

function describe(received: Received): string {
  return JSON.stringify(received, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value)).slice(
    0,
    2_000,
  );
}
