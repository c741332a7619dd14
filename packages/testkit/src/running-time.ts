const EVERY_MS = 20;
const MAX_MS = 100;

/**
 * Measures the time that passes while this process runs, in ms: a pause of the machine hardly counts. For answers of
 * others, such as a database. It does not see this process's own work, for which `heldUp` is.
 */
export function runningTime(): { ms(): number; stop(): void } {
  let [ms, last] = [0, performance.now()];
  const count = () => {
    const now = performance.now();
    ms += Math.min(now - last, MAX_MS);
    last = now;
  };
  const timer = setInterval(count, EVERY_MS);
  return {
    ms() {
      count();
      return ms;
    },
    stop: () => clearInterval(timer),
  };
}
