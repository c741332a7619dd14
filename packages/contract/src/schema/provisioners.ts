import { type Static, Type } from 'typebox';
import { LogLevel, TimingStage, WorkspaceTransition } from './common.ts';
import { Line, Nullable, named, stringEnum, Tags, Timestamp, Uuid } from './kit.ts';

export const ProvisionerStorageMethod = named('ProvisionerStorageMethod', stringEnum(['file']));
export type ProvisionerStorageMethod = Static<typeof ProvisionerStorageMethod>;

export const ProvisionerLogLevel = named('ProvisionerLogLevel', stringEnum(['debug']));
export type ProvisionerLogLevel = Static<typeof ProvisionerLogLevel>;

export const JobErrorCode = named('JobErrorCode', stringEnum(['REQUIRED_TEMPLATE_VARIABLES']));
export type JobErrorCode = Static<typeof JobErrorCode>;

export const LogSource = named('LogSource', stringEnum(['provisioner_daemon', 'provisioner']));
export type LogSource = Static<typeof LogSource>;

export const MatchedProvisioners = named(
  'MatchedProvisioners',
  Type.Object({
    available: Type.Integer(),
    count: Type.Integer(),
    most_recently_seen: Type.Optional(Timestamp),
  }),
);
export type MatchedProvisioners = Static<typeof MatchedProvisioners>;

/** An extension of upstream's API: how a daemon's tags differ from a job's. */
export const ProvisionerTagDifference = named(
  'ProvisionerTagDifference',
  Type.Object({
    /** Tags of the job that the daemon lacks. */
    missing: Type.Record(Type.String(), Type.String()),
    /** Tags that both have, with different values. */
    different: Type.Record(Type.String(), Type.Object({ wanted: Type.String(), has: Type.String() })),
    /** The job has no tags, but the daemon does: it accepts only tagged jobs. */
    taken_for_tagged_jobs: Type.Boolean(),
  }),
);
export type ProvisionerTagDifference = Static<typeof ProvisionerTagDifference>;

/** An extension of upstream's API: why a job is still pending. */
export const PendingReason = named(
  'PendingReason',
  Type.Object({
    /**
     * `no_matching_provisioners`: no daemon has its tags. `provisioners_offline`: matching daemons were not seen
     * lately. `provisioners_busy`: they work on other jobs. `starting`: one is free and about to take it.
     */
    reason: stringEnum(['no_matching_provisioners', 'provisioners_offline', 'provisioners_busy', 'starting']),
    /** The reason as a sentence for a person, in English. */
    message: Type.String(),
    matched_provisioners: MatchedProvisioners,
    /** The position among the jobs that the same daemons may take, from 1. 0 without a daemon. */
    queue_position: Type.Integer(),
    queue_size: Type.Integer(),
    /** Estimated from recent durations of similar jobs. Absent without data. */
    estimated_wait_seconds: Type.Optional(Type.Integer()),
    /** If no daemon has its tags: tags that the imported template names for its workspaces, and the import lacks. */
    template_tags: Type.Optional(Type.Record(Type.String(), Type.String())),
    /** If no daemon has its tags: the daemon with the closest tags. */
    nearest: Type.Optional(
      Type.Object({
        name: Type.String(),
        tags: Type.Record(Type.String(), Type.String()),
        difference: ProvisionerTagDifference,
      }),
    ),
  }),
);
export type PendingReason = Static<typeof PendingReason>;

export const ProvisionerJobStatus = named(
  'ProvisionerJobStatus',
  stringEnum(['pending', 'running', 'succeeded', 'canceling', 'canceled', 'failed', 'unknown']),
);
export type ProvisionerJobStatus = Static<typeof ProvisionerJobStatus>;

export const ProvisionerDaemonJob = named(
  'ProvisionerDaemonJob',
  Type.Object({
    id: Uuid,
    status: ProvisionerJobStatus,
    template_display_name: Type.String(),
    template_icon: Type.String(),
    template_name: Type.String(),
  }),
);
export type ProvisionerDaemonJob = Static<typeof ProvisionerDaemonJob>;

export const ProvisionerDaemonStatus = named('ProvisionerDaemonStatus', stringEnum(['offline', 'idle', 'busy']));
export type ProvisionerDaemonStatus = Static<typeof ProvisionerDaemonStatus>;

export const ProvisionerDaemon = named(
  'ProvisionerDaemon',
  Type.Object({
    api_version: Type.String(),
    created_at: Timestamp,
    current_job: Nullable(ProvisionerDaemonJob),
    /** An extension: its versions of Terraform, such as `terraform 1.11.4`. Empty if the daemon does not report them. */
    engines: Type.Optional(Type.Array(Type.String())),
    id: Uuid,
    key_id: Uuid,
    key_name: Nullable(Type.String()),
    last_seen_at: Type.Optional(Timestamp),
    name: Type.String(),
    organization_id: Uuid,
    previous_job: Nullable(ProvisionerDaemonJob),
    provisioners: Type.Array(Type.String()),
    status: Nullable(ProvisionerDaemonStatus),
    tags: Type.Record(Type.String(), Type.String()),
    version: Type.String(),
  }),
);
export type ProvisionerDaemon = Static<typeof ProvisionerDaemon>;

/**
 * An extension of upstream's API: which daemons could run the builds of a template version, and why others cannot.
 */
