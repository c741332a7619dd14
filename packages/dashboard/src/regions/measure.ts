import type { Latency } from './choice.ts';

const TIMEOUT_MS = 5_000;
/** How long the browser may take to report about a request that has ended, in ms. */
const REPORT_MS = 200;
/** The first request opens the connection. */
const REQUESTS = 2;

/**
 * Measures the round-trip time to a region, without opening the connection. The fastest of a few requests counts.
 * @param url the origin of the region
 * @throws when `signal` aborts
 */
export async function measureLatency(url: string, signal: AbortSignal): Promise<Latency> {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < REQUESTS; i++) {
    const latency = await measureOnce(url, signal);
    signal.throwIfAborted();
    if ('failure' in latency) return latency;
    best = Math.min(best, latency.ms);
  }
  return { ms: best };
}

async function measureOnce(url: string, signal: AbortSignal): Promise<Latency> {
  const address = `${url}/latency-check?cache_bust=${Math.random().toString(36).slice(2)}`;
  const report = watchRequest(address);
  const begun = performance.now();
  try {
    const answer = await fetch(address, {
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    await answer.text();
    if (!answer.ok) return { failure: 'unreachable' };
    const took = performance.now() - begun;
    const { timing } = await report.within(REPORT_MS, 'timing');
    // zero: the region does not let pages of other origins see the parts of the time
    return { ms: timing && timing.requestStart > 0 ? timing.responseStart - timing.requestStart : took };
  } catch {
    if (signal.aborted) return { failure: 'unreachable' };
    const { blocked } = await report.within(REPORT_MS, 'blocked');
    return { failure: blocked ? 'blocked' : 'unreachable' };
  } finally {
    report.end();
  }
}

interface RequestReport {
  timing?: PerformanceResourceTiming;
  /** Whether the page's Content-Security-Policy rejected the request. */
  blocked?: boolean;
}

/** Collects what the browser reports about a request, which can arrive after the request's end. */
function watchRequest(address: string) {
  const found: RequestReport = {};
  let notify = () => {};
  const observer = new PerformanceObserver((list) => {
    const timing = list.getEntriesByName(address)[0] as PerformanceResourceTiming | undefined;
    if (timing) found.timing = timing;
    notify();
  });
  observer.observe({ type: 'resource' });
  const onViolation = ({ blockedURI }: SecurityPolicyViolationEvent) => {
    if (blockedURI === '' || !address.startsWith(blockedURI.split('?')[0]!)) return;
    found.blocked = true;
    notify();
  };
  document.addEventListener('securitypolicyviolation', onViolation);
  return {
    /** Waits until the browser has reported `what`, but not longer than `ms`. */
    async within(ms: number, what: keyof RequestReport): Promise<RequestReport> {
      if (found[what] === undefined) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          notify = () => {
            if (found[what] === undefined) return;
            clearTimeout(timer);
            resolve();
          };
        });
      }
      return found;
    },
    end() {
      observer.disconnect();
      document.removeEventListener('securitypolicyviolation', onViolation);
    },
  };
}
