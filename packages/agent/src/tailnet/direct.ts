// Sessions of tunnels on connections of the tailnet, which may be direct. A client begins each session through the server,
// which authorizes it and names its holder. On this port it only continues one: with the session's secret, and as a peer that
// the coordinator knows. The coordinator ends a peer that loses its rights, and with it these connections.
import { formatAddress } from '@ropewalk/tailnet/address';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import { RateBudget } from '@ropewalk/tailnet/rate-budget';
import type { TcpStream } from '@ropewalk/tailnet/stack/tcp/stream';
import { GRACE_MS } from '@ropewalk/wire/resume/client';
import type { ResumableSessions } from '@ropewalk/wire/resume/sessions';

/** How long a client may take to name its session, in ms. */
const HELLO_MS = 5_000;
/** Connections that have not named their session yet, and those of one peer. */
const MAX_WAITING = 128;
const MAX_WAITING_PER_PEER = 32;
/** Failed attempts of a peer per second, after a burst. Further ones are not read. */
const FAILURES_PER_SECOND = 0.5;
const FAILURE_BURST = 20;
/** Peers with failed attempts that are remembered. The oldest are forgotten. */
const MAX_FAILING_PEERS = 1_024;
/** A client that is gone is noticed after 9 questions without an answer. */
const KEEPALIVE_MS = 10_000;
const KEEPALIVE_INTERVAL_MS = 2_000;
const CHECK_MS = 5_000;

export interface DirectPathsOptions {
  sessions: Pick<ResumableSessions, 'attach'>;
  node: Pick<TailnetNode, 'lostMs'>;
  /** How long a peer may be without the coordinator, which could end its rights, in ms. */
  maxLostMs?: number;
  checkMs?: number;
  now?: () => number;
}

export class DirectPaths {
  readonly #options: Required<DirectPathsOptions>;
  readonly #waiting = new Map<TcpStream, string>();
  readonly #failures = new Map<string, RateBudget>();
  readonly #carriers = new Set<TcpStream>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DirectPathsOptions) {
    this.#options = { maxLostMs: GRACE_MS, checkMs: CHECK_MS, now: () => performance.now(), ...options };
  }

  /** Serves a connection until it ends. */
  serve(stream: TcpStream): void {
    const peer = formatAddress(stream.remoteAddress);
    const { sessions, node } = this.#options;
    if (!this.#mayWait(peer) || node.lostMs(stream.remoteAddress) !== undefined) {
      stream.destroy();
      return;
    }
    stream.setKeepAlive(KEEPALIVE_MS, KEEPALIVE_INTERVAL_MS);
    this.#waiting.set(stream, peer);
    stream.once('close', () => this.#forget(stream));
    // keeps the holder that the server named
    void sessions.attach(stream, undefined, { timeoutMs: HELLO_MS }).then((session) => {
      this.#waiting.delete(stream);
      if (!session) this.#failed(peer);
      else if (!stream.destroyed) this.#keep(stream);
    });
  }

  close(): void {
    clearInterval(this.#timer);
    for (const stream of [...this.#waiting.keys(), ...this.#carriers]) stream.destroy();
  }

  #mayWait(peer: string): boolean {
    if ((this.#failures.get(peer)?.left(this.#options.now()) ?? 1) < 1) return false;
    const ofPeer = [...this.#waiting.values()].filter((other) => other === peer).length;
    return this.#waiting.size < MAX_WAITING && ofPeer < MAX_WAITING_PER_PEER;
  }

  #failed(peer: string): void {
    const now = this.#options.now();
    const budget = this.#failures.get(peer) ?? new RateBudget(FAILURES_PER_SECOND, now, FAILURE_BURST);
    budget.take(1, now);
    this.#failures.delete(peer);
    this.#failures.set(peer, budget);
    if (this.#failures.size > MAX_FAILING_PEERS) this.#failures.delete(this.#failures.keys().next().value!);
  }

  #keep(stream: TcpStream): void {
    this.#carriers.add(stream);
    this.#timer ??= setInterval(() => this.#check(), this.#options.checkMs).unref();
  }

  #forget(stream: TcpStream): void {
    this.#waiting.delete(stream);
    this.#carriers.delete(stream);
    if (this.#carriers.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Without the coordinator nobody would learn that a peer has lost its rights. */
  #check(): void {
    const { node, maxLostMs } = this.#options;
    for (const stream of [...this.#carriers])
      if ((node.lostMs(stream.remoteAddress) ?? 0) > maxLostMs) stream.destroy();
  }
}
