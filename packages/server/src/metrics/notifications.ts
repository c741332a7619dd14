import { Counter, Histogram, type Registry } from 'prom-client';
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
  return ({ method, templateId, result, seconds }) => {
    attempts.inc({ method, notification_template_id: templateId, result });
    durations.observe({ method }, seconds);
  };
}
