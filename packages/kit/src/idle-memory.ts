import { getHeapStatistics } from 'node:v8';
import { garbageCollector } from './garbage-collector.ts';

const LOOK_MS = 10_000;
/** The share of the time in which the event loop did something, below which a process counts as idle. */
const IDLE_UTILIZATION = 0.05;
/** A collection takes some tens of milliseconds: it has to be worth it. */
const LEAST_GROWTH = 12 << 20;

/**
 * Gives memory back to the system while a process is idle. V8 keeps the heap that a burst of work has grown, and never
 * looks at it again without more work. Looks every ten seconds; collects where the process did next to nothing since the
 * last look and the heap has grown by 12 MiB since the last collection. Returns what stops it.
 */
export function releaseMemoryWhenIdle({ lookMs = LOOK_MS } = {}): () => void {
  let usage = performance.eventLoopUtilization();
  let afterLast = 0;
  let running = false;
  const timer = setInterval(async () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, usage);
    usage = now;
    const grown = getHeapStatistics().total_heap_size - afterLast;
    if (running || utilization > IDLE_UTILIZATION || grown < LEAST_GROWTH) return;
    running = true;
    await garbageCollector()({ type: 'major', execution: 'async', flavor: 'last-resort' });
    afterLast = getHeapStatistics().total_heap_size;
    usage = performance.eventLoopUtilization();
    running = false;
  }, lookMs);
  timer.unref();
  return () => clearInterval(timer);
}
