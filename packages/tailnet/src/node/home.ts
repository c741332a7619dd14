// The choice of a node's home: the region whose relay keeps a connection to it, and over which its peers reach it.
import { isHomeRegion, type RelayMap } from '../derp/map.ts';

/** Measurements count for this long. The shortest of them is a region's latency. */
const HISTORY_MS = 5 * 60_000;
/** Another home must be closer by this factor and this time. Each change of it makes peers open connections. */
const CLOSER_FACTOR = 2 / 3;
const CLOSER_MS = 10;
/** Maximum number of measurements of a region that are kept. */
const MAX_HISTORY = 32;

export class HomeChoice {
  readonly #now: () => number;
  readonly #history = new Map<number, { at: number; ms: number }[]>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Takes a measured latency of a region, in ms. */
  note(region: number, ms: number): void {
    const fresh = this.#fresh(region).slice(1 - MAX_HISTORY);
    this.#history.set(region, [...fresh, { at: this.#now(), ms }]);
  }

  /** Forgets the measurements of a region. */
  forget(region: number): void {
    this.#history.delete(region);
  }

  /** The shortest latency of a region in the last 5 minutes, in ms. */
  latencyOf(region: number): number | undefined {
    const fresh = this.#fresh(region);
    return fresh.length > 0 ? Math.min(...fresh.map(({ ms }) => ms)) : undefined;
  }

  /**
   * Chooses among the regions of the map. The current home stays if it works and no other one is much closer. Without
   * measurements the first region is chosen, because a node without a home cannot be reached.
   */
  choose(map: RelayMap, current: number | undefined, isWorking: (region: number) => boolean): number | undefined {
    for (const region of this.#history.keys()) if (!map.has(region)) this.#history.delete(region);
    const candidates = [...map.values()].filter(isHomeRegion).map(({ id }) => id);
    const latency = (region: number) => this.latencyOf(region) ?? Number.POSITIVE_INFINITY;
    const [best] = candidates.toSorted((a, b) => (latency(a) === latency(b) ? a - b : latency(a) - latency(b)));
    if (best === undefined || current === undefined || !candidates.includes(current)) return best;
    if (!isWorking(current)) return latency(best) === Number.POSITIVE_INFINITY ? current : best;
    const isCloser = latency(best) < CLOSER_FACTOR * latency(current) && latency(best) < latency(current) - CLOSER_MS;
    return isCloser && this.latencyOf(current) !== undefined ? best : current;
  }

  #fresh(region: number): { at: number; ms: number }[] {
    const since = this.#now() - HISTORY_MS;
    return (this.#history.get(region) ?? []).filter(({ at }) => at >= since);
  }
}
