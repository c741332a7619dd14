import { Counter, Gauge, type Registry } from 'prom-client';
import type { Services } from '../app/context.ts';

/** Figures of this server's background tasks, read when somebody asks for metrics. */
export function createTaskMetrics({ backgroundTasks }: Services, registry: Registry): void {
  const labelNames = ['task'] as const;
  new Gauge({
    name: 'coderd_background_task_last_run_timestamp_seconds',
    help: 'When the last run of a background task ended. Absent before the first.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { name, lastRun } of backgroundTasks())
        if (lastRun) this.set({ task: name }, lastRun.getTime() / 1_000);
    },
  });
  new Gauge({
    name: 'coderd_background_task_duration_seconds',
    help: 'How long the last run of a background task took.',
    labelNames,
    registers: [registry],
    collect() {
      for (const { name, durationMs } of backgroundTasks()) this.set({ task: name }, durationMs / 1_000);
    },
  });
  new Counter({
    name: 'coderd_background_task_runs_total',
    help: 'Runs of background tasks by outcome. skipped: another server ran it.',
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
