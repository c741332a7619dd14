import { setImmediate } from 'node:timers/promises';
import type { Clock } from '@ropewalk/kit';
import { type Stats_Metric, Stats_Metric_Type } from '@ropewalk/wire/proto/agent';
import { Counter, Gauge, Registry } from 'prom-client';
import type { Sql } from '../db/connect.ts';
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
  return new ReportedMetrics(registry, clock, by);
}

/** All samples of one name. A name has one type: the one that came first. */
interface Family {
  type: Stats_Metric_Type;
  labelNames: Set<string>;
  samples: Sample[];
}

class ReportedMetrics implements AgentMetrics {
  readonly #registry: Registry;
  readonly #clock: Clock;
  readonly #by: readonly StatsLabel[];
  readonly #size: Gauge;
  readonly #dropped: Counter<'reason'>;
  /** The series of each agent, by the agent's id. */
  readonly #stored = new Map<string, { ownerId: string; series: Map<string, Series> }>();
  /** The number of stored series, in all and by owner. */
  #total = 0;
  readonly #ofOwner = new Map<string, number>();
  /** The labels of each agent, as of the last read. */
  #names = new Map<string, Record<StatsLabel, string>>();

  constructor(registry: Registry, clock: Clock, by: readonly StatsLabel[]) {
    this.#registry = registry;
    this.#clock = clock;
    this.#by = by;
    this.#size = new Gauge({
      name: 'coderd_prometheusmetrics_metrics_aggregator_store_size',
      help: 'The number of metrics of agents that this server keeps.',
      registers: [registry],
    });
    this.#dropped = new Counter({
      name: 'coderd_agent_metrics_dropped_total',
      help: 'The number of metrics in reports of agents that are not exported.',
      labelNames: ['reason'] as const,
      registers: [registry],
    });
    for (const reason of ['invalid', 'limit']) this.#dropped.inc({ reason }, 0);
  }

  report(agent: Sender, metrics: readonly Stats_Metric[]): void {
    const expiresAt = this.#clock.now().getTime() + EXPIRES_AFTER_MS;
    if (metrics.length > MAX_SERIES_OF_AGENT) {
      this.#dropped.inc({ reason: 'limit' }, metrics.length - MAX_SERIES_OF_AGENT);
    }
    for (const metric of metrics.slice(0, MAX_SERIES_OF_AGENT)) this.#store(agent, metric, expiresAt);
    this.#size.set(this.#total);
  }

  forget(): void {
    this.#names = new Map();
  }

  async read(sql: Sql): Promise<void> {
    this.#expire();
    this.#names = this.#stored.size === 0 ? new Map() : await readAgentNames(sql, [...this.#stored.keys()]);
  }

  async text(): Promise<string> {
    const parts: string[] = [];
    for (const [name, family] of this.#families()) {
      parts.push(await textOf(name, family));
      // at the limit all of them take 0.2 s, which other requests must not wait for
      await setImmediate();
    }
    return parts.join('');
  }

  #store(agent: Sender, metric: Stats_Metric, expiresAt: number): void {
    const labels = this.#isValid(metric) ? labelsOf(metric) : undefined;
    if (!labels) {
      this.#dropped.inc({ reason: 'invalid' });
      return;
    }
    const { name, type, value } = metric;
    const key = JSON.stringify([name, labels]);
    const here = this.#stored.get(agent.id);
    const known = here?.series.get(key);
    if (known) {
      Object.assign(known, { type, value, expiresAt });
      return;
    }
    // a claimed workspace keeps its agent: its metrics count for the owner of the first
    const ownerId = here?.ownerId ?? agent.owner_id;
    const isFull =
      (here?.series.size ?? 0) >= MAX_SERIES_OF_AGENT ||
      (this.#ofOwner.get(ownerId) ?? 0) >= MAX_SERIES_OF_OWNER ||
      this.#total >= MAX_SERIES;
    if (isFull) {
      this.#dropped.inc({ reason: 'limit' });
      return;
    }
    const { series } = here ?? { series: new Map<string, Series>() };
    if (!here) this.#stored.set(agent.id, { ownerId, series });
    series.set(key, { name, type, labels, value, expiresAt });
    this.#count(ownerId, 1);
  }

  #isValid({ name, type, value }: Stats_Metric): boolean {
    return (
      name.length <= MAX_NAME &&
      NAME.test(name) &&
      !RESERVED.test(name) &&
      this.#registry.getSingleMetric(name) === undefined &&
      Number.isFinite(value) &&
      (type === Stats_Metric_Type.GAUGE || (type === Stats_Metric_Type.COUNTER && value >= 0))
    );
  }

  #expire(): void {
    const now = this.#clock.now().getTime();
    for (const [id, { ownerId, series }] of this.#stored) {
      for (const [key, { expiresAt }] of series) if (expiresAt <= now && series.delete(key)) this.#count(ownerId, -1);
      if (series.size === 0) this.#stored.delete(id);
    }
    this.#size.set(this.#total);
  }

  #count(ownerId: string, change: number): void {
    this.#total += change;
    const left = (this.#ofOwner.get(ownerId) ?? 0) + change;
    if (left > 0) this.#ofOwner.set(ownerId, left);
    else this.#ofOwner.delete(ownerId);
  }

  /** The stored series of agents with known names, by name. */
  #families(): Map<string, Family> {
    const families = new Map<string, Family>();
    for (const [id, { series }] of this.#stored) {
      const agent = this.#names.get(id);
      if (!agent) continue;
      const own = Object.fromEntries(this.#by.map((label) => [label, agent[label]]));
      for (const { name, type, labels, value } of series.values()) {
        const family = families.get(name) ?? { type, labelNames: new Set<string>(this.#by), samples: [] };
        families.set(name, family);
        if (family.type !== type) continue;
        for (const label of Object.keys(labels)) family.labelNames.add(label);
        family.samples.push({ labels: { ...labels, ...own }, value });
      }
    }
    return families;
  }
}

function textOf(name: string, { type, labelNames, samples }: Family): Promise<string> {
  const alone = new Registry();
  const options = { name, help: HELP, labelNames: [...labelNames], registers: [alone] };
  const metric = type === Stats_Metric_Type.COUNTER ? new Counter(options) : new Gauge(options);
  for (const { labels, value } of samples) metric.inc(labels, value);
  return alone.metrics();
}
