import type { Stats_Metric } from '@ropewalk/wire/proto/agent';
import type { JobObserver } from '../app/job/complete.ts';
import type { StartedAgent } from '../db/queries/figures.ts';
import type { AgentIdentity, JobRow } from '../db/rows.ts';

/**
 * The events of this server that metrics count. Each server counts its own, so that sums over several servers are
 * correct. No method throws or blocks.
 */
export interface Metrics extends JobObserver {
  /** A daemon that is connected to this server got this job. The row is the one at that moment. */
  jobAcquired(job: Pick<JobRow, 'organization_id' | 'type' | 'created_at' | 'started_at'>): void;
  /** An agent connected for the first time, to this server. */
  agentFirstConnected(agent: Pick<AgentIdentity, 'name' | 'parent_id' | 'workspace_id' | 'created_at'>): void;
  /** The startup scripts of an agent that is connected to this server ended, for the first time on this connection. */
  agentStarted(agent: StartedAgent): void;
  /** An agent that is connected to this server sent these metrics of itself. They are not checked. */
  agentReported(agent: Pick<AgentIdentity, 'id' | 'owner_id'>, metrics: readonly Stats_Metric[]): void;
}

/** For a server without metrics. */
export const noMetrics: Metrics = {
  jobAcquired() {},
  stateRejected() {},
  claimReplaced() {},
  agentFirstConnected() {},
  agentStarted() {},
  agentReported() {},
};
