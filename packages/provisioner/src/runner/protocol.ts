/**
 * What the daemon and its runner say to each other, one JSON object a line. The runner is a process of its own
 * that hosts the provider and starts terraform, so that both live on when the daemon dies; everything that a
 * later daemon must know is therefore in files, and these messages only make things quick.
 */

import type { LostLines } from './log-file.ts';

/** A process that can be recognised later: a pid alone may have been given to another by then. */
export interface ProcessRef {
  pid: number;
  /** Opaque text that differs between two processes that had the same pid; empty when the system can't tell. */
  startTime: string;
}

export interface RunSpec {
  id: string;
  binary: string;
  args: string[];
  cwd: string;
  /** The whole environment of terraform; TF_REATTACH_PROVIDERS is added. */
  env: Record<string, string>;
  /** Under which uid it runs, and who starts it so. Absent: under the runner's. */
  as?: { launcher: string; uid: number };
  /** Absent: terraform starts the providers it was given by init, and no other. */
  provider?: {
    /** Unix socket in a directory of mode 0700. */
    socketPath: string;
    /** The CODER_* variables that the provider reads. */
    env: Record<string, string>;
  };
  /** Where lines of stdout and stderr go, in the form of recorder.ts. */
  logPath: string;
  /** With this, stdout goes there as it is, and only stderr to the log. */
  outputPath?: string;
  /** Written as soon as terraform runs: its ProcessRef. */
  startedPath: string;
  /** Written last, by rename: a RunExit. Its presence means that the run is over. */
  exitPath: string;
}

export interface RunExit {
  code: number | null;
  signal: string | null;
  /** Unix milliseconds. */
  finishedAt: number;
  /** Why the run could not even start. */
  error?: string;
  /** What the log lacks without saying so: its disk was full until the end. */
  lost?: LostLines;
}

export type RunnerCommand = { type: 'run'; spec: RunSpec };

export type RunnerEvent =
  | { type: 'ready'; runner: ProcessRef }
  | { type: 'started'; id: string; terraform: ProcessRef }
  | { type: 'output'; id: string }
  | { type: 'exited'; id: string; exit: RunExit };
