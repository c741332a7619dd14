import { Agent, type ClientRequest, type ClientRequestArgs } from 'node:http';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { AppError } from '@platform/kit';

/** A port of a workspace, as the proxy dials it. */
export interface Target {
  agent: string;
  port: number;
  https: boolean;
}

/** A stream to a port of a workspace. Throws AppError `unavailable` with words for a person. */
export type Dial = (target: Target, signal?: AbortSignal) => Promise<Duplex>;

/** Idle connections that are kept, for each port of each workspace and for how long. */
const MOST_IDLE = 32;
const IDLE_MS = 60_000;
const TLS_TIMEOUT_MS = 10_000;

/** Dials, and speaks TLS where the app does; its certificate is its own affair, since nobody stands in between. */
export async function dialApp(dial: Dial, target: Target, signal?: AbortSignal): Promise<Duplex> {
  const stream = await dial(target, signal);
  if (!target.https) return stream;
  const secure = connectTls({ socket: stream, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
  await new Promise<void>((resolve, reject) => {
    const failed = (why: string) => {
      clearTimeout(timer);
      secure.destroy();
      stream.destroy();
      reject(new AppError('unavailable', `Port ${target.port} of the workspace does not speak https: ${why}.`));
    };
    const timer = setTimeout(() => failed('no answer'), TLS_TIMEOUT_MS);
    secure.once('error', (err) => failed(err.message));
    secure.once('close', () => failed('the connection was closed'));
    secure.once('secureConnect', () => {
      clearTimeout(timer);
      secure.removeAllListeners('error').removeAllListeners('close');
      resolve();
    });
  });
  return secure;
}

/** What a request is made with, for Agent to hand back. */
interface Options extends ClientRequestArgs {
  target?: Target;
}

/** What of a connection Node's client wants to turn on and off; a stream within a connection has none of it. */
const NOT_A_SOCKET = {
  setKeepAlive: () => {},
  setNoDelay: () => {},
  setTimeout: () => {},
  ref: () => {},
  unref: () => {},
};

/**
 * Keeps connections to apps for the next request. Only those whose last exchange was complete are kept; one on which
 * anything comes while it is idle is closed.
 */
export class AppConnections extends Agent {
  readonly #dial: Dial;
  readonly #idle = new WeakMap<Duplex, () => void>();

  constructor(dial: Dial) {
    super({ keepAlive: true, maxFreeSockets: MOST_IDLE, scheduling: 'lifo' });
    this.#dial = dial;
  }

  override getName(options?: Options): string {
    const { agent, port, https } = options!.target!;
    return `${agent}:${port}:${https}`;
  }

  override createConnection(options: Options, callback?: (err: Error | null, stream: Duplex) => void): undefined {
    dialApp(this.#dial, options.target!).then(
      (stream) => callback!(null, Object.assign(stream, NOT_A_SOCKET)),
      (err) => callback!(err as Error, undefined as never),
    );
    return undefined;
  }

  override keepSocketAlive(stream: Duplex): boolean {
    if (stream.destroyed || stream.readableEnded || stream.writableEnded) return false;
    const over = () => stream.destroy();
    const timer = setTimeout(over, IDLE_MS);
    timer.unref();
    const used = () => {
      clearTimeout(timer);
      stream.off('data', over).off('end', over).off('close', used);
    };
    stream.on('data', over).on('end', over).on('close', used);
    this.#idle.set(stream, used);
    return true;
  }

  override reuseSocket(stream: Duplex, request: ClientRequest): void {
    this.#idle.get(stream)?.();
    this.#idle.delete(stream);
    super.reuseSocket(stream as never, request);
  }
}
