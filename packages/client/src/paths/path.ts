import type { Duplex } from 'node:stream';

/** A path to an agent on which sessions of tunnels continue, while this program has it. */
export interface Path {
  /** As in Tunnel: `direct 192.0.2.7:41641` or `proxy eu`. */
  readonly name: string;
  /** Whether it carries as many bytes in a second as the server does. */
  readonly carriesBulk: boolean;
  /** Whether arriving bytes of a session prove that it works. Those of the direct path may have come over a relay. */
  readonly isProvenByBytes: boolean;
  /** Round trips that were measured before, in ms. */
  readonly measured: readonly number[];
  /** Why it has ended for good. `replaced`: another one of the same source is better. */
  readonly end: 'lost' | 'replaced' | undefined;
  /** The round trip to the agent now, in ms. Undefined without an answer on this path. */
  probe(signal: AbortSignal): Promise<number | undefined>;
  /** Opens a connection on which a session continues. */
  connect(signal: AbortSignal): Promise<Duplex>;
  /** Never rejects. */
  close(): Promise<void>;
}

export interface JoinOptions {
  signal: AbortSignal;
  /** The shortest round trip that a session has now, in ms. Infinite while it is unknown. */
  currentMs(): number;
}

export interface PathSource {
  /** The time until the next attempt, in ms. It doubles with each that brought nothing. */
  readonly firstRetryMs: number;
  /** Rejects if there is no path now. */
  join(options: JoinOptions): Promise<Path>;
}

/** A path is better if its round trip is shorter by this share, and by this much in ms. */
const BETTER_SHARE = 0.75;
const BETTER_MS = 3;

/** Whether it is worth a move. */
export const isClearlyFaster = (ms: number, than: number): boolean =>
  ms <= BETTER_SHARE * than && than - ms >= BETTER_MS;
