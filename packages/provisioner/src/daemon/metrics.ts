export type JobKind = 'template_import' | 'template_dry_run' | 'workspace_build';

/** Receives measurements from daemons. Several daemons of one process can share one. */
export interface DaemonMetrics {
  /** Called when a daemon's connection to the server begins and ends. */
  connected(daemon: string, on: boolean): void;
  jobStarted(kind: JobKind): void;
  /** A job that the daemon lost counts as failed. */
  jobEnded(kind: JobKind, status: 'completed' | 'failed', seconds: number): void;
  /** `stage` is the name in the job's log. */
  stageEnded(stage: string, seconds: number): void;
}
