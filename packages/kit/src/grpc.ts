import { once } from 'node:events';
import { createServer, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { AppError, errorText } from './errors.ts';
import type { Logger } from './log.ts';

/** One unary call: the request's bytes in, the response's bytes out. `session` identifies the client connection. */
export type UnaryHandler = (
  request: Uint8Array,
  call: { session: Http2Session; signal: AbortSignal },
) => Promise<Uint8Array>;

export interface GrpcServer {
  /** The port that it listens on. 0 for a socket of a path. */
  readonly port: number;
  /** Stops listening, ends open calls with CANCELLED and drops every connection. */
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
const UNIT_MS: Record<string, number> = { H: 3.6e6, M: 6e4, S: 1e3, m: 1, u: 1e-3, n: 1e-6 };

/** Parses a grpc-timeout header such as `30S` into milliseconds. Undefined if it is absent or invalid. */
export function grpcTimeout(header: string | string[] | undefined): number | undefined {
  const match = typeof header === 'string' ? /^(\d{1,8})([HMSmun])$/.exec(header) : null;
  return match ? Math.min(Number(match[1]) * UNIT_MS[match[2]!]!, 2 ** 31 - 1) : undefined;
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

function finish(stream: ServerHttp2Stream, status: number, message: string, body?: Uint8Array): void {
  if (stream.headersSent || stream.closed || stream.destroyed) return;
  const trailers = {
    'grpc-status': String(status),
    ...(message ? { 'grpc-message': encodeURIComponent(message) } : {}),
  };
  const headers = { ':status': 200, 'content-type': 'application/grpc' };
  if (body === undefined) {
    stream.respond({ ...headers, ...trailers }, { endStream: true });
    return;
  }
  stream.respond(headers, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  const framed = Buffer.allocUnsafe(5 + body.length);
  framed[0] = 0;
  framed.writeUInt32BE(body.length, 1);
  framed.set(body, 5);
  stream.end(framed);
}

/**
 * Starts a gRPC server for unary calls on a Unix socket or a port, plaintext. `handlers` is keyed by
 * `/<package>.<Service>/<Method>`. It answers anything else with UNIMPLEMENTED, which Terraform's optional plugin
 * services (stdio, broker) treat as "absent".
 */
export async function serveGrpc(
  at: string | { host: string; port: number },
  handlers: ReadonlyMap<string, UnaryHandler>,
  log: Logger,
): Promise<GrpcServer> {
  const sessions = new Set<Http2Session>();
  const calls = new Set<AbortController>();
  const server = createServer({ settings: { initialWindowSize: 1024 * 1024, enablePush: false } });

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
    stream.once('aborted', () => abort.abort('cancelled'));
    abort.signal.addEventListener('abort', () => {
      const late = abort.signal.reason === 'deadline';
      finish(stream, late ? GRPC_STATUS.deadlineExceeded : GRPC_STATUS.cancelled, String(abort.signal.reason));
    });
    try {
      const request = await readMessage(stream);
      const session = stream.session;
      if (!session) throw new GrpcError(GRPC_STATUS.cancelled, 'connection closed');
      finish(stream, GRPC_STATUS.ok, '', await handler(request, { session, signal: abort.signal }));
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
      for (const session of sessions) session.destroy();
      await closed;
    },
  };
}
