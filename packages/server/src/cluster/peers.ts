import type { Duplex } from 'node:stream';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { linkSession } from '@ropewalk/wire/link-session';
import { requestTunnel, TunnelError, type TunnelRequest } from '@ropewalk/wire/tunnel';
import { dialWebSocket, WebSocketDialError } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { ReplicaRow } from '../db/queries/replicas.ts';
import { greet, type ReplicaKey } from './handshake.ts';

/** The route where a server accepts streams of other servers. */
export const PEER_PATH = '/internal/replicas/stream';
const DIAL_TIMEOUT_MS = 5_000;
const REQUEST_TIMEOUT_MS = 10_000;

interface Peer {
  row: ReplicaRow;
  session: YamuxSession | undefined;
  dialing: Promise<YamuxSession> | undefined;
  /** Why it could not be reached, until it answers a ping. */
  problem: string | undefined;
}

export interface PeersOptions {
  id: string;
  key: ReplicaKey;
  log: Logger;
  now(): Date;
  /** Reads the rows of the live servers. */
  readRows(): Promise<ReplicaRow[]>;
}

/** The other servers of the deployment, and this server's sessions with them. */
export class Peers {
  readonly #options: PeersOptions;
  readonly #peers = new Map<string, Peer>();
  readonly #closed = new AbortController();
  readonly #watchers: ((addresses: string[]) => void)[] = [];

  constructor(options: PeersOptions) {
    this.#options = options;
  }

