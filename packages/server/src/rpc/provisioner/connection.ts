import { AppError } from '@ropewalk/kit';
import { implement, type MessageBudget } from '@ropewalk/wire/drpc';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import type { JobQueue } from '../../app/job/queue.ts';
import { connectionOf, workerOf } from '../../app/provisioner/join.ts';
import { acquireCalls } from './acquire.ts';
import type { DaemonParts } from './daemon-parts.ts';
import { frozenCalls } from './frozen.ts';
import { jobReportCalls } from './job-reports.ts';
import { noticeCalls } from './notices.ts';
import { OwnedJobs } from './owned-jobs.ts';
import { createRevocation } from './revocation.ts';
import type { ConnectedDaemon } from './upkeep.ts';
import { uploadCalls } from './uploads.ts';

export interface ConnectionParts extends Omit<DaemonParts, 'worker' | 'ended'> {
  queue: JobQueue;
  uploads: MessageBudget;
}

export interface DaemonConnection extends ConnectedDaemon {
  /** The services that the daemon may call. */
  rpc: ReturnType<typeof implement>[];
  /** The connection has ended. */
  close(): void;
}

/** One connection of one daemon: its calls, and the jobs that it owns. */
export function createDaemonConnection({ queue, uploads, ...given }: ConnectionParts): DaemonConnection {
  const { daemon, ours } = given;
  const ended = new AbortController();
  const parts: DaemonParts = { ...given, worker: workerOf(daemon, ours), ended: ended.signal };
  const jobs = new OwnedJobs(parts);
  const revocation = createRevocation(parts, jobs, given.cut);
  const acquire = acquireCalls(parts, queue, jobs, revocation);
  const reports = jobReportCalls(parts, jobs, revocation);
  const rpc = [
    implement(ProvisionerDaemon, {
      ...acquire.upstream,
      ...reports.upstream,
      ...uploadCalls(parts, jobs, uploads),
    }),
  ];
  if (ours) {
    const own = { ...acquire.ours, ...reports.ours, ...noticeCalls(parts, jobs), ...frozenCalls(parts, jobs) };
    rpc.push(implement(JobControl, own));
  }
  return {
    daemon,
    connection: connectionOf(daemon),
    rpc,
    ownerships: () => jobs.ownerships(),
    putBackDropped: () => jobs.putBackDropped(),
    revoke: () => revocation.revoke(),
    close() {
      revocation.close();
      jobs.close();
      ended.abort(new AppError('canceled', 'The daemon disconnected.'));
    },
  };
}
