import { setImmediate } from 'node:timers/promises';
import type { Clock } from '@ropewalk/kit';
import { type Stats_Metric, Stats_Metric_Type } from '@ropewalk/wire/proto/agent';
import { Counter, Gauge, Registry } from 'prom-client';
import { readAgentNames, STATS_LABELS, type StatsLabel } from '../db/queries/workspace-figures.ts';
import type { AgentIdentity } from '../db/rows.ts';
import type { DatabaseGauges } from './gauges.ts';

// Metrics that agents measure and send with their statistics. Anyone with a workspace's token can send anything, so the
// names of agent, workspace, owner and template come from the database, and everything else is checked and limited.

/** Upstream's agents send about 80, most of them of the network, and this project's agents three. */
const MAX_SERIES_OF_AGENT = 300;
const MAX_SERIES_OF_OWNER = 3_000;
const MAX_SERIES = 50_000;
const MAX_LABELS = 8;
const MAX_NAME = 128;
const MAX_VALUE = 128;
/** An agent that does not repeat a metric for this time, in ms, no longer has it. Upstream's interval. */
const EXPIRES_AFTER_MS = 120_000;
const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
/** What only the server measures, and what a scraper adds. */
const RESERVED = /^(?:coderd_(?!agentstats_)|coder_|process_|nodejs_|scrape_|up$)/;
/** Of all agents: their versions differ in their words. Upstream's text. */
const HELP = 'Metrics are forwarded from workspace agents connected to this instance of coderd.';

type Sender = Pick<AgentIdentity, 'id' | 'owner_id'>;

interface Sample {
  labels: Record<string, string>;
  value: number;
}

interface Series {
  name: string;
  type: Stats_Metric_Type;
  labels: Record<string, string>;
  value: number;
  expiresAt: number;
}

export interface AgentMetrics extends DatabaseGauges {
  /** Keeps the metrics of a report. Drops those that are invalid or above a limit. */
  report(agent: Sender, metrics: readonly Stats_Metric[]): void;
  /** The metrics in Prometheus's text format, with the names of the last read. */
  text(): Promise<string>;
}

function labelsOf({ labels }: Stats_Metric): Record<string, string> | undefined {
  if (labels.length > MAX_LABELS) return undefined;
  const given = labels.filter(({ value }) => value !== '');
  const isValid = ({ name, value }: (typeof given)[number]) =>
    NAME.test(name) &&
    !name.startsWith('__') &&
    name.length <= MAX_NAME &&
    value.length <= MAX_VALUE &&
    !(STATS_LABELS as readonly string[]).includes(name);
  if (!given.every(isValid)) return undefined;
  const sorted = given.map(({ name, value }) => [name, value] as const).sort(([a], [b]) => (a < b ? -1 : 1));
  const result = Object.fromEntries(sorted);
  return Object.keys(result).length === given.length ? result : undefined;
}

/**
 * The metrics that agents report, with the labels `by` of the reporting agent. Values of equal labels are summed.
 * `registry` has the metrics of the server, whose names agents cannot use.
 */