export const ProvisionerExplanation = named(
  'ProvisionerExplanation',
  Type.Object({
    organization_id: Uuid,
    template_version_id: Uuid,
    /** The tags of a build by the calling user. Parameters without a value have their defaults. */
    tags: Type.Record(Type.String(), Type.String()),
    matched_provisioners: MatchedProvisioners,
    daemons: Type.Array(
      Type.Object({
        id: Uuid,
        name: Type.String(),
        status: ProvisionerDaemonStatus,
        tags: Type.Record(Type.String(), Type.String()),
        last_seen_at: Type.Optional(Timestamp),
        can_run: Type.Boolean(),
        /** The reason why the daemon cannot run it. */
        why: Type.Optional(Type.String()),
        difference: Type.Optional(ProvisionerTagDifference),
      }),
    ),
  }),
);
export type ProvisionerExplanation = Static<typeof ProvisionerExplanation>;

export const ProvisionerKey = named(
  'ProvisionerKey',
  Type.Object({
    created_at: Timestamp,
    id: Uuid,
    name: Type.String(),
    /** The organization's id. */
    organization: Uuid,
    tags: Type.Record(Type.String(), Type.String()),
  }),
);
export type ProvisionerKey = Static<typeof ProvisionerKey>;

export const CreateProvisionerKeyRequest = named(
  'CreateProvisionerKeyRequest',
  Type.Object({
    name: Line,
    tags: Type.Optional(Tags),
  }),
);
export type CreateProvisionerKeyRequest = Static<typeof CreateProvisionerKeyRequest>;

export const CreateProvisionerKeyResponse = named('CreateProvisionerKeyResponse', Type.Object({ key: Type.String() }));
export type CreateProvisionerKeyResponse = Static<typeof CreateProvisionerKeyResponse>;

export const ProvisionerKeyDaemons = named(
  'ProvisionerKeyDaemons',
  Type.Object({ daemons: Type.Array(ProvisionerDaemon), key: ProvisionerKey }),
);
export type ProvisionerKeyDaemons = Static<typeof ProvisionerKeyDaemons>;

export const ProvisionerJobInput = named(
  'ProvisionerJobInput',
  Type.Object({
    error: Type.Optional(Type.String()),
    template_version_id: Type.Optional(Uuid),
    workspace_build_id: Type.Optional(Uuid),
  }),
);
export type ProvisionerJobInput = Static<typeof ProvisionerJobInput>;

export const ProvisionerJobMetadata = named(
  'ProvisionerJobMetadata',
  Type.Object({
    template_display_name: Type.String(),
    template_icon: Type.String(),
    template_id: Type.Optional(Uuid),
    template_name: Type.String(),
    template_version_name: Type.String(),
    workspace_build_transition: Type.Optional(WorkspaceTransition),
    workspace_id: Type.Optional(Uuid),
    workspace_name: Type.Optional(Type.String()),
  }),
);
export type ProvisionerJobMetadata = Static<typeof ProvisionerJobMetadata>;

export const ProvisionerJobType = named(
  'ProvisionerJobType',
  stringEnum(['template_version_import', 'workspace_build', 'template_version_dry_run']),
);
export type ProvisionerJobType = Static<typeof ProvisionerJobType>;

export const ProvisionerJob = named(
  'ProvisionerJob',
  Type.Object({
    available_workers: Type.Optional(Type.Array(Uuid)),
    canceled_at: Type.Optional(Timestamp),
    completed_at: Type.Optional(Timestamp),
    created_at: Timestamp,
    error: Type.Optional(Type.String()),
    error_code: Type.Optional(JobErrorCode),
    file_id: Uuid,
    id: Uuid,
    initiator_id: Uuid,
    /** Addresses of resources whose creation has started and, as far as the server has received, not ended. */
    in_flight: Type.Optional(Type.Array(Type.String())),
    input: ProvisionerJobInput,
    /** Always false: the log keeps its beginning and its end. */
    logs_overflowed: Type.Boolean(),
    metadata: ProvisionerJobMetadata,
    organization_id: Uuid,
    pending_reason: Type.Optional(PendingReason),
    queue_position: Type.Integer(),
    queue_size: Type.Integer(),
    started_at: Type.Optional(Timestamp),
    status: ProvisionerJobStatus,
    tags: Type.Record(Type.String(), Type.String()),
    type: ProvisionerJobType,
    worker_id: Type.Optional(Uuid),
    worker_name: Type.Optional(Type.String()),
  }),
);
export type ProvisionerJob = Static<typeof ProvisionerJob>;

export const ProvisionerJobLog = named(
  'ProvisionerJobLog',
  Type.Object({
    created_at: Timestamp,
    id: Type.Integer(),
    log_level: LogLevel,
    log_source: LogSource,
    output: Type.String(),
    stage: Type.String(),
  }),
);
export type ProvisionerJobLog = Static<typeof ProvisionerJobLog>;

export const ProvisionerTiming = named(
  'ProvisionerTiming',
  Type.Object({
    action: Type.String(),
    ended_at: Timestamp,
    job_id: Uuid,
    resource: Type.String(),
    source: Type.String(),
    stage: TimingStage,
    started_at: Timestamp,
  }),
);
export type ProvisionerTiming = Static<typeof ProvisionerTiming>;
