import type { Path, PathSource } from './path.ts';

/** A ping without an answer for this long is lost, in ms. */
const PROBE_TIMEOUT_MS = 1_500;
/** The round trip of a path is the median of the last ones. */
const MAX_SAMPLES = 5;
const MIN_SAMPLES = 3;
/** A path without an answer for this long is dead, in ms. */
export const DEAD_MS = 2_500;
/** After a session had to leave the path, sessions avoid it for this long, in ms, and twice as long each time. */
const FIRST_REST_MS = 20_000;
const MAX_REST_MS = 5 * 60_000;
/** A path that was used for this long is good: the next rest is short again. */
const GOOD_MS = 2 * 60_000;

/** The path of one source, as pings found it, and when sessions may use it. */
export class Candidate {
  readonly source: PathSource;
  #path: Path | undefined;
  #samples: number[] = [];
  #aliveAt = 0;
  #restMs = FIRST_REST_MS;
  #restUntil = 0;
  #goodSince = 0;

  constructor(source: PathSource) {
    this.source = source;
  }

  /** Undefined while there is none. */
  get path(): Path | undefined {
    return this.#path;
  }

  /** The median round trip in ms. Undefined if too little is known, or the path is dead. */
  get ms(): number | undefined {
    if (!this.#path || this.#samples.length < MIN_SAMPLES) return undefined;
    return this.#samples.toSorted((a, b) => a - b)[Math.floor(this.#samples.length / 2)];
  }

  get isResting(): boolean {
    return performance.now() < this.#restUntil;
  }

  begin(path: Path): void {
    this.#path = path;
    this.#samples = path.measured.slice(-MAX_SAMPLES);
    this.#aliveAt = performance.now();
  }

  end(): void {
    this.#path = undefined;
  }

  /** Never rejects. */
  async probe(signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
    const ms = await this.#path?.probe(limit).catch(() => undefined);
    if (ms !== undefined) {
      this.#samples.push(ms);
      if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
      this.#aliveAt = performance.now();
    } else if (performance.now() - this.#aliveAt > DEAD_MS) this.#samples = [];
  }

  /** A session has moved here. */
  used(): void {
    this.#goodSince = performance.now();
  }

  /** A session had to leave, or could not move here. */
  rest(): void {
    if (this.isResting) return;
    this.#restUntil = performance.now() + this.#restMs;
    this.#restMs = Math.min(2 * this.#restMs, MAX_REST_MS);
  }

  /** A session has left. */
  left(): void {
    if (performance.now() - this.#goodSince >= GOOD_MS) this.#restMs = FIRST_REST_MS;
    this.rest();
  }
}
