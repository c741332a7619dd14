import { Histogram, type Registry } from 'prom-client';
import type { Sql } from '../db/connect.ts';
import { watchQueries } from '../db/query-times.ts';

/** Times the database's statements. Returns a function that ends it. */
export function createQueryMetrics(sql: Sql, registry: Registry): () => void {
  const latencies = new Histogram({
    name: 'coderd_db_query_latencies_seconds',
    help: 'The time from sending a statement to its result, in seconds. query: the verb and the first table.',
    labelNames: ['query'] as const,
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10, 30],
    registers: [registry],
  });
  return watchQueries(sql, (query) => {
    const began = performance.now();
    return () => latencies.observe({ query }, (performance.now() - began) / 1_000);
  });
}