export function createAgentMetrics(registry: Registry, clock: Clock, by: readonly StatsLabel[]): AgentMetrics {
  const stored = new Map<string, { ownerId: string; series: Map<string, Series> }>();
  let names = new Map<string, Record<StatsLabel, string>>();
  let total = 0;
  const ofOwner = new Map<string, number>();
  const size = new Gauge({
    name: 'coderd_prometheusmetrics_metrics_aggregator_store_size',
    help: 'The number of metrics of agents that this server keeps.',
    registers: [registry],
  });
  const dropped = new Counter({
    name: 'coderd_agent_metrics_dropped_total',
    help: 'The number of metrics in reports of agents that are not exported.',
    labelNames: ['reason'] as const,
    registers: [registry],
  });
  for (const reason of ['invalid', 'limit']) dropped.inc({ reason }, 0);

  const add = (ownerId: string, change: number) => {
    total += change;
    const left = (ofOwner.get(ownerId) ?? 0) + change;
    if (left > 0) ofOwner.set(ownerId, left);
    else ofOwner.delete(ownerId);
  };
  const isValid = ({ name, type, value }: Stats_Metric) =>
    name.length <= MAX_NAME &&
    NAME.test(name) &&
    !RESERVED.test(name) &&
    registry.getSingleMetric(name) === undefined &&
    Number.isFinite(value) &&
    (type === Stats_Metric_Type.GAUGE || (type === Stats_Metric_Type.COUNTER && value >= 0));
  function expire(): void {
    const now = clock.now().getTime();
    for (const [id, { ownerId, series }] of stored) {
      for (const [key, { expiresAt }] of series) if (expiresAt <= now && series.delete(key)) add(ownerId, -1);
      if (series.size === 0) stored.delete(id);
    }
    size.set(total);
  }

  return {
    report(agent, metrics) {
      const expiresAt = clock.now().getTime() + EXPIRES_AFTER_MS;
      if (metrics.length > MAX_SERIES_OF_AGENT) dropped.inc({ reason: 'limit' }, metrics.length - MAX_SERIES_OF_AGENT);
      for (const metric of metrics.slice(0, MAX_SERIES_OF_AGENT)) {
        const labels = isValid(metric) ? labelsOf(metric) : undefined;
        if (!labels) {
          dropped.inc({ reason: 'invalid' });
          continue;
        }
        const { name, type, value } = metric;
        const key = JSON.stringify([name, labels]);
        const here = stored.get(agent.id);
        const known = here?.series.get(key);
        if (known) {
          Object.assign(known, { type, value, expiresAt });
          continue;
        }
        // a claimed workspace keeps its agent: its metrics count for the owner of the first
        const ownerId = here?.ownerId ?? agent.owner_id;
        const isFull =
          (here?.series.size ?? 0) >= MAX_SERIES_OF_AGENT ||
          (ofOwner.get(ownerId) ?? 0) >= MAX_SERIES_OF_OWNER ||
          total >= MAX_SERIES;
        if (isFull) {
          dropped.inc({ reason: 'limit' });
          continue;
        }
        const { series } = here ?? { series: new Map<string, Series>() };
        if (!here) stored.set(agent.id, { ownerId, series });
        series.set(key, { name, type, labels, value, expiresAt });
        add(ownerId, 1);
      }
      size.set(total);
    },
    forget() {
      names = new Map();
    },
    async read(sql) {
      expire();
      names = stored.size === 0 ? new Map() : await readAgentNames(sql, [...stored.keys()]);
    },
    async text() {
      const families = new Map<string, { type: Stats_Metric_Type; labelNames: Set<string>; samples: Sample[] }>();
      for (const [id, { series }] of stored) {
        const agent = names.get(id);
        if (!agent) continue;
        const own = Object.fromEntries(by.map((label) => [label, agent[label]]));
        for (const { name, type, labels, value } of series.values()) {
          const family = families.get(name) ?? { type, labelNames: new Set<string>(by), samples: [] };
          families.set(name, family);
          // a name has one type: the one that came first
          if (family.type !== type) continue;
          for (const label of Object.keys(labels)) family.labelNames.add(label);
          family.samples.push({ labels: { ...labels, ...own }, value });
        }
      }
      const parts: string[] = [];
      for (const [name, { type, labelNames, samples }] of families) {
        const alone = new Registry();
        const options = { name, help: HELP, labelNames: [...labelNames], registers: [alone] };
        const metric = type === Stats_Metric_Type.COUNTER ? new Counter(options) : new Gauge(options);
        for (const { labels, value } of samples) metric.inc(labels, value);
        parts.push(await alone.metrics());
        // at the limit all of them take 0.2 s, which other requests must not wait for
        await setImmediate();
      }
      return parts.join('');
    },
  };
}
