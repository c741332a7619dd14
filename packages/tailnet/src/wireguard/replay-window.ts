/** How far a message may be behind the newest one. */
export const REPLAY_WINDOW = 8_128;
const WORD_BITS = 32;
/** One word more than the window, so that the newest word is never shared with the oldest. */
const WORDS = 256;

/** Accepts each counter once, and none that is far behind the newest (RFC 6479). */
export class ReplayWindow {
  readonly #bits = new Uint32Array(WORDS);
  #newest = -1;

  /** Whether this counter is new. Counters are whole numbers from 0. */
  accept(counter: number): boolean {
    const word = Math.floor(counter / WORD_BITS);
    if (counter > this.#newest) {
      const current = Math.floor(Math.max(this.#newest, 0) / WORD_BITS);
      const cleared = Math.min(word - current, WORDS);
      for (let i = 1; i <= cleared; i++) this.#bits[(current + i) % WORDS] = 0;
      this.#newest = counter;
    } else if (this.#newest - counter > REPLAY_WINDOW) return false;
    const bit = 2 ** (counter % WORD_BITS);
    const at = word % WORDS;
    const seen = (this.#bits[at]! & bit) !== 0;
    this.#bits[at] = this.#bits[at]! | bit;
    return !seen;
  }
}
