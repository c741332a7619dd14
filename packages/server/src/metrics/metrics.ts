import type { StateObserver } from '../app/job/state.ts';
import type { JobRow } from '../db/queries/jobs.ts';

/**
 * What the parts of this server tell of themselves, to be counted. Each server counts what happened on it, so that sums
 * over several hold. Nothing here throws or is waited for.
 */
export interface Metrics extends StateObserver {
  /** A daemon that is connected to this server got this job, as the row was when it was taken. */
  jobAcquired(job: Pick<JobRow, 'organization_id' | 'type' | 'created_at' | 'started_at'>): void;
}

/** Where nobody asked for metrics. */
export const noMetrics: Metrics = { jobAcquired() {}, stateRefused() {} };
