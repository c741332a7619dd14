import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { BuildInfoResponse, ProxyHealthReport } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { CLIENT_PATH, PROXY_AGENT_PATH } from '@ropewalk/wire/proxy-link';
import {
  acceptWebSocket,
  refuseUpgrade,
  type WebSocketConnection,
  WebSocketUpgradeError,
} from '@ropewalk/wire/websocket';
import { strictTransportSecurity } from '../http/access-url.ts';
import { refuse } from '../http/apps/pages.ts';
import type { AppProxy } from '../http/apps/proxy.ts';
import { LATENCY_HEADERS } from '../http/latency-check.ts';
import { LISTENER } from '../http/listener.ts';
import { UPGRADE_REQUIRED } from '../http/relay-upgrade.ts';
import { statusOf } from '../http/status.ts';
import { SIBLING_PATH } from './siblings.ts';

/** The route of an agent's terminal, as the server has it. */
const TERMINAL = /^\/api\/v2\/workspaceagents\/([0-9a-f-]{36})\/pty$/i;
/** As for the server's own terminals, in bytes. */
const MAX_MESSAGE_BYTES = 64 * 1024;

/** The routes that the relays of servers have, too. */
const RELAY_PATH = '/derp';
const RELAY_LATENCY_PATH = '/derp/latency-check';

export interface ListenerParts {
  /** Undefined for a proxy that is only a relay. */
  apps: AppProxy | undefined;
  /** Serves the connection of a node to the relay. Undefined for a proxy without one. @throws AppError */
  relay: ((request: IncomingMessage, socket: Duplex, head: Buffer) => void) | undefined;
  /** Of the server, where people find the dashboard. */
  primaryUrl: string;
  buildInfo: BuildInfoResponse;
  strictTransportSecurity: number;
  strictTransportSecurityOptions: readonly string[];
  /** What the health check of the server reads. */
  report(): ProxyHealthReport;
  /**
   * Whether this process has been connected and registered. It stays ready while the server is away: its pages say why, and
   * what is open continues.
   */
  hasBeenReady(): boolean;
  /**
   * Opens the terminal of an agent, and serves the connection of the browser, which `accept` answers then.
   * @throws AppError
   */
  terminal(
    agentId: string,
    request: IncomingMessage,
    signal: AbortSignal,
    accept: () => WebSocketConnection,
  ): Promise<void>;
  /** Accepts the connection of an agent. @throws AppError */
  agent(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Accepts the connection of another process of this proxy. @throws AppError */
  sibling(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Opens the tunnel of a client that has a permit, and serves its connection. @throws AppError */
  client(request: IncomingMessage, signal: AbortSignal, accept: () => WebSocketConnection): Promise<void>;
  toError(thrown: unknown, context: Record<string, unknown>): AppError;
}

/** The HTTP server of a workspace proxy: apps, terminals, tunnels and a relay, and little else. */
export function createProxyListener(parts: ListenerParts): Server {
  const onlyHttps = strictTransportSecurity(parts.strictTransportSecurity, parts.strictTransportSecurityOptions);
  const take = (request: IncomingMessage, response: ServerResponse) => {
    if (onlyHttps !== undefined) response.setHeader('Strict-Transport-Security', onlyHttps);
    if (parts.apps?.request(request, response)) return;
    if (request.headers.expect !== undefined) response.writeContinue();
    request.resume();
    answer(parts, request, response);
  };
  const server = createServer(LISTENER, take);
  server.on('checkContinue', take);
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (parts.apps?.upgrade(request, socket, head)) return;
    socket.on('error', () => socket.destroy());
    void upgrade(parts, request, socket, head);
  });
  return server;
}

const NO_RELAY = 'This workspace proxy runs no relay.\n';
const ONLY_RELAY = {
  title: 'This workspace proxy is only a relay.',
  detail: 'It serves no apps and terminals (--derp-only). Open them at the server, or choose another region there.',
};

const pathOf = (request: IncomingMessage) => request.url!.split('?', 1)[0]!;

