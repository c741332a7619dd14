import { Counter, Gauge, type Registry } from 'prom-client';
import type { EventState, Events } from '../db/events.ts';

/** The events that servers send each other through the database, under upstream's names. */
export function createEventMetrics(events: Pick<Events, 'state'>, registry: Registry): void {
  type Samples = readonly (readonly [labels: Record<string, string>, value: number | undefined])[];
  const add = (
    Metric: typeof Counter | typeof Gauge,
    name: string,
    help: string,
    read: (state: EventState) => number | undefined | Samples,
    labelNames: string[] = [],
  ) =>
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
  const success = ({ ok, failed }: { ok: number; failed: number }): Samples => [
    [{ success: 'true' }, ok],
    [{ success: 'false' }, failed],
  ];
  add(Gauge, 'connected', 'Whether notifications of the database arrive.', ({ connected }) => Number(connected));
  add(
    Gauge,
    'current_events',
    'The number of event names that a part of this server listens to.',
    ({ names }) => names,
  );
  add(Gauge, 'current_subscribers', 'The number of listeners to events.', ({ subscribers }) => subscribers);
  add(
    Counter,
    'disconnections_total',
    'How often the connection for notifications was lost.',
    ({ counts }) => counts.disconnections,
  );
  add(
    Counter,
    'latency_measures_total',
    'How often this server timed a notification to itself.',
    ({ counts }) => counts.measures,
  );
  add(
    Counter,
    'latency_measure_errs_total',
    'How often a notification of this server to itself failed or did not arrive.',
    ({ counts }) => counts.unmeasured,
  );
  add(
    Gauge,
    'send_latency_seconds',
    'The time until the database accepted the last notification of this server to itself, in seconds.',
    ({ sendSeconds }) => sendSeconds,
  );
  add(
    Gauge,
    'receive_latency_seconds',
    'The time until the last notification of this server to itself arrived, in seconds.',
    ({ receiveSeconds }) => receiveSeconds,
  );
  add(
    Counter,
    'messages_total',
    'The number of received notifications. size: colossal from 7,600 bytes on, normal otherwise.',
    ({ counts }) => [
      [{ size: 'normal' }, counts.received - counts.receivedLarge],
      [{ size: 'colossal' }, counts.receivedLarge],
    ],
    ['size'],
  );
  add(
    Counter,
    'received_bytes_total',
    'The size of received notifications, in bytes.',
    ({ counts }) => counts.receivedBytes,
  );
  add(
    Counter,
    'published_bytes_total',
    'The size of published notifications, in bytes.',
    ({ counts }) => counts.publishedBytes,
  );
  add(
    Counter,
    'publishes_total',
    'The number of notifications that this server published.',
    ({ counts }) => success({ ok: counts.published, failed: counts.unpublished }),
    ['success'],
  );
  add(
    Counter,
    'subscribes_total',
    'How often a part of this server began to listen to events.',
    ({ counts }) => success({ ok: counts.subscribed, failed: 0 }),
    ['success'],
  );
}
