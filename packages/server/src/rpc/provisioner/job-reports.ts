import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import type { DrpcContext } from '@ropewalk/wire/drpc';
import { LOG_SEQUENCE_KEY, parseLogNumbers } from '@ropewalk/wire/log-sequence';
import { DeliverStateResponse_Outcome, type FinishRequest } from '@ropewalk/wire/proto/platform_provisioner';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { checkpoint, deliverState } from '../../app/job/checkpoint.ts';
import { commitQuota } from '../../app/job/commit-quota.ts';
import { completeJob, type EndOfLog, failJob, notOwned } from '../../app/job/complete.ts';
import { logLine } from '../../app/job/log-lines.ts';
import { putBackForEngine } from '../../app/job/post.ts';
import { updateJob } from '../../app/job/update.ts';
import { touchJob } from '../../db/queries/job-ownership.ts';
import { jobById } from '../../db/queries/jobs.ts';
import { patient } from '../patience.ts';
import { showNul } from '../show-nul.ts';
import type { DaemonParts } from './daemon-parts.ts';
import type { OwnedJobs } from './owned-jobs.ts';
import type { Revocation } from './revocation.ts';

const OUTCOMES = {
  kept: DeliverStateResponse_Outcome.KEPT,
  orphaned: DeliverStateResponse_Outcome.ORPHANED,
  refused: DeliverStateResponse_Outcome.REFUSED,
} as const;

/** The calls about a running job. They wait while the database is unavailable, so that the job survives that. */
export function jobReportCalls(parts: DaemonParts, jobs: OwnedJobs, revocation: Revocation) {
  const { services, metrics, daemon, log } = parts;
  const { sql, config } = services;

  const upstream = {
    async commitQuota(request: { jobId: string; dailyCost: number }, call: DrpcContext) {
      const { own } = await jobs.confirm(request.jobId, call.metadata);
      return commitQuota(services, own, request.dailyCost);
    },
    async updateJob(request: Parameters<typeof updateJob>[2], call: DrpcContext) {
      const { own, logs } = await jobs.confirm(request.jobId, call.metadata);
      const numbers = parseLogNumbers(call.metadata[LOG_SEQUENCE_KEY], request.logs.length);
      return updateJob(services, own, request, logs, numbers);
    },
    async failJob(request: Parameters<typeof failJob>[2], call: DrpcContext) {
      const job = await jobs.confirm(request.jobId, call.metadata);
      await jobs.finish(job, () => failJob(services, job.own, request, metrics));
      revocation.jobEnded();
      return {};
    },
    async completeJob(request: Parameters<typeof completeJob>[2], call: DrpcContext) {
      const job = await jobs.confirm(request.jobId, call.metadata);
      await jobs.finish(job, () => completeJob(services, job.own, request, metrics));
      revocation.jobEnded();
      return {};
    },
  };

  const ours = {
    async finish({ logs, logNumbers, result }: FinishRequest, call: DrpcContext) {
      if (result.case === undefined) throw new AppError('invalid', 'The message does not say how the job ended.');
      const job = await jobs.confirm(result.value.jobId, call.metadata);
      const numbers = parseLogNumbers(logNumbers, logs.length);
      const lines = logs.map(logLine);
      let log: EndOfLog | undefined = { lines, numbers };
      if (!job.logs.hasRoom(lines)) {
        const update = create(UpdateJobRequestSchema, { jobId: result.value.jobId, logs });
        await updateJob(services, job.own, update, job.logs, numbers);
        log = undefined;
      }
      await jobs.finish(job, () =>
        result.case === 'completed'
          ? completeJob(services, job.own, result.value, metrics, log)
          : failJob(services, job.own, result.value, metrics, log),
      );
      revocation.jobEnded();
      return {};
    },
    async resume(request: { jobId: string; epoch: bigint }) {
      const own = jobs.ownership(request.jobId, Number(request.epoch));
      const touched = await touchJob(sql, own, config.provisionerLease);
      if (!touched) return { accepted: false, reason: (await notOwned(sql, own)).message };
      jobs.resume(own);
      return { accepted: true, canceled: touched.canceled_at !== null, leaseMs: BigInt(config.provisionerLease) };
    },
    async checkpoint(request: { jobId: string; epoch: bigint; state: Uint8Array; inFlight: string[] }) {
      const own = jobs.ownership(request.jobId, Number(request.epoch));
      const accepted = await checkpoint(services, own, request, metrics);
      return { accepted };
    },
    async requireEngine(request: { jobId: string; requiredVersion: string }, call: DrpcContext) {
      const job = await jobs.confirm(request.jobId, call.metadata);
      const putBack = await putBackForEngine(services, job.own, request.requiredVersion);
      if (putBack) await jobs.finish(job, async () => revocation.jobEnded());
      return { putBack };
    },
    async deliverState(request: { jobId: string; state: Uint8Array }) {
      const job = await jobById(sql, request.jobId);
      if (!job || job.organization_id !== daemon.organization_id || job.worker_id !== daemon.id) {
        return { outcome: DeliverStateResponse_Outcome.REFUSED };
      }
      const outcome = await deliverState(services, jobs.ownership(job.id, job.acquire_epoch), request, metrics);
      // the daemon has given the job up, so the server stops renewing its lease
      jobs.remove(request.jobId);
      return { outcome: OUTCOMES[outcome] };
    },
  };

  // Upstream's daemons take every answer for final, and repeat a call only after their connection has ended.
  const giveUp = parts.ours ? () => {} : parts.cut;
  return {
    upstream: patient(upstream, log, { prepare: showNul, giveUp }),
    ours: patient(ours, log, { prepare: showNul }),
  };
}
