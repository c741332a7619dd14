import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { EndedJob } from '../db/queries/figures.ts';

/**
 * Metrics of the waits of jobs and of the workspaces that their builds created, with upstream's names, labels and
 * buckets. Returns a function that counts a job that ended on this server.
 */
export function createCreationMetrics(registry: Registry): (job: EndedJob) => void {
  const registers = [registry];
  const waits = new Histogram({
    name: 'coderd_provisioner_job_queue_wait_seconds',
    help: 'The time from the creation of a job to its start, in seconds, of jobs that ended on this server.',
    labelNames: ['provisioner_type', 'job_type', 'transition', 'build_reason'] as const,
    buckets: [0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 900, 1800],
    registers,
  });
  const of = ['organization_name', 'template_name', 'preset_name'] as const;
  const created = new Counter({
    name: 'coderd_workspace_creation_total',
    help: 'The number of workspaces, without prebuilt ones, whose first build succeeded on this server.',
    labelNames: of,
    registers,
  });
  const creations = new Histogram({
    name: 'coderd_workspace_creation_duration_seconds',
    help: 'The run time of first builds that succeeded on this server, in seconds. The type is regular or prebuild.',
    labelNames: [...of, 'type'] as const,
    buckets: [1, 10, 30, 60, 300, 600, 1800, 3600],
    registers,
  });
  const claims = new Histogram({
    name: 'coderd_prebuilt_workspace_claim_duration_seconds',
    help: 'The run time of builds on this server that gave a prebuilt workspace to a person, in seconds.',
    labelNames: of,
    buckets: [1, 5, 10, 20, 30, 60, 120, 180, 240, 300],
    registers,
  });

  return (job) => {
    const isPrebuild = job.initiator_id === PREBUILDS_USER_ID;
    if (job.started_at) {
      const labels = {
        provisioner_type: job.provisioner,
        job_type: job.type,
        transition: job.transition ?? '',
        build_reason: job.transition && isPrebuild ? 'prebuild' : (job.build_reason ?? ''),
      };
      waits.observe(labels, Math.max(0, job.started_at.getTime() - job.created_at.getTime()) / 1000);
    }
    if (job.transition !== 'start' || job.job_status !== 'succeeded' || job.seconds === null) return;
    const labels = {
      organization_name: job.organization_name,
      template_name: job.template_name ?? '',
      preset_name: job.preset_name ?? '',
    };
    if (job.is_claim) claims.observe(labels, job.seconds);
    else if (job.build_number === 1) {
      creations.observe({ ...labels, type: isPrebuild ? 'prebuild' : 'regular' }, job.seconds);
      if (!isPrebuild) created.inc(labels);
    }
  };
}
