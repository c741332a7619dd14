import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LogNumber } from '@platform/wire/log-sequence';
import type { DataUploadType } from '@platform/wire/proto/provisioner';
import type {
  CommitQuotaResponse,
  CompletedJob,
  FailedJob,
  UpdateJobRequest,
  UpdateJobRequestSchema,
  UpdateJobResponse,
} from '@platform/wire/proto/provisionerd';
import type { Checkpoint } from '../terraform/checkpoint.ts';

/** How a job ended. */
export type Verdict = { kind: 'complete'; job: CompletedJob } | { kind: 'fail'; job: FailedJob };

/** What an update may say besides which job it is about; nothing at all is a heartbeat. */
export type UpdateFields = Pick<
  Exclude<MessageInitShape<typeof UpdateJobRequestSchema>, UpdateJobRequest>,
  'logs' | 'templateVariables' | 'userVariableValues' | 'readme' | 'workspaceTags'
>;

export interface Upload {
  type: DataUploadType;
  data: Uint8Array;
  /** SHA-256 of the data. */
  hash: Uint8Array;
}

/**
 * The server as a job sees it. Calls outlive the connection: they wait for the next one and are made again. They
 * reject when the server refuses them, or when the job is no longer ours.
 */
export interface JobPort {
  /** `numbers`: of each line of the log, so that a server of ours stores it once however often it is sent. */
  update(fields: UpdateFields, numbers?: LogNumber[]): Promise<UpdateJobResponse>;
  commitQuota(dailyCost: number): Promise<CommitQuotaResponse>;
  upload(upload: Upload): Promise<void>;
  /** Absent with a published server, which has no word for it. */
  checkpoint?(checkpoint: Checkpoint): Promise<void>;
}
