const MIN_RTO_MS = 200;
const INITIAL_RTO_MS = 1_000;
const MAX_RTO_MS = 60_000;
/** Of the clocks involved. */
const GRANULARITY_MS = 1;

/** The smoothed round trip and the retransmission timeout (RFC 6298), in ms. */
export class RoundTrip {
  #smoothed: number | undefined;
  #variation = 0;
  #min = Number.POSITIVE_INFINITY;

  get smoothed(): number | undefined {
    return this.#smoothed;
  }

  get min(): number {
    return this.#min;
  }

  sample(rtt: number): void {
    if (rtt < this.#min) this.#min = rtt;
    if (this.#smoothed === undefined) {
      this.#smoothed = rtt;
      this.#variation = rtt / 2;
      return;
    }
    this.#variation = 0.75 * this.#variation + 0.25 * Math.abs(this.#smoothed - rtt);
    this.#smoothed = 0.875 * this.#smoothed + 0.125 * rtt;
  }

  /** The timeout after so many expirations without an answer. */
  timeout(expirations: number): number {
    const base =
      this.#smoothed === undefined
        ? INITIAL_RTO_MS
        : // the variation counts at least as much as an answer may be delayed
          this.#smoothed + Math.max(GRANULARITY_MS, 4 * this.#variation, MIN_RTO_MS);
    return Math.min(base * 2 ** expirations, MAX_RTO_MS);
  }
}
