import { once } from 'node:events';
import { createServer, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { AppError, errorText } from './errors.ts';
import type { Logger } from './log.ts';
import { ownValue } from './own-value.ts';

export interface Call {
  /** Identifies the client connection. */
  session: Http2Session;
  /** Aborts when the client leaves, when the call's deadline passes and when the server closes. */
  signal: AbortSignal;
}

/** One unary call: the request's bytes in, the response's bytes out. */
export type UnaryHandler = (request: Uint8Array, call: Call) => Promise<Uint8Array>;

/** A call with any number of responses. The next one is asked for when the client took the last. Ends when the signal aborts. */
export type StreamHandler = (request: Uint8Array, call: Call) => AsyncIterable<Uint8Array>;

export type GrpcHandler = UnaryHandler | StreamHandler;

export interface GrpcServer {
  /** The port that it listens on. 0 for a socket of a path. */
  readonly port: number;
  /** Stops listening, ends open calls and drops every connection. Unary calls end with CANCELLED, streams as they return. */
  close(): Promise<void>;
}

export const GRPC_STATUS = {
  ok: 0,
  cancelled: 1,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
} as const;

const MAX_MESSAGE = 64 * 1024 * 1024;
/** How long a closing server waits for clients to take the status of their calls. */
const CLOSE_MS = 1_000;
/** When to look whether a silent client is still there. */
const KEEP_ALIVE_MS = 60_000;
const HEADERS = { ':status': 200, 'content-type': 'application/grpc' };
const UNIT_MS: Record<string, number> = { H: 3.6e6, M: 6e4, S: 1e3, m: 1, u: 1e-3, n: 1e-6 };

/** Parses a grpc-timeout header such as `30S` into milliseconds. Undefined if it is absent or invalid. */
export function grpcTimeout(header: string | string[] | undefined): number | undefined {
  const match = typeof header === 'string' ? /^(\d{1,8})([HMSmun])$/.exec(header) : null;
  return match ? Math.min(Number(match[1]) * ownValue(UNIT_MS, match[2]!)!, 2 ** 31 - 1) : undefined;
}

/** An error that the client receives with this status. Other errors are `internal`. */
export class GrpcError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

async function readMessage(stream: ServerHttp2Stream): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MAX_MESSAGE + 5) throw new GrpcError(GRPC_STATUS.resourceExhausted, 'message larger than 64 MiB');
    parts.push(part);
  }
  const all = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  if (all.length < 5) throw new GrpcError(GRPC_STATUS.internal, 'truncated message');
  if (all[0] !== 0) throw new GrpcError(GRPC_STATUS.unimplemented, 'compressed messages are not supported');
  if (all.readUInt32BE(1) !== all.length - 5) throw new GrpcError(GRPC_STATUS.internal, 'malformed message length');
  return all.subarray(5);
}

function trailersOf(status: number, message: string): Record<string, string> {
  return { 'grpc-status': String(status), ...(message ? { 'grpc-message': encodeURIComponent(message) } : {}) };
}

function frame(body: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(5 + body.length);
  framed[0] = 0;
  framed.writeUInt32BE(body.length, 1);
  framed.set(body, 5);
  return framed;
}

