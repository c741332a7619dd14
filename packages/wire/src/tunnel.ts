import type { Duplex } from 'node:stream';

/** The purpose of a stream to an agent. Further fields belong to the service. */
export interface TunnelRequest {
  service: string;
  [field: string]: unknown;
}

/**
 * `refused`: the peer rejected the request, with its reason. `protocol`: the peer does not speak this protocol.
 * Otherwise the peer did not answer.
 */
export type TunnelErrorCode = 'refused' | 'protocol' | 'timeout' | 'closed';

export class TunnelError extends Error {
  readonly code: TunnelErrorCode;
  constructor(code: TunnelErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TunnelError';
    this.code = code;
  }
}

export interface TunnelOptions {
  /** How long the peer may take to send its part of the preamble, in ms (default 15,000). */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** What a service gets of a stream that the peer opened. */
export interface OfferedTunnel {
  request: TunnelRequest;
  /** Accepts the request. The stream then contains the service's bytes. */
  accept(): Duplex;
  /** Rejects the request with a text for a person, and ends the stream. */
  refuse(text: string): void;
}

export interface AcceptedTunnel extends OfferedTunnel {
  /** Whether it is accepted or refused. */
  readonly answered: boolean;
}

const VERSION = 1;
const MAX_JSON = 65_535;
const MAX_REFUSAL = 4_096;

/**
 * Reads exactly as much as `need` asks for, returns the rest to the stream, and pauses it. `need` gets the bytes so far
 * and returns the total number required. Rejects with TunnelError, the signal's reason or an error of `need`, and
 * destroys the stream then.
 */
export function readPreamble(stream: Duplex, need: (head: Buffer) => number, options: TunnelOptions): Promise<Buffer> {
  const { timeoutMs = 15_000, signal } = options;
  return new Promise((resolve, reject) => {
    let got: Buffer = Buffer.alloc(0);
    const settle = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      stream.off('readable', readable);
      stream.off('end', ended);
      stream.off('close', ended);
      stream.off('error', ended);
    };
    const failed = (err: Error) => {
      settle();
      stream.destroy();
      reject(err);
    };
    const aborted = () => failed(signal?.reason as Error);
    const ended = () => {
      const cause = stream.errored ?? undefined;
      failed(new TunnelError('closed', 'the peer closed the stream before it answered', { cause }));
    };
    const timer = setTimeout(
      () => failed(new TunnelError('timeout', `the peer did not answer within ${timeoutMs} ms`)),
      timeoutMs,
    );
    const readable = () => {
      try {
        for (;;) {
          const wanted = need(got);
          if (got.length >= wanted) {
            settle();
            // Bytes after the preamble belong to the next reader.
            if (got.length > wanted) stream.unshift(got.subarray(wanted));
            resolve(got.subarray(0, wanted));
            return;
          }
          const chunk = stream.read() as Buffer | null;
          if (chunk === null) return;
          got = got.length === 0 ? chunk : Buffer.concat([got, chunk]);
        }
      } catch (err) {
        failed(err as Error);
      }
    };
    stream.on('end', ended);
    stream.on('close', ended);
    stream.on('error', ended);
    signal?.addEventListener('abort', aborted, { once: true });
    if (signal?.aborted) return aborted();
    if (stream.destroyed) return ended();
    stream.on('readable', readable);
    readable();
  });
}

/**
 * Opens a stream and requests a service from the peer. Rejects with TunnelError, YamuxError (no stream could be
 * opened), or the signal's reason, and destroys the stream then. Use it only with peers that offered `tunnel/1`.
 */
export async function requestTunnel(
  session: { openStream(): Duplex },
  request: TunnelRequest,
  options: TunnelOptions = {},
): Promise<Duplex> {
  options.signal?.throwIfAborted();
  const json = Buffer.from(JSON.stringify(request));
  if (json.length > MAX_JSON) throw new TunnelError('protocol', `a tunnel request of ${json.length} bytes is too long`);
  const stream: Duplex = session.openStream();
  stream.write(Buffer.concat([Buffer.from([VERSION, json.length >> 8, json.length & 255]), json]));
  const answer = await readPreamble(
    stream,
    (head) => {
      if (head.length < 1) return 1;
      if (head[0] === 0) return 1;
      if (head[0] !== 1) throw new TunnelError('protocol', `unknown answer ${head[0]} to a tunnel request`);
      if (head.length < 3) return 3;
      const length = head.readUInt16BE(1);
      if (length > MAX_REFUSAL) throw new TunnelError('protocol', 'the rejection of a tunnel is too long');
      return 3 + length;
    },
    options,
  );
  if (answer[0] === 0) return stream;
  stream.destroy();
  throw new TunnelError('refused', answer.subarray(3).toString('utf8'));
}

/**
 * Reads the request at the start of a stream that the peer opened. Rejects with TunnelError, and destroys the stream
 * then.
 */
export async function acceptTunnel(stream: Duplex, options: TunnelOptions = {}): Promise<AcceptedTunnel> {
  const raw = await readPreamble(
    stream,
    (head) => {
      if (head.length < 1) return 1;
      if (head[0] !== VERSION) throw new TunnelError('protocol', `unknown tunnel version ${head[0]}`);
      return head.length < 3 ? 3 : 3 + head.readUInt16BE(1);
    },
    options,
  );
  let request: unknown;
  try {
    request = JSON.parse(raw.subarray(3).toString('utf8'));
  } catch {
    request = undefined;
  }
  let answered = false;
  const refuse = (text: string) => {
    answered = true;
    let body = Buffer.from(text).subarray(0, MAX_REFUSAL);
    // The cut may have split a character.
    body = Buffer.from(body.toString('utf8').replace(/\uFFFD$/, ''));
    stream.end(Buffer.concat([Buffer.from([1, body.length >> 8, body.length & 255]), body]));
    stream.resume();
  };
  if (typeof request !== 'object' || request === null || typeof (request as TunnelRequest).service !== 'string') {
    refuse('the request is invalid');
    throw new TunnelError('protocol', 'the tunnel request is not a JSON object with a service');
  }
  return {
    request: request as TunnelRequest,
    get answered() {
      return answered;
    },
    accept: () => {
      answered = true;
      stream.write(Buffer.from([0]));
      return stream;
    },
    refuse,
  };
}
