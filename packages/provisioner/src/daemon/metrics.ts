export type JobKind = 'template_import' | 'template_dry_run' | 'workspace_build';

/** What daemons tell of themselves while they work. Several daemons of one process may share one. */
export interface DaemonMetrics {
  /** Called when a daemon's connection to the server begins and ends. */
  connected(daemon: string, on: boolean): void;
  jobStarted(kind: JobKind): void;
  /** A job that was taken away counts as failed. */
  jobEnded(kind: JobKind, status: 'completed' | 'failed', seconds: number): void;
  /** `stage` as the job's log names it. */
  stageEnded(stage: string, seconds: number): void;
}