function answer(parts: ListenerParts, request: IncomingMessage, response: ServerResponse): void {
  const path = pathOf(request).replace(/(.)\/$/, '$1');
  const send = (status: number, type: string, body: string, headers: Record<string, string> = {}) =>
    response
      .writeHead(status, { 'Content-Type': `${type}; charset=utf-8`, 'Cache-Control': 'no-store', ...headers })
      .end(request.method === 'HEAD' ? undefined : body);
  const version = { 'X-Coder-Build-Version': parts.buildInfo.version };
  switch (path) {
    case '/healthz':
      return void send(200, 'text/plain', 'OK');
    case '/readyz':
      if (parts.hasBeenReady()) return void send(200, 'text/plain', 'OK');
      refuse(request, response, {
        status: 503,
        title: 'This workspace proxy has not reached its server yet.',
        detail: parts.report().errors[0],
      });
      return;
    case '/healthz-report':
      return void send(200, 'application/json', JSON.stringify(parts.report()), version);
    case '/api/v2/buildinfo':
      return void send(200, 'application/json', JSON.stringify(parts.buildInfo), version);
    case '/latency-check':
      return void send(200, 'text/plain', 'OK', LATENCY_HEADERS);
    case RELAY_LATENCY_PATH:
      if (!parts.relay) return void send(404, 'text/plain', NO_RELAY);
      return void send(200, 'text/plain', '');
    case RELAY_PATH:
      if (!parts.relay) return void send(404, 'text/plain', NO_RELAY);
      return void send(426, 'text/plain', UPGRADE_REQUIRED, { Upgrade: 'DERP' });
    case '/':
      response.writeHead(307, { Location: `${parts.primaryUrl}/`, 'Cache-Control': 'no-store' }).end();
      return;
    default:
      if (!parts.apps) {
        refuse(request, response, {
          status: 400,
          ...ONLY_RELAY,
          link: { url: `${parts.primaryUrl}/`, text: 'Go to the dashboard' },
        });
        return;
      }
      refuse(request, response, {
        status: 404,
        title: 'This is a workspace proxy.',
        detail: 'It serves apps and terminals of workspaces. The dashboard and the API are at the server.',
        link: { url: `${parts.primaryUrl}/`, text: 'Go to the dashboard' },
      });
  }
}

async function upgrade(parts: ListenerParts, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
  const [, agentId] = TERMINAL.exec(pathOf(request)) ?? [];
  const gone = new AbortController();
  const onGone = () => gone.abort(new AppError('canceled', 'The client has closed the connection.'));
  socket.once('close', onGone);
  try {
    if (pathOf(request).replace(/(.)\/$/, '$1') === RELAY_PATH) {
      if (!parts.relay) throw new AppError('not_found', 'This workspace proxy runs no relay.');
      parts.relay(request, socket, head);
      return;
    }
    if (!parts.apps) throw new AppError('invalid', ONLY_RELAY.title, { detail: ONLY_RELAY.detail });
    if (pathOf(request) === PROXY_AGENT_PATH) {
      parts.agent(request, socket, head);
      return;
    }
    if (pathOf(request) === SIBLING_PATH) {
      parts.sibling(request, socket, head);
      return;
    }
    if (pathOf(request) === CLIENT_PATH) {
      await parts.client(request, gone.signal, () => acceptWebSocket(request, socket, head));
      return;
    }
    if (agentId === undefined) throw new AppError('not_found', 'This workspace proxy has no such stream.');
    const accept = () => acceptWebSocket(request, socket, head, { maxMessageBytes: MAX_MESSAGE_BYTES });
    await parts.terminal(agentId.toLowerCase(), request, gone.signal, accept);
  } catch (err) {
    if (gone.signal.aborted) return;
    const isBad = err instanceof WebSocketUpgradeError;
    const known = isBad ? new AppError('invalid', err.message) : parts.toError(err, { path: pathOf(request) });
    refuseUpgrade(socket, isBad ? err.status : statusOf[known.code], {
      message: known.message,
      ...(known.detail === undefined ? {} : { detail: known.detail }),
    });
  } finally {
    socket.off('close', onGone);
  }
}
