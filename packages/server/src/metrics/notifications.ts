import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { OnDispatch } from '../app/notification/methods.ts';

/** Counts attempts to send notifications. */
export function createNotificationMetrics(registry: Registry): OnDispatch {
  const registers = [registry];
  const attempts = new Counter({
    name: 'coderd_notifications_dispatch_attempts_total',
    help: 'The number of attempts to send a notification, by result. After temp_fail comes another attempt.',
    labelNames: ['method', 'notification_template_id', 'result'] as const,
    registers,
  });
  const durations = new Histogram({
    name: 'coderd_notifications_dispatcher_send_seconds',
    help: 'The duration of attempts to send a notification, in seconds.',
    labelNames: ['method'] as const,
    buckets: [0.001, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60],
    registers,
  });
  const retries = new Counter({
    name: 'coderd_notifications_retry_count',
    help: 'The number of attempts to send a notification after an attempt that failed.',
    labelNames: ['method', 'notification_template_id'] as const,
    registers,
  });
  const inFlight = new Gauge({
    name: 'coderd_notifications_inflight_dispatches',
    help: 'The number of attempts to send a notification that last.',
    labelNames: ['method', 'notification_template_id'] as const,
    registers,
  });
  const waits = new Histogram({
    name: 'coderd_notifications_queued_seconds',
    help: 'The time from the creation of a notification to the first attempt to send it, in seconds.',
    labelNames: ['method'] as const,
    buckets: [1, 2.5, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600, 3600],
    registers,
  });
  return ({ method, templateId, number, queuedSeconds }) => {
    const labels = { method, notification_template_id: templateId };
    if (number === 1) waits.observe({ method }, queuedSeconds);
    else retries.inc(labels);
    inFlight.inc(labels);
    const timed = durations.startTimer({ method });
    return (result) => {
      timed();
      inFlight.dec(labels);
      attempts.inc({ ...labels, result });
    };
  };
}
