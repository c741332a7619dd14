import { errorText } from '@ropewalk/kit';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import type { Sql } from '../db/connect.ts';
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

const BUILD_LABELS = [
  'workspace_owner',
  'workspace_name',
  'template_name',
  'template_version',
  'workspace_transition',
  'status',
] as const;
type BuildLabel = (typeof BUILD_LABELS)[number];

function createInstruments(registry: Registry) {
  const registers = [registry];
  return {
    wait: new Histogram({
      name: 'coderd_provisioner_queue_wait_seconds',
      help: 'The time from the creation of a job to its start on a daemon of this server, in seconds.',
      labelNames: ['organization', 'type'] as const,
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
      registers,
    }),
    timings: new Histogram({
      name: 'coderd_provisionerd_job_timings_seconds',
      help: 'The run time of jobs that ended on this server, in seconds.',
      labelNames: ['provisioner', 'status'] as const,
      buckets: [1, 10, 30, 60, 300, 600, 1800, 3600],
      registers,
    }),
    buildTimings: new Histogram({
      name: 'coderd_provisionerd_workspace_build_timings_seconds',
      help: 'The run time of workspace builds that ended on this server, in seconds.',
      labelNames: ['template_name', 'template_version', 'workspace_transition', 'status'] as const,
      buckets: [1, 10, 30, 60, 300, 600, 1800, 3600],
      registers,
    }),
    stages: new Histogram({
      name: 'coderd_provisioner_stage_seconds',
      help: 'The duration of each stage of workspace builds that ended on this server, in seconds.',
      labelNames: ['stage', 'status'] as const,
      buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800],
      registers,
    }),
    builds: new Counter({
      name: 'coderd_workspace_builds_total',
      help:
        `The number of workspace builds that ended on this server. After ${MAX_BUILD_SERIES} series, workspace_owner and workspace_name ` +
        'are "other".',
      labelNames: BUILD_LABELS,
      registers,
    }),
    rejectedStates: new Counter({
      name: 'coderd_provisioner_states_refused_total',
      help: 'The number of Terraform states that daemons sent and that this server did not store. It kept the last known ones.',
      labelNames: ['source', 'reason'] as const,
      registers,
    }),
  };
}

/**
 * Counters and histograms of jobs. The server that ends a job counts it.
 */
export function createJobMetrics(
  services: Services,
  registry: Registry,
): Pick<Metrics, 'jobAcquired' | 'stateRejected'> & { close(): void } {
  const { sql, log } = services;
  const { wait, rejectedStates, ...instruments } = createInstruments(registry);
  const organizations = new OrganizationNames(sql);
  const builds = new BuildCounter(instruments.builds);
  const countCreation = createCreationMetrics(registry);

  async function count(ids: string[]): Promise<void> {
    const [jobs, parts] = await Promise.all([endedJobs(sql, ids), stageTimes(sql, ids)]);
    const statusOf = new Map<string, string>();
    for (const job of jobs) {
      const status = STATUS[job.job_status] ?? job.job_status;
      statusOf.set(job.id, status);
      countCreation(job);
      if (job.seconds !== null) instruments.timings.observe({ provisioner: job.provisioner, status }, job.seconds);
      if (job.transition === null) continue;
      const labels = {
        template_name: job.template_name ?? '',
        template_version: job.version_name ?? '',
        workspace_transition: job.transition.toUpperCase(),
        status,
      };
      if (job.seconds !== null) instruments.buildTimings.observe(labels, job.seconds);
      builds.count({ ...labels, workspace_owner: job.owner_name ?? '', workspace_name: job.workspace_name ?? '' });
    }
    for (const { job_id, stage, seconds } of parts) {
      const status = statusOf.get(job_id);
      if (status !== undefined) instruments.stages.observe({ stage, status }, seconds);
    }
  }

  return {
    jobAcquired({ organization_id, type, created_at, started_at }) {
      const seconds = Math.max(0, (started_at ?? new Date()).getTime() - created_at.getTime()) / 1000;
      organizations.of(organization_id).then(
        (organization) => wait.observe({ organization, type: type satisfies JobType }, seconds),
        (err) => log.debug('could not record the metrics of a job', { err: errorText(err) }),
      );
    },
    stateRejected: (source, reason) => rejectedStates.inc({ source, reason }),
    close: watchEndedJobs(services, count),
  };
}

/** Counts builds, with the names of their workspaces as long as there are not too many. */
class BuildCounter {
  readonly #builds: Counter<BuildLabel>;
  readonly #series = new Set<string>();

  constructor(builds: Counter<BuildLabel>) {
    this.#builds = builds;
  }

  count(labels: Record<BuildLabel, string>): void {
    const series = JSON.stringify(Object.values(labels));
    if (!this.#series.has(series) && this.#series.size >= MAX_BUILD_SERIES) {
      this.#builds.inc({ ...labels, workspace_owner: 'other', workspace_name: 'other' });
    } else {
      this.#series.add(series);
      this.#builds.inc(labels);
    }
  }
}

/** The names of organizations, remembered for a while. */
class OrganizationNames {
  readonly #sql: Sql;
  readonly #names = new Map<string, { name: Promise<string>; since: number }>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  of(id: string): Promise<string> {
    const known = this.#names.get(id);
    if (known && performance.now() - known.since < NAME_MS) return known.name;
    const name = organizationNameById(this.#sql, id).then((found) => found ?? 'unknown');
    // a failed lookup is not remembered
    name.catch(() => this.#names.delete(id));
    this.#names.set(id, { name, since: performance.now() });
    return name;
  }
}
