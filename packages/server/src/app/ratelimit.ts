import { AppError, type Clock } from '@platform/kit';

/** At most so many in a window, by key. Memory is bounded: past `mostKeys` the oldest are forgotten. */
export function createRateLimit(
  clock: Clock,
  { limit, windowMs, mostKeys = 10_000 }: { limit: number; windowMs: number; mostKeys?: number },
) {
  const counts = new Map<string, { count: number; until: number }>();
  return {
    /** Counts one; throws `rate_limited` past the limit. */
    take(key: string): void {
      const now = clock.monotonic();
      let entry = counts.get(key);
      if (!entry || entry.until <= now) {
        counts.delete(key);
        entry = { count: 0, until: now + windowMs };
        if (counts.size >= mostKeys) counts.delete(counts.keys().next().value!);
        counts.set(key, entry);
      }
      entry.count++;
      if (entry.count > limit) {
        const seconds = Math.ceil((entry.until - now) / 1000);
        throw new AppError('rate_limited', `You've been rate limited: try again in ${seconds} seconds.`);
      }
    },
  };
}
export type RateLimit = ReturnType<typeof createRateLimit>;