/** Starts a response. The returned function sets the status that it ends with. */
function respond(stream: ServerHttp2Stream): (status: number, message: string) => void {
  let trailers = trailersOf(GRPC_STATUS.ok, '');
  stream.respond(HEADERS, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  return (status, message) => {
    trailers = trailersOf(status, message);
  };
}

function finish(stream: ServerHttp2Stream, status: number, message: string, body?: Uint8Array): void {
  if (stream.headersSent || stream.closed || stream.destroyed) return;
  if (body === undefined) {
    stream.respond({ ...HEADERS, ...trailersOf(status, message) }, { endStream: true });
    return;
  }
  respond(stream);
  stream.end(frame(body));
}

/** The status of a call whose signal aborted. */
function abortedStatus({ reason }: AbortSignal): [status: number, message: string] {
  return [reason === 'deadline' ? GRPC_STATUS.deadlineExceeded : GRPC_STATUS.cancelled, String(reason)];
}

/** Sends each response. An error before the first one is thrown, a later one becomes the status. */
async function sendAll(
  stream: ServerHttp2Stream,
  responses: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const gone = () => stream.closed || stream.destroyed;
  let setStatus: ReturnType<typeof respond> | undefined;
  try {
    for await (const response of responses) {
      if (gone()) return;
      setStatus ??= respond(stream);
      if (!stream.write(frame(response))) await once(stream, 'drain', { signal });
    }
    if (gone()) return;
    setStatus ??= respond(stream);
    if (signal.reason === 'deadline') setStatus(...abortedStatus(signal));
  } catch (err) {
    if (gone()) return;
    if (!setStatus) throw err;
    if (signal.aborted) setStatus(...abortedStatus(signal));
    else setStatus(err instanceof GrpcError ? err.status : GRPC_STATUS.internal, errorText(err));
  }
  stream.end();
}

/**
 * Starts a gRPC server for unary calls and streams of responses on a Unix socket or a port, plaintext. `handlers` is keyed by
 * `/<package>.<Service>/<Method>`. It answers anything else with UNIMPLEMENTED, which Terraform's optional plugin
 * services (stdio, broker) treat as "absent".
 */
export async function serveGrpc(
  at: string | { host: string; port: number },
  handlers: ReadonlyMap<string, GrpcHandler>,
  log: Logger,
): Promise<GrpcServer> {
  const sessions = new Set<Http2Session>();
  const calls = new Set<AbortController>();
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS };
  const server = createServer({ ...keepAlive, settings: { initialWindowSize: 1024 * 1024, enablePush: false } });

  const handle = async (stream: ServerHttp2Stream, path: string, timeoutMs: number | undefined) => {
    const handler = handlers.get(path);
    if (!handler) {
      stream.resume();
      finish(stream, GRPC_STATUS.unimplemented, `unknown method ${path}`);
      return;
    }
    const abort = new AbortController();
    calls.add(abort);
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => abort.abort('deadline'), timeoutMs);
    stream.once('close', () => abort.abort('cancelled'));
    const endNow = () => finish(stream, ...abortedStatus(abort.signal));
    abort.signal.addEventListener('abort', endNow);
    try {
      const request = await readMessage(stream);
      const session = stream.session;
      if (!session) throw new GrpcError(GRPC_STATUS.cancelled, 'connection closed');
      const answer = handler(request, { session, signal: abort.signal });
      if (Symbol.asyncIterator in answer) {
        abort.signal.removeEventListener('abort', endNow);
        await sendAll(stream, answer, abort.signal);
      } else {
        finish(stream, GRPC_STATUS.ok, '', await answer);
      }
    } catch (err) {
      if (!abort.signal.aborted) log.warn('call failed', { method: path, error: errorText(err) });
      finish(stream, err instanceof GrpcError ? err.status : GRPC_STATUS.internal, errorText(err));
    } finally {
      clearTimeout(timer);
      calls.delete(abort);
    }
  };

  server.on('session', (session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
    session.on('error', (err) => log.debug('connection error', { error: err.message }));
  });
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', (err: Error) => log.debug('stream error', { error: err.message }));
    void handle(stream, String(headers[':path'] ?? ''), grpcTimeout(headers['grpc-timeout']));
  });
  server.listen(typeof at === 'string' ? { path: at } : at);
  try {
    await once(server, 'listening');
  } catch (err) {
    throw new AppError('unavailable', `Could not listen for gRPC: ${errorText(err)}`, { cause: err });
  }
  const address = server.address() as AddressInfo | string;
  return {
    port: typeof address === 'string' ? 0 : address.port,
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const call of calls) call.abort('cancelled');
      for (const session of sessions) session.close();
      const timer = setTimeout(() => {
        for (const session of sessions) session.destroy();
      }, CLOSE_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}
