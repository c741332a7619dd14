import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { AppError } from '@ropewalk/kit';
import { AnswerParser, type AnswerSink } from './answer-parser.ts';

/** A port of a workspace that the proxy dials. */
export interface Target {
  agent: string;
  port: number;
  https: boolean;
}

/** Opens a stream to a port of a workspace. Throws AppError `unavailable` with a message for a person. */
export type Dial = (target: Target, signal?: AbortSignal) => Promise<Duplex>;

/** How many idle connections are kept for each port of each workspace, and for how long. */
const MAX_IDLE = 32;
const IDLE_MS = 60_000;
const TLS_TIMEOUT_MS = 10_000;

/** Dials a port, with TLS if the app uses https. The certificate is not checked, because the tunnel is already secure. */
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
      // until its user listens
      secure.on('error', () => {});
      resolve();
    });
  });
  return secure;
}

/** Receives one answer. `failed` is called at most once, and nothing is called after it or after `end`. */
export interface Exchange extends AnswerSink {
  failed(err: Error): void;
  /** The app can receive more of the body. */
  drained(): void;
}

/** The app closed the connection before its answer was complete. */
export class AppClosed extends Error {
  override name = 'AppClosed';
}

/** A connection to an app: one exchange at a time, several in turn. */
export class AppConnection {
  readonly stream: Duplex;
  /** The name of the connections among which it is kept. */
  readonly pool: string;
  readonly #parser = new AnswerParser();
  readonly #gone: () => void;
  #exchange: Exchange | undefined;
  /** Whether the connection has served a request before. The app may be closing it. */
  used = false;
  /** Since when the connection is idle or waits for an answer, by performance.now(). Undefined while a request is sent. */
  #since: number | undefined;

  /** @param gone called when the connection is unusable */
  constructor(stream: Duplex, pool: string, gone: () => void) {
    this.stream = stream;
    this.pool = pool;
    this.#gone = gone;
    stream.on('data', (part: Buffer) => {
      try {
        this.#parser.take(part);
      } catch (err) {
        this.fail(err as Error);
      }
    });
    stream.on('drain', () => this.#exchange?.drained());
    stream.on('end', () => {
      if (!this.#parser.ended()) this.fail(new AppClosed('the app closed the connection'));
      else stream.destroy();
    });
    stream.on('error', (err) => this.fail(new AppClosed(err.message)));
    stream.on('close', () => this.fail(new AppClosed('the app closed the connection')));
  }

  get reusable(): boolean {
    const { stream } = this;
    return this.#parser.reusable && !this.#parser.busy && !this.#exchange && !stream.destroyed && stream.writable;
  }

  /** How long the connection has been idle or waits for an answer, in ms. */
  lasting(now: number): { idle: number; waiting: number } {
    const ms = this.#since === undefined ? 0 : now - this.#since;
    return this.#exchange ? { idle: 0, waiting: this.#parser.waiting ? ms : 0 } : { idle: ms, waiting: 0 };
  }

  begin(exchange: Exchange, method: string): void {
    this.#exchange = exchange;
    this.#since = undefined;
    this.#parser.expect(exchange, method);
  }

  /** The whole request was sent. */
  asked(): void {
    this.#since = performance.now();
  }

  /** The exchange is complete. */
  release(): void {
    this.#exchange = undefined;
    this.used = true;
    this.#since = performance.now();
    if (this.stream.isPaused()) this.stream.resume();
  }

  fail(err: Error): void {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    this.stream.destroy();
    this.#gone();
    exchange?.failed(err);
  }
}

/**
 * Connections to apps, kept for the next request. A connection is kept only if its last exchange was complete. If
 * anything arrives on an idle connection, it is closed.
 */
export class AppConnections {
  readonly #dial: Dial;
  readonly #poolOf: (target: Target) => string;
  readonly #idle = new Map<string, AppConnection[]>();
  readonly #all = new Set<AppConnection>();
  readonly #timer: NodeJS.Timeout;

  /**
   * @param answerMs how long an app may take to answer, in ms
   * @param poolOf names the connections that a target may use. By default all to its port, for every visitor
   */
  constructor(dial: Dial, answerMs: number, poolOf: (target: Target) => string = portOf) {
    this.#dial = dial;
    this.#poolOf = poolOf;
    this.#timer = setInterval(() => this.#sweep(answerMs), Math.min(1_000, answerMs / 4));
    this.#timer.unref();
  }

  /** An idle connection. Undefined if a new one must be dialed. */
  idle(target: Target): AppConnection | undefined {
    const list = this.#idle.get(this.#poolOf(target));
    for (;;) {
      const connection = list?.pop();
      if (!connection || connection.reusable) return connection;
    }
  }

  async dial(target: Target, signal: AbortSignal): Promise<AppConnection> {
    const pool = this.#poolOf(target);
    const stream = await dialApp(this.#dial, target, signal);
    if (signal.aborted) {
      stream.destroy();
      throw signal.reason;
    }
    const connection: AppConnection = new AppConnection(stream, pool, () => {
      this.#all.delete(connection);
      const list = this.#idle.get(pool);
      const at = list?.indexOf(connection) ?? -1;
      if (at >= 0) list!.splice(at, 1);
      if (list?.length === 0) this.#idle.delete(pool);
    });
    this.#all.add(connection);
    return connection;
  }

  /** Stores a connection whose exchange is complete, for the next request. */
  keep(connection: AppConnection): void {
    connection.release();
    const list = this.#idle.get(connection.pool) ?? [];
    if (!connection.reusable || list.length >= MAX_IDLE) {
      connection.stream.destroy();
      return;
    }
    if (list.push(connection) === 1) this.#idle.set(connection.pool, list);
  }

  #sweep(answerMs: number): void {
    const now = performance.now();
    for (const connection of this.#all) {
      const { idle, waiting } = connection.lasting(now);
      if (idle > IDLE_MS) connection.stream.destroy();
      if (waiting > answerMs) {
        connection.fail(new AppError('timeout', `The app did not answer within ${Math.ceil(answerMs / 1_000)} s.`));
      }
    }
  }

  close(): void {
    clearInterval(this.#timer);
    for (const connection of this.#all) connection.stream.destroy();
  }
}

const portOf = ({ agent, port, https }: Target): string => `${agent}:${port}${https ? 's' : ''}`;
