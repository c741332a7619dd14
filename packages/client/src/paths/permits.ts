// The permits for one path through a workspace proxy, from the server. They come over a WebSocket that is open as long as
// this program uses the path: its end with 1000 ends the path at the agent. After any other end, the path continues while its
// last permit is valid, and this program connects again.
import { setTimeout as delay } from 'node:timers/promises';
import type { PathNews } from '@ropewalk/wire/proxy-link';
import type { WebSocketConnection } from '@ropewalk/wire/websocket';
import type { Client } from '../client.ts';
import { dial } from '../dial.ts';
import { ApiError, UnreachableError } from '../errors.ts';

const FIRST_MS = 15_000;
const DIAL_MS = 10_000;
const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;
/** A server renews permits more often than this, in ms. Without a newer one, the connection is dead. */
const SILENCE_MS = 60_000;

export class PathPermits {
  readonly #client: Client;
  readonly #path: string;
  readonly #end = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #news: PathNews | undefined;
  #connection: WebSocketConnection | undefined;
  #onNewer: () => void = () => {};

  constructor(client: Client, agentId: string, proxyId: string) {
    this.#client = client;
    const query = new URLSearchParams({ proxy: proxyId, path: crypto.randomUUID() });
    this.#path = `/workspaceagents/${encodeURIComponent(agentId)}/proxy-path?${query}`;
    this.#first.promise.catch(() => {});
    void this.#run();
  }

  /** The newest one. Only after `ready`. */
  get news(): PathNews {
    return this.#news!;
  }

  /** Whether the server does not permit the path any more. */
  get isOver(): boolean {
    return this.#end.signal.aborted;
  }

  /** Calls back with each newer permit. */
  onNewer(listener: () => void): void {
    this.#onNewer = listener;
  }

  /** Resolves with the first permit. Rejects if the server permits none, or the agent does not reach the proxy. */
  async ready(signal: AbortSignal): Promise<void> {
    const late = AbortSignal.any([signal, AbortSignal.timeout(FIRST_MS)]);
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => aborted.reject(late.reason);
    late.addEventListener('abort', onAbort, { once: true });
    if (late.aborted) onAbort();
    await Promise.race([this.#first.promise, aborted.promise]).finally(() =>
      late.removeEventListener('abort', onAbort),
    );
  }

  close(): void {
    this.#end.abort(new UnreachableError('The path is not used any more.'));
    this.#connection?.close(1000);
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#end;
    for (let wait = FIRST_WAIT_MS; !signal.aborted; wait = Math.min(2 * wait, MAX_WAIT_MS)) {
      try {
        await this.#connect();
        wait = FIRST_WAIT_MS;
      } catch (err) {
        this.#first.reject(err);
        const isFinal = err instanceof ApiError && err.status < 500;
        if (this.#news === undefined || isFinal) this.#end.abort(err);
      }
      await delay(wait, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Receives permits until the connection ends. Rejects if there is none, or the server has ended the path. */
  async #connect(): Promise<void> {
    const limit = AbortSignal.any([this.#end.signal, AbortSignal.timeout(DIAL_MS)]);
    const { connection } = await dial(this.#client, this.#path, limit);
    this.#connection = connection;
    if (this.isOver) connection.close(1000);
    const silence = setTimeout(() => connection.destroy(), SILENCE_MS).unref();
    connection.on('text', (text) => {
      silence.refresh();
      this.#news = JSON.parse(text) as PathNews;
      this.#first.resolve();
      this.#onNewer();
    });
    const { code, reason } = await connection.closed;
    clearTimeout(silence);
    if (code === 1008) this.#end.abort(new UnreachableError(reason));
  }
}
