import type { VerifiedDaemon } from '../../authz/proofs.ts';
import { insertOrphanState, lockDeliveredBuild } from '../../db/queries/build-states.ts';
import type { Ownership } from '../../db/queries/job-ownership.ts';
import type { Services } from '../context.ts';
import { offerCheckpoint, offerState, readState, refusalReason, type StateObserver } from './state.ts';

/**
 * Keeps the state of a run that goes on: every completed resource is known if it is killed. A state that must not
 * replace the stored one is counted and otherwise ignored: its sender reads a file that Terraform is writing. False: the
 * job is not the sender's.
 */
export async function checkpoint(
  services: Services,
  own: Ownership,
  report: { state: Uint8Array; inFlight: string[] },
  observer?: StateObserver,
): Promise<boolean> {
  const { owned, refused } = await offerCheckpoint(services.sql, own, report);
  if (refused) {
    observer?.stateRefused('checkpoint', refused);
    services.log.warn('ignored a checkpoint', { job_id: own.jobId, reason: refused });
  }
  return owned;
}

/**
 * The final state of a run whose verdict is rejected: kept for the workspace if it has the same lineage, a higher serial
 * and no later build has begun. Otherwise it is stored aside, unless it is older than what is known.
 */
export async function deliverState(
  services: Services,
  /** Of the worker that ran the job last; the epoch may be outdated. */
  own: VerifiedDaemon<{ jobId: string; workerId: string }>,
  report: { state: Uint8Array },
  observer?: StateObserver,
): Promise<'kept' | 'orphaned' | 'refused'> {
  return services.sql.begin(async (tx) => {
    const build = await lockDeliveredBuild(tx, own);
    if (!build || report.state.length === 0) return 'refused';
    const state = readState(report.state);
    if (!state) {
      observer?.stateRefused('delivery', 'unparseable');
      services.log.warn('ignored the state of a lost job', { job_id: own.jobId, reason: 'unparseable' });
      return 'refused';
    }
    if (build.state_lineage === state.lineage && build.state_serial >= state.serial) {
      // the last checkpoint comes once more, as a rule
      if (build.state_serial > state.serial) observer?.stateRefused('delivery', 'older');
      return 'refused';
    }
    const refused = build.is_latest ? await offerState(tx, build, report.state, 'delivery') : undefined;
    if (build.is_latest && !refused) return 'kept';
    if (refused) observer?.stateRefused('delivery', refused);
    const reason = refused ? refusalReason(refused) : 'a newer build had begun';
    await insertOrphanState(tx, build, state, reason);
    return 'orphaned';
  });
}
