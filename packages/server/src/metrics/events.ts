import { Counter, Gauge, type Registry } from 'prom-client';
import type { EventState, Events } from '../db/events.ts';

type Samples = readonly (readonly [labels: Record<string, string>, value: number | undefined])[];

interface EventMetric {
  Metric: typeof Counter | typeof Gauge;
  /** Without its prefix. */
  name: string;
  help: string;
  labelNames?: string[];
  /** The value now, or those with labels. Undefined values are left out. */
  read(state: EventState): number | undefined | Samples;
}

const success = ({ ok, failed }: { ok: number; failed: number }): Samples => [
  [{ success: 'true' }, ok],
  [{ success: 'false' }, failed],
];

const METRICS: readonly EventMetric[] = [
  {
    Metric: Gauge,
    name: 'connected',
    help: 'Whether notifications of the database arrive.',
    read: ({ connected }) => Number(connected),
  },
  {
    Metric: Gauge,
    name: 'current_events',
    help: 'The number of event names that a part of this server listens to.',
    read: ({ names }) => names,
  },
  {
    Metric: Gauge,
    name: 'current_subscribers',
    help: 'The number of listeners to events.',
    read: ({ subscribers }) => subscribers,
  },
  {
    Metric: Counter,
    name: 'disconnections_total',
    help: 'How often the connection for notifications was lost.',
    read: ({ counts }) => counts.disconnections,
  },
  {
    Metric: Counter,
    name: 'latency_measures_total',
    help: 'How often this server timed a notification to itself.',
    read: ({ counts }) => counts.measures,
  },
  {
    Metric: Counter,
    name: 'latency_measure_errs_total',
    help: 'How often a notification of this server to itself failed or did not arrive.',
    read: ({ counts }) => counts.unmeasured,
  },
  {
    Metric: Gauge,
    name: 'send_latency_seconds',
    help: 'The time until the database accepted the last notification of this server to itself, in seconds.',
    read: ({ sendSeconds }) => sendSeconds,
  },
  {
    Metric: Gauge,
    name: 'receive_latency_seconds',
    help: 'The time until the last notification of this server to itself arrived, in seconds.',
    read: ({ receiveSeconds }) => receiveSeconds,
  },
  {
    Metric: Counter,
    name: 'messages_total',
    help: 'The number of received notifications. size: colossal from 7,600 bytes on, normal otherwise.',
    labelNames: ['size'],
    read: ({ counts }) => [
      [{ size: 'normal' }, counts.received - counts.receivedLarge],
      [{ size: 'colossal' }, counts.receivedLarge],
    ],
  },
  {
    Metric: Counter,
    name: 'received_bytes_total',
    help: 'The size of received notifications, in bytes.',
    read: ({ counts }) => counts.receivedBytes,
  },
  {
    Metric: Counter,
    name: 'published_bytes_total',
    help: 'The size of published notifications, in bytes.',
    read: ({ counts }) => counts.publishedBytes,
  },
  {
    Metric: Counter,
    name: 'publishes_total',
    help: 'The number of notifications that this server published.',
    labelNames: ['success'],
    read: ({ counts }) => success({ ok: counts.published, failed: counts.unpublished }),
  },
  {
    Metric: Counter,
    name: 'subscribes_total',
    help: 'How often a part of this server began to listen to events.',
    labelNames: ['success'],
    read: ({ counts }) => success({ ok: counts.subscribed, failed: 0 }),
  },
];

/** The events that servers send each other through the database, under upstream's names. */
export function createEventMetrics(events: Pick<Events, 'state'>, registry: Registry): void {
  for (const { Metric, name, help, labelNames = [], read } of METRICS) {
    new Metric({
      name: `coder_pubsub_${name}`,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        const found = read(events.state());
        const samples: Samples = typeof found === 'object' ? found : [[{}, found]];
        for (const [labels, value] of samples) {
          if (value !== undefined) this.inc(labels, value);
          // a metric without labels is 0 after a reset, and an unknown time is not
          else this.remove(labels);
        }
      },
    });
  }
}
