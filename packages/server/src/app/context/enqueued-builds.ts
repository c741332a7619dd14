import { reports } from '@ropewalk/kit/reports';

export interface EnqueuedBuild {
  /** The server. One process can have several. */
  replicaId: string;
  provisioner: string;
  reason: string;
  transition: string;
  /** Whether the build has begun: it waits for a daemon. */
  begun: boolean;
}

/** Attempts of this process to begin builds. */
export const { report: reportBuild, observe: observeBuilds } = reports<EnqueuedBuild>('platform.enqueued-build');
