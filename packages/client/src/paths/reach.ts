// Moves sessions of tunnels from the server to a better path to their agent, and back.
//
// - A session begins through the server. Paths are direct, or lead through a workspace proxy. All sessions of this program with
//   one agent share them. Each is joined when the first session lasts, and left if it brings nothing.
// - Each second a ping measures each path. The server's round trip is that of the session, from the time when it went through
//   the server.
// - Nothing here fails a session. It continues where it is.
import { setTimeout as delay } from 'node:timers/promises';
import type { ResumableSession } from '@ropewalk/wire/resume/client';
import { Candidate } from './candidate.ts';
import { isClearlyFaster, type PathSource } from './path.ts';
import { Placed } from './placed.ts';

const PROBE_MS = 1_000;
const CONNECT_MS = 3_000;
const DIAL_MS = 5_000;
/** How long a path lasts that no session uses, in ms. */
const USELESS_MS = 45_000;
const MAX_RETRY_MS = 60 * 60_000;
/** How long paths last after the last session, in ms: a browser opens connections one after the other. */
const IDLE_MS = 5_000;

/** The paths to one agent, and the sessions with it. */
export class AgentPaths {
  readonly #onUnused: () => void;
  readonly #candidates = new Map<string, Candidate>();
  readonly #placed = new Set<Placed>();
  readonly #end = new AbortController();
  #idle: NodeJS.Timeout | undefined;

  constructor(onUnused: () => void) {
    this.#onUnused = onUnused;
  }

  /** Uses another source of paths. One of each kind. */
  offer(kind: string, source: () => PathSource): void {
    if (this.#candidates.has(kind)) return;
    const candidate = new Candidate(source());
    this.#candidates.set(kind, candidate);
    void this.#run(candidate);
  }

  add(session: ResumableSession, onPath?: (path: string) => void): Placed {
    clearTimeout(this.#idle);
    const placed = new Placed(session, onPath);
    placed.measure();
    this.#placed.add(placed);
    session.stream.once('close', () => {
      this.#placed.delete(placed);
      if (this.#placed.size > 0) return;
      this.#idle = setTimeout(() => {
        this.#onUnused();
        this.#end.abort(new Error('no session is left'));
      }, IDLE_MS).unref();
    });
    return placed;
  }

  /** The measured paths besides the server. */
  measured(): { path: string; ms: number }[] {
    return [...this.#candidates.values()].flatMap(({ path, ms }) =>
      path && ms !== undefined ? [{ path: path.name, ms }] : [],
    );
  }

  /** Joins the paths of a source again and again, until no session is left. Never rejects. */
  async #run(candidate: Candidate): Promise<void> {
    const { signal } = this.#end;
    const { firstRetryMs } = candidate.source;
    for (let wait = firstRetryMs; !signal.aborted; wait = Math.min(2 * wait, MAX_RETRY_MS)) {
      const { wasUsed, isReplaced } = await this.#use(candidate).catch(() => ({ wasUsed: false, isReplaced: false }));
      if (wasUsed) wait = firstRetryMs;
      await delay(isReplaced ? 0 : wait, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Places the sessions while that brings something. Rejects if there is no path. */
  async #use(candidate: Candidate): Promise<{ wasUsed: boolean; isReplaced: boolean }> {
    const { signal } = this.#end;
    const path = await candidate.source.join({ signal, currentMs: () => this.#currentMs() });
    candidate.begin(path);
    let usedAt = performance.now();
    let wasUsed = false;
    try {
      while (!signal.aborted && !path.end && performance.now() - usedAt < USELESS_MS) {
        await candidate.probe(signal);
        await Promise.all([...this.#placed].map((placed) => this.#place(placed)));
        const isUsed = [...this.#placed].some(({ on }) => on === candidate);
        if (isUsed || candidate.isResting) usedAt = performance.now();
        wasUsed ||= isUsed;
        await delay(PROBE_MS, undefined, { signal, ref: false }).catch(() => {});
      }
    } finally {
      const here = [...this.#placed].filter(({ on }) => on === candidate);
      await Promise.all(here.map((placed) => this.#toServer(placed, true)));
      candidate.end();
      await path.close();
    }
    return { wasUsed, isReplaced: path.end === 'replaced' };
  }

  #currentMs(): number {
    for (const placed of this.#placed) placed.measure();
    return Math.min(Number.POSITIVE_INFINITY, ...[...this.#placed].map(({ ms }) => ms));
  }

  /** Moves a session if another path is clearly better. Never rejects. */
  async #place(placed: Placed): Promise<void> {
    placed.measure();
    if (placed.isMoving) return;
    const { on, isBulk, serverMs } = placed;
    if (on) {
      const isAlive = on.ms !== undefined || (on.path?.isProvenByBytes && !placed.isSilent);
      if (on.path?.end || !isAlive) return this.#toServer(placed, true);
      // pings are late on a busy machine, and bytes arrive
      if (on.ms === undefined) return;
      if (isBulk ? !on.path?.carriesBulk : on.ms >= serverMs) return this.#toServer(placed, false);
    }
    const current = placed.ms;
    if (!Number.isFinite(current)) return;
    const usable = [...this.#candidates.values()].filter(
      (other) => other !== on && other.ms !== undefined && !other.isResting && (!isBulk || other.path!.carriesBulk),
    );
    const best = usable.toSorted((a, b) => a.ms! - b.ms!)[0];
    if (best && isClearlyFaster(best.ms!, current)) await this.#toPath(placed, best);
  }

  async #toPath(placed: Placed, candidate: Candidate): Promise<void> {
    placed.isMoving = true;
    try {
      const limit = AbortSignal.any([this.#end.signal, AbortSignal.timeout(CONNECT_MS)]);
      const carrier = await candidate.path!.connect(limit);
      await placed.session.move(carrier);
      placed.setPath(candidate, carrier);
      candidate.used();
      carrier.once('close', () => {
        // during a move, the agent ends it
        if (placed.carrier === carrier && !placed.isMoving) this.#left(placed);
      });
    } catch {
      candidate.rest();
    } finally {
      placed.isMoving = false;
      if (placed.carrier?.destroyed) this.#left(placed);
    }
  }

  /** `isDead`: the session cannot stay where it is, also if the server does not answer now. */
  async #toServer(placed: Placed, isDead: boolean): Promise<void> {
    const { session, carrier } = placed;
    if (!carrier || placed.isMoving || session.stream.destroyed) return;
    placed.isMoving = true;
    try {
      const until = AbortSignal.timeout(DIAL_MS);
      await session.move(await session.dial(isDead ? until : AbortSignal.any([this.#end.signal, until])));
      this.#left(placed);
    } catch {
      // as after a lost connection, the session dials until the server answers
      if (isDead) carrier.destroy();
      if (carrier.destroyed) this.#left(placed);
    } finally {
      placed.isMoving = false;
    }
  }

  #left(placed: Placed): void {
    const { on, isOver } = placed;
    placed.setPath(undefined, undefined);
    if (!isOver) on?.left();
  }
}
