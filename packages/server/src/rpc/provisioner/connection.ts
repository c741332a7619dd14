import { AppError, type Logger } from '@ropewalk/kit';
import { implement, type MessageBudget } from '@ropewalk/wire/drpc';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import type { Services } from '../../app/context/context.ts';
import type { JobQueue } from '../../app/job/queue.ts';
import type { JoinedDaemon } from '../../app/provisioner/credential.ts';
import { connectionOf, workerOf } from '../../app/provisioner/join.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { acquireCalls } from './acquire.ts';
import type { DaemonContext } from './context.ts';
import { frozenCalls } from './frozen.ts';
import { jobReportCalls } from './job-reports.ts';
import { noticeCalls } from './notices.ts';
import { OwnedJobs } from './owned-jobs.ts';
import { createRevocation } from './revocation.ts';
import type { ConnectedDaemon } from './upkeep.ts';
import { uploadCalls } from './uploads.ts';

export interface ConnectionOptions {
  services: Services;
  queue: JobQueue;
  metrics: Metrics;
  daemon: JoinedDaemon;
  ours: boolean;
  uploads: MessageBudget;
  log: Logger;
  /** Ends the connection. */
  cut(): void;
}

export interface DaemonConnection extends ConnectedDaemon {
  /** The services that the daemon may call. */
  rpc: ReturnType<typeof implement>[];
  /** The connection has ended. */
  close(): void;
}

/** One connection of one daemon: its calls, and the jobs that it owns. */
export function createDaemonConnection({ queue, uploads, ...options }: ConnectionOptions): DaemonConnection {
  const { daemon, ours } = options;
  const ended = new AbortController();
  const context: DaemonContext = { ...options, worker: workerOf(daemon, ours), ended: ended.signal };
  const jobs = new OwnedJobs(context);
  const revocation = createRevocation(context, jobs, options.cut);
  const acquire = acquireCalls(context, queue, jobs, revocation);
  const reports = jobReportCalls(context, jobs, revocation);
  const rpc = [
    implement(ProvisionerDaemon, {
      ...acquire.upstream,
      ...reports.upstream,
      ...uploadCalls(context, jobs, uploads),
    }),
  ];
  if (ours) {
    const own = { ...acquire.ours, ...reports.ours, ...noticeCalls(context, jobs), ...frozenCalls(context, jobs) };
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
