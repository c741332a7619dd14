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

/** The request is no valid WebSocket upgrade; `status` and `headers` are those of the answer (see refuseUpgrade). */
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
  /** More headers for the 101. */
  headers?: Record<string, string>;
  /** The subprotocol to agree on; it must be one that the client offered. */
  protocol?: string;
}

function headerLines(headers: Record<string, string>): string {
  let lines = '';
  for (const [name, value] of Object.entries(headers)) {
    if (/[\r\n]/.test(name + value)) throw new TypeError(`header ${name} has a line break`);
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/**
 * Answers an HTTP server's 'upgrade' with 101 and returns the connection. Throws WebSocketUpgradeError, with nothing
 * written, when the request is not a WebSocket upgrade. Who is calling and from which origin is the caller's to check.
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
    throw new WebSocketUpgradeError(426, 'This address speaks WebSocket.', {
      Upgrade: 'websocket',
      Connection: 'Upgrade',
    });
  }
  if (headers['sec-websocket-version'] !== '13') {
    throw new WebSocketUpgradeError(426, 'Only WebSocket version 13 is known.', { 'Sec-WebSocket-Version': '13' });
  }
  const key = headers['sec-websocket-key'] ?? '';
  if (!/^[A-Za-z0-9+/]{22}==$/.test(key)) throw new WebSocketUpgradeError(400, 'Sec-WebSocket-Key is not valid.');
  const protocol = options.protocol ?? '';
  if (protocol && !hasToken(headers['sec-websocket-protocol'], protocol.toLowerCase())) {
    throw new WebSocketUpgradeError(400, `The client did not offer the subprotocol ${protocol}.`);
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

/** Answers an upgrade with an ordinary HTTP response (JSON body) on the raw socket, and closes it. */
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

export interface DialOptions extends WebSocketOptions {
  headers?: Record<string, string | string[]>;
  /** Subprotocols to offer. */
  protocols?: string[];
  /** Ends an attempt that is under way; an open connection is no longer bound to it. */
  signal?: AbortSignal;
  /** For the whole attempt, up to the 101 (30,000 by default). */
  timeoutMs?: number;
  /** Connects to this Unix socket. The address then only gives the path and the Host header. */
  socketPath?: string | undefined;
  /** TLS, as in node:tls. */
  ca?: RequestOptions['ca'];
  cert?: RequestOptions['cert'];
  key?: RequestOptions['key'];
  servername?: string;
  rejectUnauthorized?: boolean;
}

export interface DialedWebSocket {
  connection: WebSocketConnection;
  responseHeaders: IncomingHttpHeaders;
}

const MAX_ERROR_BODY = 64 * 1024;

/** The attempt failed; with `status`, `headers` and `body` (at most 64 KiB) if the server answered. */
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
 * Opens a WebSocket to an http, https, ws or wss address. Redirects are not followed and no proxy is used. Rejects
 * with WebSocketDialError, or with the signal's reason when aborted.
 */
export async function dialWebSocket(url: string | URL, options: DialOptions = {}): Promise<DialedWebSocket> {
  options.signal?.throwIfAborted();
  const target = new URL(url);
  const secure = target.protocol === 'https:' || target.protocol === 'wss:';
  if (!secure && target.protocol !== 'http:' && target.protocol !== 'ws:') {
    throw new WebSocketDialError(`not a WebSocket address: ${target.protocol}//${target.host}`);
  }
  target.protocol = secure ? 'https:' : 'http:';
  const key = randomBytes(16).toString('base64');
  const { ca, cert, key: tlsKey, servername, rejectUnauthorized } = options;
  const tls = Object.fromEntries(
    Object.entries({ ca, cert, key: tlsKey, servername, rejectUnauthorized }).filter(([, v]) => v !== undefined),
  );
  // TLS costs a plain client 20 ms to load.
  const request = secure ? (await import('node:https')).request : (await import('node:http')).request;
  return await new Promise<DialedWebSocket>((resolve, reject) => {
    const req = request(target, {
      ...tls,
      ...(options.socketPath ? { socketPath: options.socketPath } : {}),
      method: 'GET',
      headers: requestHeaders(options, key),
      agent: false,
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
        fail(new WebSocketDialError(`${target.host} answered ${status}`, { status, headers: res.headers, body }));
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
    // What arrived before the connection broke still tells more than nothing.
  }
  return Buffer.concat(parts).toString('utf8');
}
