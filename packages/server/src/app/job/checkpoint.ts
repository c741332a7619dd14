import type { VerifiedDaemon } from '../../authz/proofs.ts';
import type { Ownership } from '../../db/owned.ts';
import { insertOrphanState, lockDeliveredBuild } from '../../db/queries/build-states.ts';
import type { Services } from '../context/context.ts';
import {
  offerCheckpoint,
  offerState,
  readState,
  rejectionReason,
  type StateObserver,
  type StateRejection,
} from './state.ts';

/**
 * Stores the state of a run in progress, so that all completed resources are known if the run is killed. A state that
 * must not replace the stored one is counted and otherwise ignored: the daemon reads a file that Terraform is writing.
 * Returns false when the sender does not own the job.
 */
export async function checkpoint(
  services: Services,
  own: Ownership,
  report: { state: Uint8Array; inFlight: string[] },
  observer?: StateObserver,
): Promise<boolean> {
  const { owned, rejected } = await offerCheckpoint(services.sql, own, report);
  if (rejected) {
    observer?.stateRejected('checkpoint', rejected);
    services.log.warn('ignored a checkpoint', { job_id: own.jobId, reason: rejected });
  }
  return owned;
}

/**
 * Receives the final state of a run whose result was rejected. The workspace keeps it if it has the same lineage, a
 * higher serial and no later build has begun. Otherwise it is stored aside, unless it is older than the stored state.
 */
export async function deliverState(
  services: Services,
  /** The daemon that ran the job last. The epoch may be outdated. */
  own: VerifiedDaemon<{ jobId: string; workerId: string }>,
  report: { state: Uint8Array },
  observer?: StateObserver,
): Promise<'kept' | 'orphaned' | 'refused'> {
  const { outcome, rejected } = await services.sql.begin(async (tx): Promise<Delivered> => {
    const build = await lockDeliveredBuild(tx, own);
    if (!build || report.state.length === 0) return { outcome: 'refused' };
    const state = readState(report.state);
    if (!state) {
      services.log.warn('ignored the state of a lost job', { job_id: own.jobId, reason: 'unparseable' });
      return { outcome: 'refused', rejected: 'unparseable' };
    }
    if (build.state_lineage === state.lineage && build.state_serial >= state.serial) {
      // usually this repeats the last checkpoint
      return build.state_serial > state.serial ? { outcome: 'refused', rejected: 'older' } : { outcome: 'refused' };
    }
    const rejected = build.is_latest ? await offerState(tx, build, report.state, 'delivery') : undefined;
    if (build.is_latest && !rejected) return { outcome: 'kept' };
    const reason = rejected ? rejectionReason(rejected) : 'a newer build had begun';
    if (!(await insertOrphanState(tx, build, state, reason))) {
      services.log.warn('ignored the state of a lost job: its build has too many orphan states', { job_id: own.jobId });
      return { outcome: 'refused', ...(rejected ? { rejected } : {}) };
    }
    return { outcome: 'orphaned', ...(rejected ? { rejected } : {}) };
  });
  // after the commit, because a transaction can run again
  if (rejected) observer?.stateRejected('delivery', rejected);
  return outcome;
}

interface Delivered {
  outcome: 'kept' | 'orphaned' | 'refused';
  rejected?: StateRejection;
}