  /**
   * Takes over the rows of the live servers, and forgets the others. A server with an open session is not gone: after an
   * outage of the database, its row is only late.
   */
  update(rows: readonly ReplicaRow[]): void {
    const live = new Set(rows.map(({ id }) => id));
    for (const [id, { session }] of this.#peers) if (!live.has(id) && !session) this.#peers.delete(id);
    for (const row of rows) {
      if (row.id === this.#options.id) continue;
      const known = this.#peers.get(row.id);
      if (known) known.row = row;
      else
        this.#peers.set(row.id, {
          row,
          session: undefined,
          dialing: undefined,
          problem: undefined,
        });
    }
    for (const watcher of this.#watchers) watcher(this.#addresses());
  }

  /** Takes over the rows as they are now. */
  async refresh(): Promise<void> {
    this.update(await this.#options.readRows());
  }

  /** Calls back with the addresses of the other servers, now and after each update. */
  watch(watcher: (addresses: string[]) => void): void {
    this.#watchers.push(watcher);
    watcher(this.#addresses());
  }

  #addresses(): string[] {
    return [...this.#peers.values()].map(({ row }) => row.relay_address).filter((address) => address !== '');
  }

  get ids(): string[] {
    return [...this.#peers.keys()];
  }

  has(id: string): boolean {
    return this.#peers.has(id);
  }

  /** Connects to every server that has no session, and pings each. Resolves when all have answered or failed. Never rejects. */
  async pingAll(): Promise<void> {
    await Promise.all(
      [...this.#peers.values()].map(async (peer) => {
        const before = peer.problem;
        try {
          await (await this.#session(peer)).ping();
          peer.problem = undefined;
        } catch (err) {
          peer.problem = errorText(err);
        }
        if ((before === undefined) !== (peer.problem === undefined)) this.#logChange(peer);
      }),
    );
  }

  #logChange({ row, problem }: Peer): void {
    const fields = { replica: row.id, hostname: row.hostname, address: addressOf(row) };
    if (problem === undefined) this.#options.log.info('reached another server', fields);
    else this.#options.log.warn('cannot reach another server', { ...fields, err: problem });
  }

  /** Which servers this one cannot reach, and why. Empty if it reaches all. */
  problem(): string {
    return [...this.#peers.values()]
      .filter(({ problem }) => problem !== undefined)
      .map(({ row, problem }) => `${describe(row)}: ${problem}`)
      .join('; ');
  }

  /**
   * Opens a stream to a service of another server.
   * @throws TunnelError `refused` with the other server's reason, AppError `unavailable` if it cannot be reached, or the
   * signal's reason
   */
  async request(id: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex> {
    const peer = this.#peers.get(id);
    if (!peer)
      throw new AppError('unavailable', 'The server that the agent is connected to is gone.', { retryAfter: 1 });
    try {
      return await requestTunnel(await this.#session(peer), request, {
        timeoutMs: REQUEST_TIMEOUT_MS,
        ...(signal ? { signal } : {}),
      });
    } catch (err) {
      signal?.throwIfAborted();
      if (err instanceof TunnelError && err.code === 'refused') throw err;
      throw new AppError('unavailable', 'The server that the agent is connected to cannot be reached.', {
        detail: `${describe(peer.row)}: ${errorText(err)}. The health page shows which servers reach each other.`,
        // the next request may go to another server
        retryAfter: 1,
        cause: err,
      });
    }
  }

  /** Whether another server is ready and does not end soon. Resolves with the first one that is. Never rejects. */
  async isAnyReady(): Promise<boolean> {
    const asked = [...this.#peers.keys()].map(async (id) => {
      const stream = await this.request(id, { service: 'ready' }, this.#closed.signal);
      stream.on('error', () => {}).destroy();
    });
    return Promise.any(asked).then(
      () => true,
      () => false,
    );
  }

  close(): void {
    this.#closed.abort(new AppError('canceled', 'The server is shutting down.'));
    for (const { session } of this.#peers.values()) void session?.close();
    this.#peers.clear();
  }

  #session(peer: Peer): Promise<YamuxSession> {
    if (peer.session) return Promise.resolve(peer.session);
    peer.dialing ??= this.#dial(peer).finally(() => {
      peer.dialing = undefined;
    });
    return peer.dialing;
  }

  async #dial(peer: Peer): Promise<YamuxSession> {
    const keys = () => [this.#options.key.published.publicKey, peer.row.public_key];
    const used = keys();
    try {
      return await this.#dialOnce(peer);
    } catch (err) {
      this.#closed.signal.throwIfAborted();
      // one of the two may have renewed its keys in this moment
      await this.refresh().catch(() => {});
      if (keys().every((key, at) => key.equals(used[at]!))) throw err;
      return this.#dialOnce(peer);
    }
  }

  async #dialOnce(peer: Peer): Promise<YamuxSession> {
    const { row } = peer;
    const address = addressOf(row);
    if (address === '')
      throw new AppError('unavailable', 'it has no address for other servers: set --derp-server-relay-url there');
    const { id, key, now } = this.#options;
    const hello = greet(key, { from: id, to: row.id, now: now() });
    const { connection, responseHeaders } = await dialWebSocket(`${address}${PEER_PATH}`, {
      headers: hello.headers,
      timeoutMs: DIAL_TIMEOUT_MS,
      signal: this.#closed.signal,
      // its certificate signs itself: only the one in the row counts, whatever the address is
      ...(row.cluster_address === '' ? {} : { ...key.tls, ca: row.certificate, servername: row.id }),
    }).catch((err) => {
      throw asAnswered(err);
    });
    if (!hello.isAnswered(responseHeaders, row.public_key)) {
      connection.close();
      throw new AppError('unauthenticated', 'another program answers at that address');
    }
    const session = linkSession(connection, { role: 'client' });
    if (this.#peers.get(row.id) !== peer) {
      void session.close();
      throw new AppError('unavailable', 'it has left the deployment');
    }
    peer.session = session;
    void session.closed.then(() => {
      if (peer.session === session) peer.session = undefined;
    });
    return session;
  }
}

/** The other server's message instead of its status. */
function asAnswered(err: unknown): unknown {
  if (!(err instanceof WebSocketDialError) || err.status === undefined) return err;
  try {
    const { message } = JSON.parse(err.body) as { message: string };
    return new Error(message, { cause: err });
  } catch {
    return err;
  }
}

/** Where a server accepts streams of others. Empty if it has no such address. */
const addressOf = ({ cluster_address: own, relay_address: api }: ReplicaRow) => own || api;

const describe = (row: ReplicaRow) => `"${row.hostname}"${addressOf(row) === '' ? '' : ` at ${addressOf(row)}`}`;
