/**
 * Limits attempts to sign in. A *caller* is a device that signed in to this account before (it sends a signed cookie),
 * or else the pair of client address and account. So a stranger's failures delay the stranger, not the account's owner.
 * Delays grow with failures and expire by themselves. Nothing is ever locked. An unknown device also shares the wider
 * budgets of the account and of the address, which stop guesses spread over many addresses or accounts. All counts are
 * in the memory of each server, and each server sends the results of its attempts to the others.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { AppError, type Clock } from '@ropewalk/kit';
import type { Events } from '../../db/events.ts';
import { networkOf } from '../values/network.ts';
import { sameBytes, sha256 } from '../values/token.ts';

/**
 * The number of failures without a delay, for each kind of count. Each further failure doubles the delay, up to the
 * longest.
 */
const FREE = { caller: 5, account: 30, address: 60 } as const;
const LONGEST_DELAY_MS = { caller: 60_000, account: 10_000, address: 10_000 } as const;
/** Failures are forgotten after this time without an attempt, in ms. */
const FORGET_MS = 15 * 60_000;
/** The maximum number of entries of each kind. Beyond them, the oldest are forgotten. */
const MAX_KEYS = 50_000;
/**
 * How many passwords are checked at a time. Each check takes a processor, a thread of libuv's four, and 19 MiB. One
 * processor and one thread stay free for requests.
 */
export const CHECKS_AT_ONCE = Math.min(Math.max(availableParallelism() - 1, 1), 3);
/** How many attempts may wait. */
const MAX_WAITING = 64;

type Kind = keyof typeof FREE;

interface Count {
  failures: number;
  /** Monotonic time, in ms. */
  notBefore: number;
  last: number;
}

export interface Attempt {
  /** The client's address. */
  address: string;
  account: string;
  /** The id of a device that signed in to this account before. */
  device: string | undefined;
  /** Counts these attempts by this name alone, so that they delay no others. */
  budget?: string;
}

export interface SignInLimit {
  /**
   * Runs `check`, which verifies a password, when it is this attempt's turn, and counts its result.
   * @throws AppError `rate_limited` with the seconds to wait
   */
  attempt(attempt: Attempt, check: () => Promise<boolean>): Promise<boolean>;
}

export interface SignInLimitOptions {
  /** Off: counts no failures, and any number of attempts may wait for their turn. */
  enabled?: boolean;
  checksAtOnce?: number;
  /** Counts the attempts on other servers too. Default: none. */
  shared?: {
    events: Pick<Events, 'on' | 'publishSoon'>;
    /** The id of this server. */
    server: string;
    /** Of this limit: the same on all servers, and different from the other limits. */
    name: string;
  };
}

/** The counts of one attempt, by the digests of their keys. */
type AttemptCounts = [Kind, digest: string][];

