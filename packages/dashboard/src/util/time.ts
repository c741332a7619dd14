import { useSyncExternalStore } from 'react';

/** Makes a format when it is first used, since each takes milliseconds to make. */
function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

const date = once(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' }));
const dateTime = once(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' }));
const exact = once(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' }));
const clock = once(() => new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' }));
const relative = once(() => new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'long' }));

type When = string | number | Date;

/** How far the browser's clock is ahead of the server's, in ms. */
let ahead = 0;

/** Learns the server's clock from the Date header of an answer. Its precision is a second. */
export function learnServerTime(header: string | null): void {
  const server = header ? Date.parse(header) : Number.NaN;
  if (Number.isNaN(server)) return;
  const difference = Date.now() - server;
  ahead = Math.abs(difference) > 5_000 ? difference : 0;
}

/** The server's time now, in ms. Durations since a time of the server count from here, also if the browser's clock is wrong. */
export const serverNow = (): number => Date.now() - ahead;

export const formatDate = (when: When): string => date().format(new Date(when));
export const formatDateTime = (when: When): string => dateTime().format(new Date(when));
export const formatExact = (when: When): string => exact().format(new Date(when));
export const formatClock = (when: When): string => clock().format(new Date(when));

const UNITS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['week', 604_800],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

/** "3 minutes ago", "in 2 hours". Less than 45 seconds is "just now" or "in a moment". */
export function formatRelative(when: When, now: number = serverNow()): string {
  const seconds = (new Date(when).getTime() - now) / 1000;
  if (Math.abs(seconds) < 45) return seconds > 5 ? 'in a moment' : 'just now';
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size * 0.95) ?? ['minute', 60];
  return relative().format(Math.round(seconds / size), unit);
}

/** "850 ms", "4.2 s", "3 m 12 s", "2 h 5 m", "3 d 4 h". */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9_950 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3_600) return join(Math.floor(seconds / 60), 'm', seconds % 60, 's');
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1_440) return join(Math.floor(minutes / 60), 'h', minutes % 60, 'm');
  const hours = Math.round(ms / 3_600_000);
  return join(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

const join = (a: number, unitA: string, b: number, unitB: string) =>
  b === 0 ? `${a} ${unitA}` : `${a} ${unitA} ${b} ${unitB}`;

/** Upstream's way to say that a time is not set. */
export function isZeroTime(when: string | null | undefined): boolean {
  return !when || when.startsWith('0001-01-01');
}

interface Ticker {
  subscribe(listen: () => void): () => void;
  now(): number;
}

const tickers = new Map<number, Ticker>();

function ticker(everyMs: number): Ticker {
  const listeners = new Set<() => void>();
  let now = serverNow();
  let timer: ReturnType<typeof setInterval> | undefined;
  const tick = () => {
    now = serverNow();
    for (const each of listeners) each();
  };
  return {
    subscribe(listen) {
      if (listeners.size === 0) {
        now = serverNow();
        timer = setInterval(tick, everyMs);
      }
      listeners.add(listen);
      return () => {
        listeners.delete(listen);
        if (listeners.size === 0) clearInterval(timer);
      };
    },
    now: () => now,
  };
}

/** The server's time, which makes the component render again every `everyMs`. All components share one timer. */
export function useNow(everyMs = 10_000): number {
  let shared = tickers.get(everyMs);
  if (!shared) {
    shared = ticker(everyMs);
    tickers.set(everyMs, shared);
  }
  // the same function at each render: a new one would subscribe again
  return useSyncExternalStore(shared.subscribe, shared.now);
}
