import { Counter, Gauge, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';

/** Metrics of this server's background tasks, read at each scrape. */
export function createTaskMetrics({ backgroundTasks }: Services, registry: Registry): void {
  const labelNames = ['task'] as const;
  new Gauge({
    name: 'coderd_background_task_last_run_timestamp_seconds',
    help: 'The time when the last run of a background task ended. Absent before the first.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { name, lastRun } of backgroundTasks())
        if (lastRun) this.set({ task: name }, lastRun.getTime() / 1_000);
    },
  });
  new Gauge({
    name: 'coderd_background_task_duration_seconds',
    help: 'The duration of the last run of a background task, in seconds.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { name, durationMs } of backgroundTasks()) this.set({ task: name }, durationMs / 1_000);
    },
  });
  new Counter({
    name: 'coderd_background_task_runs_total',
    help: 'The number of runs of background tasks, by outcome. skipped: another server had the lock.',
    labelNames: ['task', 'outcome'] as const,
    registers: [registry],
    collect() {
      this.reset();
      for (const { name, runs } of backgroundTasks()) {
        for (const [outcome, count] of Object.entries(runs)) this.inc({ task: name, outcome }, count);
      }
    },
  });
}
