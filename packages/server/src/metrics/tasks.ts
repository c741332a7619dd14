import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { TaskRun } from '../app/context/background-task.ts';
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

/**
 * Times the runs of the tasks that upstream measures, under its names. Runs that another server does are not counted.
 * Returns a function that counts a run.
 */
export function createTaskDurations(registry: Registry): (run: TaskRun) => void {
  const registers = [registry];
  const schedules = new Histogram({
    name: 'coderd_lifecycle_autobuild_execution_duration_seconds',
    help: 'The duration of runs that start and stop workspaces by their schedules, in seconds.',
    registers,
  });
  const pools = new Histogram({
    name: 'coderd_prebuilds_reconciliation_duration_seconds',
    help: 'The duration of runs that keep the pools of prebuilt workspaces at their size, in seconds.',
    registers,
  });
  const purges = new Histogram({
    name: 'coderd_dbpurge_iteration_duration_seconds',
    help: 'The duration of runs that remove old records of one kind, in seconds.',
    labelNames: ['success'] as const,
    buckets: [1, 5, 10, 30, 60, 300, 600],
    registers,
  });
  return ({ name, outcome, durationMs }) => {
    if (outcome === 'skipped') return;
    const seconds = durationMs / 1_000;
    if (name === 'schedules') schedules.observe(seconds);
    else if (name === 'prebuilt workspaces') pools.observe(seconds);
    else if (name.startsWith('purge ')) purges.observe({ success: String(outcome === 'succeeded') }, seconds);
  };
}
