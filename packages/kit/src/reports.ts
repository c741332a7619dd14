import { channel } from 'node:diagnostics_channel';

/**
 * Reports of this process, for observers such as metrics. Without one, nothing is kept. `observe` calls back for each report
 * until the returned function is called.
 */
export function reports<T>(name: string): {
  report(report: T): void;
  observe(observe: (report: T) => void): () => void;
} {
  const reported = channel(name);
  return {
    report: (report) => reported.publish(report),
    observe(observe) {
      const listener = (report: unknown) => observe(report as T);
      reported.subscribe(listener);
      return () => void reported.unsubscribe(listener);
    },
  };
}
