import { createHash, randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import { WebSocketConnection, type WebSocketOptions } from './connection.ts';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

function acceptKey(key: string): string {
  return createHash('sha1')
    .update(key + GUID)
    .digest('base64');
}

function hasToken(header: string | string[] | undefined, token: string): boolean {
  return String(header ?? '')
    .toLowerCase()
    .split(',')
    .some((part) => part.trim() === token);
}

/** The request is not a valid WebSocket upgrade. `status` and `headers` belong to the answer (see refuseUpgrade). */
export class WebSocketUpgradeError extends Error {
  readonly status: number;
  readonly headers: Record<string, string>;
  constructor(status: number, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.name = 'WebSocketUpgradeError';
    this.status = status;
    this.headers = headers;
  }
}

export interface AcceptOptions extends WebSocketOptions {
  /** Additional headers for the 101 response. */
  headers?: Record<string, string>;
  /** The subprotocol to select. The client must have offered it. */
  protocol?: string;
}

function headerLines(headers: Record<string, string>): string {
  let lines = '';
  for (const [name, value] of Object.entries(headers)) {
    if (/[\r\n]/.test(name + value)) throw new TypeError(`header ${name} contains a line break`);
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/**
 * Answers an HTTP server's 'upgrade' with 101 and returns the connection. If the request is not a WebSocket upgrade,
 * throws WebSocketUpgradeError without writing anything. The caller must check the client's identity and origin.
 */
export function acceptWebSocket(
  req: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  options: AcceptOptions = {},
): WebSocketConnection {
  const { headers } = req;
  if (req.method !== 'GET')
    throw new WebSocketUpgradeError(405, 'A WebSocket upgrade must be a GET.', { Allow: 'GET' });
  if (!hasToken(headers.upgrade, 'websocket') || !hasToken(headers.connection, 'upgrade')) {
    throw new WebSocketUpgradeError(426, 'This address requires a WebSocket upgrade.', {
      Upgrade: 'websocket',
      Connection: 'Upgrade',
    });
  }
  if (headers['sec-websocket-version'] !== '13') {
    throw new WebSocketUpgradeError(426, 'Unsupported WebSocket version: use version 13.', {
      'Sec-WebSocket-Version': '13',
    });
  }
  const key = headers['sec-websocket-key'] ?? '';
  if (!/^[A-Za-z0-9+/]{22}==$/.test(key)) throw new WebSocketUpgradeError(400, 'Invalid Sec-WebSocket-Key header.');
  const protocol = options.protocol ?? '';
  if (protocol && !hasToken(headers['sec-websocket-protocol'], protocol.toLowerCase())) {
    throw new WebSocketUpgradeError(400, `The client did not offer the subprotocol "${protocol}".`);
  }
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\n${headerLines({
      Upgrade: 'websocket',
      Connection: 'Upgrade',
      'Sec-WebSocket-Accept': acceptKey(key),
      ...(protocol ? { 'Sec-WebSocket-Protocol': protocol } : {}),
      ...options.headers,
    })}\r\n`,
  );
  return new WebSocketConnection(socket, 'server', head, protocol, options);
}

/** Answers an upgrade with an ordinary HTTP response (JSON body) on the raw socket, and closes the socket. */
export function refuseUpgrade(
  socket: Duplex,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  const json = JSON.stringify(body);
  socket.on('error', () => {});
  socket.end(
    `HTTP/1.1 ${status} \r\n${headerLines({
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': String(Buffer.byteLength(json)),
      Connection: 'close',
      ...headers,
    })}\r\n${json}`,
  );
}

/** How a client presents itself and what it trusts, as in node:tls. `ca` replaces the built-in authorities. */
export type ClientTls = Pick<RequestOptions, 'ca' | 'cert' | 'key'>;

export interface DialOptions extends WebSocketOptions, ClientTls {
  headers?: Record<string, string | string[]>;
  /** The subprotocols to offer. */
  protocols?: string[];
  /** Aborts an attempt. It does not affect an open connection. */
  signal?: AbortSignal;
  /** The timeout of the whole attempt, up to the 101 response, in ms (default 30,000). */
  timeoutMs?: number;
  /** Connects to this Unix socket. The address then only sets the path and the Host header. */
  socketPath?: string | undefined;
  /** Uses this open stream instead of a new connection. The address then only sets the path and the Host header. */
  stream?: Duplex;
  /** TLS options, as in node:tls. */
  servername?: string;
  rejectUnauthorized?: boolean;
}

export interface DialedWebSocket {
  connection: WebSocketConnection;
  responseHeaders: IncomingHttpHeaders;
}

const MAX_ERROR_BODY = 64 * 1024;

/** A failed attempt. Contains `status`, `headers` and `body` (at most 64 KiB) if the server answered. */
export class WebSocketDialError extends Error {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  constructor(
    message: string,
    answer: { status?: number; headers?: IncomingHttpHeaders; body?: string; cause?: unknown } = {},
  ) {
    super(message, answer.cause === undefined ? undefined : { cause: answer.cause });
    this.name = 'WebSocketDialError';
    this.status = answer.status;
    this.headers = answer.headers ?? {};
    this.body = answer.body ?? '';
  }
}

function requestHeaders(options: DialOptions, key: string): OutgoingHttpHeaders {
  return {
    ...options.headers,
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': key,
    ...(options.protocols?.length ? { 'Sec-WebSocket-Protocol': options.protocols.join(', ') } : {}),
  };
}

function refusedHandshake(res: IncomingMessage, key: string, options: DialOptions): string | undefined {
  if (!hasToken(res.headers.upgrade, 'websocket')) return 'the answer does not switch to WebSocket';
  if (res.headers['sec-websocket-accept'] !== acceptKey(key)) return 'Sec-WebSocket-Accept does not match';
  if (res.headers['sec-websocket-extensions']) return 'the server chose an extension that was not offered';
  const protocol = res.headers['sec-websocket-protocol'];
  if (protocol && !options.protocols?.includes(protocol)) return 'the server chose a subprotocol that was not offered';
  return undefined;
}

/**
 * Opens a WebSocket to an http, https, ws or wss address. It follows no redirects and uses no proxy. Rejects with
 * WebSocketDialError, or with the signal's reason when aborted.
 */
export async function dialWebSocket(url: string | URL, options: DialOptions = {}): Promise<DialedWebSocket> {
  options.signal?.throwIfAborted();
  const target = new URL(url);
  const secure = target.protocol === 'https:' || target.protocol === 'wss:';
  if (!secure && target.protocol !== 'http:' && target.protocol !== 'ws:') {
    throw new WebSocketDialError(`invalid WebSocket address: ${target.protocol}//${target.host}`);
  }
  target.protocol = secure ? 'https:' : 'http:';
  const key = randomBytes(16).toString('base64');
  const { ca, cert, key: tlsKey, servername, rejectUnauthorized } = options;
  const tls = Object.fromEntries(
    Object.entries({ ca, cert, key: tlsKey, servername, rejectUnauthorized }).filter(([, v]) => v !== undefined),
  );
  // Loading TLS would cost a plain client 20 ms.
  const request = secure ? (await import('node:https')).request : (await import('node:http')).request;
  return await new Promise<DialedWebSocket>((resolve, reject) => {
    const req = request(target, {
      ...tls,
      ...(options.socketPath ? { socketPath: options.socketPath } : {}),
      method: 'GET',
      headers: requestHeaders(options, key),
      ...(options.stream ? { createConnection: () => options.stream! } : { agent: false }),
    });
    const timeoutMs = options.timeoutMs ?? 30_000;
    const timer = setTimeout(() => {
      req.destroy();
      fail(new WebSocketDialError(`${target.host} did not answer within ${timeoutMs} ms`));
    }, timeoutMs);
    const aborted = () => {
      req.destroy();
      fail(options.signal?.reason);
    };
    options.signal?.addEventListener('abort', aborted, { once: true });
    const settle = () => {
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', aborted);
    };
    const fail = (err: unknown) => {
      settle();
      reject(err);
    };
    req.on('error', (cause) => fail(new WebSocketDialError(`${target.host}: ${cause.message}`, { cause })));
    req.on('response', (res) => {
      void readBody(res).then((body) => {
        const status = res.statusCode ?? 0;
        fail(
          new WebSocketDialError(`${target.host} answered with status ${status}`, {
            status,
            headers: res.headers,
            body,
          }),
        );
        req.destroy();
      });
    });
    req.on('upgrade', (res, socket, head) => {
      settle();
      const refused = refusedHandshake(res, key, options);
      if (refused) {
        socket.destroy();
        reject(new WebSocketDialError(`${target.host}: ${refused}`, { status: 101, headers: res.headers }));
        return;
      }
      const protocol = res.headers['sec-websocket-protocol'] ?? '';
      const connection = new WebSocketConnection(socket, 'client', head, protocol, options);
      resolve({ connection, responseHeaders: res.headers });
    });
    req.end();
  });
}

async function readBody(res: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of res as AsyncIterable<Buffer>) {
      parts.push(part.subarray(0, MAX_ERROR_BODY - size));
      size += part.length;
      if (size >= MAX_ERROR_BODY) break;
    }
  } catch {
    // The part that arrived before the connection broke is still useful.
  }
  return Buffer.concat(parts).toString('utf8');
}
