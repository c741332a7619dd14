import { setTimeout as delay } from 'node:timers/promises';

/** Polls until the check gives a value other than undefined or false; fails naming what it waited for. */
export async function eventually<T>(
  check: () => T | undefined | false | Promise<T | undefined | false>,
  what: string,
  withinMs = 10_000,
): Promise<T> {
  const limit = performance.now() + withinMs;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > limit) throw new Error(`waited ${withinMs} ms for ${what}`);
    await delay(10);
  }
}
