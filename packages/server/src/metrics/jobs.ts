import { errorText } from '@ropewalk/kit';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import { endedJobs, organizationNameById, stageTimes } from '../db/queries/figures.ts';
import type { JobStatus, JobType } from '../db/rows.ts';
import { createCreationMetrics } from './creations.ts';
import { watchEndedJobs } from './ended-jobs.ts';
import type { Metrics } from './metrics.ts';

/**
 * The maximum number of series for builds: one per workspace would grow without limit. Beyond it, the owner and the workspace are
 * "other".
 */
const MAX_BUILD_SERIES = 10_000;
/** How long an organization's name is remembered, in ms. */
const NAME_MS = 60_000;
const STATUS: Partial<Record<JobStatus, string>> = { succeeded: 'success', failed: 'failed', canceled: 'canceled' };

/**
 * Counters and histograms of jobs. The server that ends a job counts it.
 */
export function createJobMetrics(
  services: Services,
  registry: Registry,
): Pick<Metrics, 'jobAcquired' | 'stateRejected'> & { close(): void } {
  const { sql, log } = services;
  const registers = [registry];
  const wait = new Histogram({
    name: 'coderd_provisioner_queue_wait_seconds',
    help: 'The time from the creation of a job to its start on a daemon of this server, in seconds.',
    labelNames: ['organization', 'type'] as const,
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
    registers,
  });
  const timings = new Histogram({
    name: 'coderd_provisionerd_job_timings_seconds',
    help: 'The run time of jobs that ended on this server, in seconds.',
    labelNames: ['provisioner', 'status'] as const,
    buckets: [1, 10, 30, 60, 300, 600, 1800, 3600],
    registers,
  });
  const buildTimings = new Histogram({
    name: 'coderd_provisionerd_workspace_build_timings_seconds',
    help: 'The run time of workspace builds that ended on this server, in seconds.',
    labelNames: ['template_name', 'template_version', 'workspace_transition', 'status'] as const,
    buckets: [1, 10, 30, 60, 300, 600, 1800, 3600],
    registers,
  });
  const stages = new Histogram({
    name: 'coderd_provisioner_stage_seconds',
    help: 'The duration of each stage of workspace builds that ended on this server, in seconds.',
    labelNames: ['stage', 'status'] as const,
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800],
    registers,
  });
  const builds = new Counter({
    name: 'coderd_workspace_builds_total',
    help:
      `The number of workspace builds that ended on this server. After ${MAX_BUILD_SERIES} series, workspace_owner and workspace_name ` +
      'are "other".',
    labelNames: [
      ...(['workspace_owner', 'workspace_name', 'template_name', 'template_version'] as const),
      ...(['workspace_transition', 'status'] as const),
    ],
    registers,
  });
  const rejectedStates = new Counter({
    name: 'coderd_provisioner_states_refused_total',
    help: 'The number of Terraform states that daemons sent and that this server did not store. It kept the last known ones.',
    labelNames: ['source', 'reason'] as const,
    registers,
  });

  const countCreation = createCreationMetrics(registry);

  const names = new Map<string, { name: Promise<string>; since: number }>();
  function organizationName(id: string): Promise<string> {
    const known = names.get(id);
    if (known && performance.now() - known.since < NAME_MS) return known.name;
    const name = organizationNameById(sql, id).then((found) => found ?? 'unknown');
    // a failed lookup is not remembered
    name.catch(() => names.delete(id));
    names.set(id, { name, since: performance.now() });
    return name;
  }

  const buildSeries = new Set<string>();

  async function count(ids: string[]): Promise<void> {
    const [jobs, parts] = await Promise.all([endedJobs(sql, ids), stageTimes(sql, ids)]);
    const statusOf = new Map<string, string>();
    for (const job of jobs) {
      const status = STATUS[job.job_status] ?? job.job_status;
      statusOf.set(job.id, status);
      countCreation(job);
      if (job.seconds !== null) timings.observe({ provisioner: job.provisioner, status }, job.seconds);
      if (job.transition === null) continue;
      const template = { template_name: job.template_name ?? '', template_version: job.version_name ?? '' };
      const workspace_transition = job.transition.toUpperCase();
      if (job.seconds !== null) {
        buildTimings.observe({ ...template, workspace_transition, status }, job.seconds);
      }
      const labels = {
        ...template,
        workspace_transition,
        status,
        workspace_owner: job.owner_name ?? '',
        workspace_name: job.workspace_name ?? '',
      };
      const series = JSON.stringify(Object.values(labels));
      if (!buildSeries.has(series) && buildSeries.size >= MAX_BUILD_SERIES) {
        builds.inc({ ...labels, workspace_owner: 'other', workspace_name: 'other' });
      } else {
        buildSeries.add(series);
        builds.inc(labels);
      }
    }
    for (const { job_id, stage, seconds } of parts) {
      const status = statusOf.get(job_id);
      if (status !== undefined) stages.observe({ stage, status }, seconds);
    }
  }

  const stop = watchEndedJobs(services, count);

  return {
    jobAcquired({ organization_id, type, created_at, started_at }) {
      const seconds = Math.max(0, (started_at ?? new Date()).getTime() - created_at.getTime()) / 1000;
      organizationName(organization_id).then(
        (organization) => wait.observe({ organization, type: type satisfies JobType }, seconds),
        (err) => log.debug('could not record the metrics of a job', { err: errorText(err) }),
      );
    },
    stateRejected: (source, reason) => rejectedStates.inc({ source, reason }),
    close: stop,
  };
}
