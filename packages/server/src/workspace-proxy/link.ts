import type { Duplex } from 'node:stream';
import { AppError, type Clock, errorText, type Logger } from '@ropewalk/kit';
import { errorFromText } from '@ropewalk/kit/error-text';
import { backoff, RECONNECT } from '@ropewalk/kit/retry';
import { linkSession } from '@ropewalk/wire/link-session';
import { PROXY_LINK_PATH, PROXY_PROCESS_HEADER, type ProxyLinkRequest } from '@ropewalk/wire/proxy-link';
import { requestTunnel, TunnelError } from '@ropewalk/wire/tunnel';
import { dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { Primary } from './primary.ts';

const DIAL_MS = 10_000;
const REQUEST_MS = 15_000;
/** What a server may decide about a visitor. */
const ANSWERS = ['forbidden', 'not_found', 'gone', 'invalid', 'unavailable', 'unsupported', 'rate_limited'] as const;

/** The connection to a server, over which bytes of visitors reach agents. It is opened again until `close`. */
export class ServerLink {
  readonly #primary: Primary;
  readonly #processId: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #closed = new AbortController();
  readonly #waiting = new Set<() => void>();
  readonly #onUp: (() => void)[] = [];
  #session: YamuxSession | undefined;
  #problem: string | undefined = 'This process has just started.';
  #hasBeenUp = false;
  #running: Promise<void> | undefined;

  /** @param processId the id with which this process registers */
  constructor(parts: { primary: Primary; processId: string; clock: Clock; log: Logger }) {
    const { primary, processId, clock, log } = parts;
    this.#primary = primary;
    this.#processId = processId;
    this.#clock = clock;
    this.#log = log;
  }

  /** Why there is no connection now. Undefined if there is one. */
  get problem(): string | undefined {
    return this.#problem;
  }

  get hasBeenUp(): boolean {
    return this.#hasBeenUp;
  }

  /** Calls back each time the connection is open. */
  onUp(listener: () => void): void {
    this.#onUp.push(listener);
  }

  start(): void {
    this.#running = this.#keepOpen();
  }

  async close(): Promise<void> {
    this.#closed.abort(new AppError('canceled', 'The workspace proxy is shutting down.'));
    void this.#session?.close();
    await this.#running;
  }

  /** Resolves when there is a connection, or rejects with the signal's reason. */
  async up(signal: AbortSignal): Promise<void> {
    while (!this.#session) {
      signal.throwIfAborted();
      const ended = AbortSignal.any([signal, this.#closed.signal]);
      await new Promise<void>((resolve, reject) => {
        const settle = (then: () => void) => {
          this.#waiting.delete(wake);
          ended.removeEventListener('abort', aborted);
          then();
        };
        const wake = () => settle(resolve);
        const aborted = () => settle(() => reject(ended.reason as Error));
        this.#waiting.add(wake);
        ended.addEventListener('abort', aborted, { once: true });
        if (ended.aborted) aborted();
      });
    }
  }

  /** @throws AppError as the server answers, `unavailable` without a connection, or the signal's reason */
  async open(request: ProxyLinkRequest, signal?: AbortSignal): Promise<Duplex> {
    const session = this.#session;
    if (!session) throw this.#unreachable();
    try {
      return await requestTunnel(session, { ...request }, { timeoutMs: REQUEST_MS, ...(signal ? { signal } : {}) });
    } catch (err) {
      signal?.throwIfAborted();
      if (err instanceof TunnelError && err.code === 'refused') throw errorFromText(err.message, ANSWERS);
      throw this.#unreachable(err);
    }
  }

  #unreachable(cause?: unknown): AppError {
    return new AppError('unavailable', 'This workspace proxy cannot reach its server.', {
      detail: `${this.#problem ?? errorText(cause)} Try again in a moment.`,
      cause,
    });
  }

  async #keepOpen(): Promise<void> {
    const wait = backoff({ baseMs: 250, ...RECONNECT });
    while (!this.#closed.signal.aborted) {
      const began = this.#clock.monotonic();
      try {
        await this.#connection();
        if (this.#clock.monotonic() - began > RECONNECT.capMs) wait.reset();
      } catch (err) {
        this.#failed(reasonOf(err));
      }
      await this.#clock.sleep(wait.next(), this.#closed.signal).catch(() => {});
    }
  }

  /** Connects, and resolves when the connection has ended. */
  async #connection(): Promise<void> {
    const { connection } = await dialWebSocket(`${this.#primary.url}${PROXY_LINK_PATH}`, {
      headers: { ...this.#primary.credential, [PROXY_PROCESS_HEADER]: this.#processId },
      timeoutMs: DIAL_MS,
      signal: this.#closed.signal,
    });
    const session = linkSession(connection, { role: 'client' });
    this.#session = session;
    this.#problem = undefined;
    this.#hasBeenUp = true;
    this.#log.info('connected to the server', { url: this.#primary.url });
    for (const wake of [...this.#waiting]) wake();
    for (const listener of this.#onUp) listener();
    const { reason } = await session.closed;
    this.#session = undefined;
    this.#failed(reason);
  }

  #failed(why: string): void {
    if (this.#closed.signal.aborted) return;
    const problem = `The connection to ${this.#primary.url} failed: ${why.replace(/\.$/, '')}.`;
    if (this.#problem === problem) return;
    this.#problem = problem;
    this.#log.warn('no connection to the server', { url: this.#primary.url, err: why });
  }
}

/** The server's message instead of its status. */
function reasonOf(err: unknown): string {
  if (!(err instanceof WebSocketDialError) || err.status === undefined) return errorText(err);
  try {
    const { message, detail } = JSON.parse(err.body) as { message: string; detail?: string };
    return detail ? `${message} ${detail}` : message;
  } catch {
    return `status ${err.status}`;
  }
}
