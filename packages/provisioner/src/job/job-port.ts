import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LogNumber } from '@ropewalk/wire/log-sequence';
import type { DataUploadType } from '@ropewalk/wire/proto/provisioner';
import type {
  CommitQuotaResponse,
  CompletedJob,
  FailedJob,
  Log,
  UpdateJobRequest,
  UpdateJobRequestSchema,
  UpdateJobResponse,
} from '@ropewalk/wire/proto/provisionerd';
import type { Checkpoint } from '../terraform/checkpoint.ts';
import type { FrozenSource, FrozenVersion } from '../terraform/frozen.ts';

/** How a job ended. */
export type Verdict = { kind: 'complete'; job: CompletedJob } | { kind: 'fail'; job: FailedJob };

/** How a job ended, and the last lines of its log. */
export interface Ending {
  verdict: Verdict;
  rest: LogBatch;
}

/** The fields of an update besides the job's id. An update without any is a heartbeat. */
export type UpdateFields = Pick<
  Exclude<MessageInitShape<typeof UpdateJobRequestSchema>, UpdateJobRequest>,
  'logs' | 'templateVariables' | 'userVariableValues' | 'readme' | 'workspaceTags'
>;

export interface Upload {
  type: DataUploadType;
  data: Uint8Array;
  /** The SHA-256 of the data. */
  hash: Uint8Array;
}

/**
 * The server's interface for a job. A call that loses its connection waits for the next connection and repeats. It
 * rejects if the server rejects it, or if this daemon no longer owns the job.
 */
export interface JobPort {
  /** `numbers` identifies each line of the log, so that our server stores a repeated line once. */
  update(fields: UpdateFields, numbers?: LogNumber[]): Promise<UpdateJobResponse>;
  commitQuota(dailyCost: number): Promise<CommitQuotaResponse>;
  upload(upload: Upload): Promise<void>;
  /** Absent with an upstream server, whose protocol has no checkpoints. */
  checkpoint?(checkpoint: Checkpoint): Promise<void>;
  /** The frozen version of the job's template version. Absent with an upstream server. */
  frozen?: FrozenPort;
  /**
   * Asks the server to put the job back into the queue, for a daemon with a version of Terraform that these constraints
   * allow. If it does, this daemon no longer owns the job. Absent with an upstream server.
   */
  requireEngine?(constraints: readonly string[]): Promise<void>;
}

export interface FrozenPort extends Omit<FrozenSource, 'id'> {
  /**
   * Stores what an import has fixed. Returns the checksums of the packages whose files the server lacks, and the most
   * bytes of an archive in several files. 0: the server takes an archive of one file only.
   */
  keep(version: FrozenVersion): Promise<{ missing: string[]; mostBytes: number }>;
}

/** Lines of a log that are not on their way yet. */
export interface LogBatch {
  logs: Log[];
  numbers: LogNumber[];
}
