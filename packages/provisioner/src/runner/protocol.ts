/**
 * The messages between a daemon and its runner, one JSON object per line. The *runner* is a separate process that hosts
 * the provider and starts terraform, so that both survive the death of the daemon. A *run* is one terraform command.
 * Files hold everything that a later daemon needs. These messages only save the time of polling the files.
 */

import type { ProcessRef } from '@ropewalk/kit/process-ref';
import type { LostLines } from './log-file.ts';

export type { ProcessRef };

/** What a run needs before Terraform starts. */
export interface Preparation {
  key: string;
  /**
   * The uid that terraform will run as, and the socket of the launcher that starts it. Absent: it runs as the runner's
   * user.
   */
  as?: { launcher: string; uid: number };
  /** Absent: terraform starts only the providers that init installed. */
  provider?: {
    /** A Unix socket in a directory of mode 0700. */
    socketPath: string;
    /** The CODER_* variables that the provider reads. */
    env: Record<string, string>;
  };
}

export interface RunSpec {
  id: string;
  binary: string;
  args: string[];
  cwd: string;
  /** The whole environment of terraform, except TF_REATTACH_PROVIDERS, which the runner adds. */
  env: Record<string, string>;
  /** The bytes of memory that terraform and its children may use together. With more they are killed. */
  memoryLimit?: number;
  /** The file for the lines of stdout and stderr, in the format of recorder.ts. */
  logPath: string;
  /** A file that receives the unchanged stdout. The log then receives only stderr. */
  outputPath?: string;
  /** The file for terraform's ProcessRef, written as soon as terraform runs. */
  startedPath: string;
  /** The file for the RunExit, written last and by rename. If it exists, the run is over. */
  exitPath: string;
}

export interface RunExit {
  code: number | null;
  signal: string | null;
  /** Unix milliseconds. */
  finishedAt: number;
  /** Why the run could not start, or was ended, or has no known exit status. */
  error?: string;
  /** The process that started it has died before it, so that nobody knows its exit status. */
  unknown?: boolean;
  /** The lost lines that the log does not mention, because its disk was full until the end. */
  lost?: LostLines;
}

/** `begin` starts Terraform. `drop` ends a preparation whose run does not begin, and so does the end of the daemon. */
export type RunnerCommand =
  | { type: 'prepare'; preparation: Preparation }
  | { type: 'begin'; key: string; spec: RunSpec }
  | { type: 'drop'; key: string };

export type RunnerEvent =
  | { type: 'ready'; runner: ProcessRef }
  | { type: 'started'; id: string; terraform: ProcessRef }
  | { type: 'output'; id: string }
  | { type: 'exited'; id: string; exit: RunExit };
