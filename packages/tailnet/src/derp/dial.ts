// Opens connections to relays. A relay is at /derp of an HTTP server. Its protocol follows an upgrade to `DERP`, or flows
// through a WebSocket with the subprotocol `derp`, for networks whose proxies allow no other upgrade.
import type { IncomingMessage } from 'node:http';
import type { RequestOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { byteStream, dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import type { RelayRegion } from './map.ts';
import { MAX_MESSAGE_BYTES, RELAY_SUBPROTOCOL } from './websocket.ts';

/** TLS options, as in node:tls. */
export type RelayTls = Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>;

export interface DialRelayOptions {
  /** Uses a WebSocket. Default false. */
  websocket?: boolean;
  tls?: RelayTls;
  headers?: Record<string, string>;
  /** Aborts an attempt. It does not affect an open connection. */
  signal?: AbortSignal;
  /** The timeout of the attempt, in ms. Default 10,000. */
  timeoutMs?: number;
}

/** An attempt failed. */
export class RelayDialError extends Error {
  /** Set if the server answered. */
  readonly status: number | undefined;
  /** The server rejects upgrades to DERP, but may accept a WebSocket. */
  readonly requiresWebSocket: boolean;

  constructor(message: string, { status, requiresWebSocket = false, cause }: RelayDialErrorOptions = {}) {
    super(message, { cause });
    this.name = 'RelayDialError';
    this.status = status;
    this.requiresWebSocket = requiresWebSocket;
  }
}

interface RelayDialErrorOptions extends ErrorOptions {
  status?: number | undefined;
  requiresWebSocket?: boolean;
}

const DIAL_MS = 10_000;
const LATENCY_MS = 5_000;

/**
 * Opens a connection to the relay at this http or https URL, whose path is replaced by /derp. Follows no redirects. Rejects
 * with RelayDialError, or with the signal's reason.
 */
export async function dialRelay(url: string | URL, options: DialRelayOptions = {}): Promise<Duplex> {
  const target = new URL('/derp', url);
  if (options.websocket) return await dialOverWebSocket(target, options);
  const { req, done } = await startRequest(target, options, { Connection: 'Upgrade', Upgrade: 'DERP' });
  return await new Promise<Duplex>((resolve, reject) => {
    let isOpen = false;
    const fail = (err: unknown) => {
      if (isOpen) return;
      done();
      req.destroy();
      reject(options.signal?.aborted ? options.signal.reason : err);
    };
    req.on('error', (cause) => fail(failure(target, cause)));
    req.on('close', () => fail(failure(target, new Error('the connection ended'))));
    req.on('response', (res: IncomingMessage) => {
      const status = res.statusCode ?? 0;
      const requiresWebSocket = status >= 400 && status < 500;
      fail(
        new RelayDialError(`${target.host} answered the upgrade to DERP with status ${status}`, {
          status,
          requiresWebSocket,
        }),
      );
    });
    req.on('upgrade', (res: IncomingMessage, socket: Socket, head: Buffer) => {
      if (res.headers.upgrade?.toLowerCase() !== RELAY_SUBPROTOCOL) {
        socket.destroy();
        fail(
          new RelayDialError(`${target.host} switched to another protocol`, { status: 101, requiresWebSocket: true }),
        );
        return;
      }
      isOpen = true;
      done();
      socket.setNoDelay(true);
      socket.setTimeout(0);
      socket.on('error', () => {});
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    req.end();
  });
}

async function dialOverWebSocket(target: URL, { tls, headers, signal, timeoutMs }: DialRelayOptions): Promise<Duplex> {
  try {
    const { connection } = await dialWebSocket(target, {
      ...(tls as object),
      ...(headers && { headers }),
      ...(signal && { signal }),
      protocols: [RELAY_SUBPROTOCOL],
      timeoutMs: timeoutMs ?? DIAL_MS,
    });
    if (connection.protocol !== RELAY_SUBPROTOCOL) {
      connection.destroy();
      throw new RelayDialError(`${target.host} did not select the subprotocol "${RELAY_SUBPROTOCOL}"`, { status: 101 });
    }
    return byteStream(connection, { maxMessageBytes: MAX_MESSAGE_BYTES });
  } catch (err) {
    if (!(err instanceof WebSocketDialError)) throw err;
    throw new RelayDialError(err.message, { status: err.status, cause: err });
  }
}

/** Measures the round trip to the relay's HTTP server, in ms, without the time to connect. Rejects as dialRelay does. */
export async function measureRelay(
  url: string | URL,
  { clock = performance, ...options }: Omit<DialRelayOptions, 'websocket'> & { clock?: { now(): number } } = {},
): Promise<number> {
  const target = new URL('/derp/latency-check', url);
  const { req, done } = await startRequest(target, { timeoutMs: LATENCY_MS, ...options }, {});
  return await new Promise<number>((resolve, reject) => {
    let since = clock.now();
    const restart = () => {
      since = clock.now();
    };
    req.on('socket', (socket) => socket.once('connect', restart).once('secureConnect', restart));
    const fail = (cause: unknown) => {
      done();
      reject(options.signal?.aborted ? options.signal.reason : failure(target, cause));
    };
    req.on('error', fail);
    req.on('close', () => fail(new Error('the connection ended')));
    req.on('response', (res: IncomingMessage) => {
      const ms = clock.now() - since;
      done();
      req.destroy();
      if (res.statusCode === 200) resolve(ms);
      else
        reject(new RelayDialError(`${target.host} answered with status ${res.statusCode}`, { status: res.statusCode }));
    });
    req.end();
  });
}

function failure(target: URL, cause: unknown): RelayDialError {
  if (cause instanceof RelayDialError) return cause;
  return new RelayDialError(`${target.host}: ${(cause as Error).message}`, { cause });
}

/** A request that ends with the signal or after the timeout. Call `done` when it has its result. */
async function startRequest(target: URL, options: DialRelayOptions, headers: Record<string, string>) {
  const { tls, signal, timeoutMs = DIAL_MS } = options;
  signal?.throwIfAborted();
  const isSecure = target.protocol === 'https:';
  if (!isSecure && target.protocol !== 'http:') throw new RelayDialError(`Not an address of a relay: ${target.origin}`);
  // loading TLS would cost a plain client 20 ms
  const { request } = isSecure ? await import('node:https') : await import('node:http');
  signal?.throwIfAborted();
  const req = request(target, { ...tls, agent: false, headers: { ...options.headers, ...headers } });
  const abort = () => req.destroy(new RelayDialError('aborted'));
  const timer = setTimeout(
    () => req.destroy(new RelayDialError(`${target.host} did not answer within ${timeoutMs} ms`)),
    timeoutMs,
  );
  signal?.addEventListener('abort', abort, { once: true });
  const done = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
    req.on('error', () => {});
  };
  return { req, done };
}

export interface RegionDialOptions {
  websocket: boolean;
  signal: AbortSignal;
}

/** Opens a connection to any relay of a region. */
export type DialRegion = (region: RelayRegion, options: RegionDialOptions) => Promise<Duplex>;

/** Measures the round trip to a region, in ms. */
export type MeasureRegion = (region: RelayRegion, options: { signal: AbortSignal }) => Promise<number>;

/** Tries the relays of a region in order. `tls` and `headers` apply to all of them. */
export function regionDialer(common: Pick<DialRelayOptions, 'tls' | 'headers'> = {}): DialRegion {
  return (region, options) => firstOf(region, (url) => dialRelay(url, { ...common, ...options }));
}

export function regionMeasurer(common: Pick<DialRelayOptions, 'tls' | 'headers'> = {}): MeasureRegion {
  return (region, options) => firstOf(region, (url) => measureRelay(url, { ...common, ...options }));
}

async function firstOf<T>(region: RelayRegion, attempt: (url: string) => Promise<T>): Promise<T> {
  let failed: unknown = new RelayDialError(`Region "${region.name}" has no relay`);
  for (const { url } of region.servers) {
    if (url === undefined) continue;
    try {
      return await attempt(url);
    } catch (err) {
      failed = err;
    }
  }
  throw failed;
}