export function createSignInLimit(
  clock: Clock,
  { enabled = true, checksAtOnce = CHECKS_AT_ONCE, shared }: SignInLimitOptions = {},
): SignInLimit {
  const counts: Record<Kind, Map<string, Count>> = { caller: new Map(), account: new Map(), address: new Map() };
  const turns = createTurns(checksAtOnce, enabled ? MAX_WAITING : Number.POSITIVE_INFINITY);

  function countOf(kind: Kind, key: string, now: number): Count {
    const map = counts[kind];
    const found = map.get(key);
    if (found && now - found.last < FORGET_MS) return found;
    map.delete(key);
    if (map.size >= MAX_KEYS) map.delete(map.keys().next().value!);
    const made = { failures: 0, notBefore: 0, last: now };
    map.set(key, made);
    return made;
  }

  /** Counts a failure before the result is known, so that concurrent attempts count one by one. */
  function assume(kind: Kind, count: Count, now: number): void {
    count.failures += 1;
    count.last = now;
    const beyond = count.failures - FREE[kind];
    if (beyond >= 0) count.notBefore = now + Math.min(1_000 * 2 ** Math.min(beyond, 20), LONGEST_DELAY_MS[kind]);
  }

  function clear(kind: Kind, count: Count): void {
    count.failures = kind === 'caller' ? 0 : Math.max(0, count.failures - 1);
    count.notBefore = 0;
  }

  let published = 0;
  function publish(attempted: AttemptCounts, right: boolean): void {
    if (!shared) return;
    const { events, server, name: limit } = shared;
    // the number keeps two equal results from being one event
    events.publishSoon('sign_in_attempted', { server, number: ++published, limit, counts: attempted, right });
  }
  shared?.events.on('sign_in_attempted', ({ server, limit, counts: attempted, right }) => {
    if (server === shared.server || limit !== shared.name) return;
    const now = clock.monotonic();
    for (const [kind, digest] of attempted) {
      const count = countOf(kind, digest, now);
      assume(kind, count, now);
      if (right) clear(kind, count);
    }
  });

  return {
    async attempt({ address: from, account, device, budget = device && `device ${device}` }, check) {
      if (!enabled) return turns(device !== undefined, check);
      const address = networkOf(from);
      const now = clock.monotonic();
      const wanted: AttemptCounts = budget
        ? [['caller', digest(budget)]]
        : [
            ['caller', digest(`${address} ${account}`)],
            ['account', digest(account)],
            ['address', digest(address)],
          ];
      const held = wanted.map(([kind, key]) => [kind, countOf(kind, key, now)] as const);
      const wait = Math.max(...held.map(([, { notBefore }]) => notBefore - now));
      if (wait > 0) {
        const seconds = Math.ceil(wait / 1_000);
        throw new AppError('rate_limited', `You've been rate limited. Try again in ${seconds} seconds.`);
      }
      const failedBefore = held.some(([, { failures }]) => failures > 0);
      for (const [kind, count] of held) assume(kind, count, now);
      const right = await turns(device !== undefined, check);
      if (right) for (const [kind, count] of held) clear(kind, count);
      if (!right || failedBefore) publish(wanted, right);
      return right;
    },
  };
}

/** The counts need neither account names nor addresses, so these are not sent. */
const digest = (key: string) => sha256(key).toString('base64url').slice(0, 22);

/** Runs a few checks at a time, known devices first. */
function createTurns(most: number, mostWaiting: number) {
  let running = 0;
  const waiting: { first: (() => void)[]; rest: (() => void)[] } = { first: [], rest: [] };
  return async <T>(known: boolean, run: () => Promise<T>): Promise<T> => {
    if (running >= most) {
      const queue = known ? waiting.first : waiting.rest;
      if (queue.length >= mostWaiting) {
        throw new AppError('rate_limited', 'Too many people are signing in. Try again in 5 seconds.');
      }
      await new Promise<void>((resolve) => queue.push(resolve));
    } else running += 1;
    try {
      return await run();
    } finally {
      const next = waiting.first.shift() ?? waiting.rest.shift();
      if (next) next();
      else running -= 1;
    }
  };
}

export const DEVICE_COOKIE = 'coder_known_device';
export const DEVICE_LIFETIME_MS = 365 * 24 * 3_600_000;

/** Signed proofs that a device has signed in to an account. They grant no access. */
export interface KnownDevices {
  /** The proof for a cookie, with the device's own id if it has one, or a new one. */
  issue(userId: string, device?: string): string;
  /** The device's id, if this server issued the proof for this account and it has not expired. */
  verify(userId: string, proof: string | undefined): string | undefined;
}

export function createKnownDevices(secret: string, clock: Clock): KnownDevices {
  const sign = (text: string) => createHmac('sha256', secret).update(text).digest();
  return {
    issue(userId, device = randomBytes(12).toString('base64url')) {
      const text = `${device}.${userId}.${clock.now().getTime()}`;
      return `${text}.${sign(text).toString('base64url')}`;
    },
    verify(userId, proof = '') {
      const [, text, device, owner, at, mac] =
        /^(([\w-]{16})\.([0-9a-f-]{36})\.(\d{1,15}))\.([\w-]{43})$/.exec(proof) ?? [];
      if (!text || owner !== userId || !sameBytes(Buffer.from(mac!, 'base64url'), sign(text))) return undefined;
      const age = clock.now().getTime() - Number(at);
      return age >= -60_000 && age < DEVICE_LIFETIME_MS ? device : undefined;
    },
  };
}
