import { Gauge, Histogram, type Registry } from 'prom-client';
import type { ProxyHealth } from '../app/workspace-proxy/health.ts';

/** The figure of each status. Upstream's. */
const FIGURES = { ok: 1, unregistered: 0, unhealthy: -1, unreachable: -2 } as const;

/** Adds the metrics of the health of workspace proxies, by upstream's names. */
export function createProxyMetrics(registry: Registry, health: Pick<ProxyHealth, 'results' | 'onChecked'>): void {
  const duration = new Histogram({
    name: 'coderd_proxyhealth_health_check_duration_seconds',
    help: 'How long a check of all workspace proxies takes.',
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10, 30],
    registers: [registry],
  });
  health.onChecked((seconds) => duration.observe(seconds));
  new Gauge({
    name: 'coderd_proxyhealth_health_check_results',
    help: 'The health of each workspace proxy: 1 healthy, 0 unregistered, -1 unhealthy, -2 unreachable.',
    labelNames: ['proxy_id'] as const,
    registers: [registry],
    collect() {
      this.reset();
      for (const [proxy_id, { status }] of health.results()) this.set({ proxy_id }, FIGURES[status]);
    },
  });
}
