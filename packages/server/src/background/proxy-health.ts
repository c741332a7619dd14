import type { BackgroundTask } from '../app/context/background-task.ts';
import type { Services } from '../app/context/context.ts';
import type { ProxyHealth } from '../app/workspace-proxy/health.ts';

/** The shortest period, and the period of an option that is not positive, in ms. Upstream's default. */
const MIN_PERIOD_MS = 1_000;
const DEFAULT_PERIOD_MS = 60_000;
/** Changes that are announced together lead to one check, in ms. */
const GATHER_MS = 200;

/** Checks the workspace proxies. Every server does, because each may reach others. */
export function proxyHealthTask({ config, events }: Services, health: ProxyHealth): BackgroundTask {
  const given = config.proxyHealthInterval;
  return {
    name: 'workspace proxies',
    periodMs: given > 0 ? Math.max(given, MIN_PERIOD_MS) : DEFAULT_PERIOD_MS,
    gatherMs: GATHER_MS,
    needsLock: false,
    wakeOn: (wake) => [events.on('workspace_proxies_changed', wake)],
    async run(signal) {
      await health.checkAll(signal);
      return undefined;
    },
  };
}
