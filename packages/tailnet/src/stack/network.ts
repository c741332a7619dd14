import type { Timers } from './timers.ts';

/** What the protocols of one stack share. */
export interface Network {
  readonly timers: Timers;
  /** Monotonic ms. */
  now(): number;
  /** A number from 0 to 1. */
  random(): number;
  /** Gives a packet to the network. It is not changed later. */
  send(packet: Buffer): void;
  /** The longest packet that now reaches a peer. At least MTU. */
  packetBytes(peer: Buffer): number;
  /** Packets longer than MTU do not reach a peer. */
  longPacketsLost(peer: Buffer): void;
  /** The own address from which new connections to a peer begin. */
  sourceFor(peer: Buffer): Buffer;
}

/** Why a connection ended, with a code as in Node's own sockets. */
export class NetworkError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'NetworkError';
    this.code = code;
  }
}

/** Counts what many connections hold together, and what each of them may hold. */
export class Budget {
  readonly max: number;
  /** What each may hold even while the budget is used up. */
  readonly guaranteed: number;
  readonly maxEach: number;
  used = 0;

  constructor(options: { max: number; maxEach: number; guaranteed: number }) {
    this.max = options.max;
    this.maxEach = options.maxEach;
    this.guaranteed = Math.min(options.guaranteed, options.maxEach);
  }

  /** How much one that holds `own` may hold in all. */
  allowance(own: number): number {
    // nobody takes more than half of the rest, so that something is left for the next one
    return Math.min(this.maxEach, Math.max(this.guaranteed, own + ((this.max - this.used) >> 1)));
  }
}
