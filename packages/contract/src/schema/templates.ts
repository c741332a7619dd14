import { type Static, Type } from 'typebox';
import { MinimalUser, VariableValue, WorkspaceAgentPortShareLevel, WorkspaceBuildParameter } from './common.ts';
import {
  documentedAlso,
  ImageAddress,
  Line,
  Milliseconds,
  Nullable,
  named,
  Paragraph,
  stringEnum,
  Tags,
  Timestamp,
  Uuid,
} from './kit.ts';
import { MatchedProvisioners, ProvisionerJob, ProvisionerStorageMethod } from './provisioners.ts';

export const ArchiveTemplateVersionsRequest = named(
  'ArchiveTemplateVersionsRequest',
  Type.Object({
    all: Type.Optional(Type.Boolean()),
  }),
);
export type ArchiveTemplateVersionsRequest = Static<typeof ArchiveTemplateVersionsRequest>;

export const ArchiveTemplateVersionsResponse = named(
  'ArchiveTemplateVersionsResponse',
  documentedAlso(
    Type.Object({
      template_id: Uuid,
      archived_ids: Type.Array(Uuid),
    }),
    {
      type: 'object',
      required: ['message'],
      properties: {
        detail: { type: 'string' },
        message: { type: 'string' },
        validations: {
          type: 'array',
          items: {
            type: 'object',
            required: ['detail', 'field'],
            properties: { detail: { type: 'string' }, field: { type: 'string' } },
          },
        },
      },
    },
  ),
);
export type ArchiveTemplateVersionsResponse = Static<typeof ArchiveTemplateVersionsResponse>;

export const TemplateAutostartRequirement = named(
  'TemplateAutostartRequirement',
  Type.Object({
    days_of_week: Type.Array(
      stringEnum(['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday']),
      { maxItems: 100 },
    ),
  }),
);
export type TemplateAutostartRequirement = Static<typeof TemplateAutostartRequirement>;

export const TemplateAutostopRequirement = named(
  'TemplateAutostopRequirement',
  Type.Object({
    days_of_week: Type.Array(
      stringEnum(['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday']),
      { maxItems: 100 },
    ),
    weeks: Type.Integer({ minimum: -1_000, maximum: 1_000 }),
  }),
);
export type TemplateAutostopRequirement = Static<typeof TemplateAutostopRequirement>;

/** Who answers requests that pages of other origins send to apps: the server for the owner's other apps, or only the app. */
export const CORSBehavior = stringEnum(['simple', 'passthru']);
export type CORSBehavior = Static<typeof CORSBehavior>;

export const CreateTemplateRequest = named(
  'CreateTemplateRequest',
  Type.Object({
    activity_bump_ms: Type.Optional(Milliseconds),
    allow_user_autostart: Type.Optional(Type.Boolean()),
    allow_user_autostop: Type.Optional(Type.Boolean()),
    allow_user_cancel_workspace_jobs: Type.Optional(Type.Boolean()),
    autostart_requirement: Type.Optional(TemplateAutostartRequirement),
    autostop_requirement: Type.Optional(TemplateAutostopRequirement),
    cors_behavior: Type.Optional(CORSBehavior),
    default_ttl_ms: Type.Optional(Milliseconds),
    delete_ttl_ms: Type.Optional(Milliseconds),
    description: Type.Optional(Paragraph),
    disable_everyone_group_access: Type.Optional(Type.Boolean()),
    display_name: Type.Optional(Line),
    dormant_ttl_ms: Type.Optional(Milliseconds),
    failure_ttl_ms: Type.Optional(Milliseconds),
    icon: Type.Optional(ImageAddress),
    max_port_share_level: Type.Optional(WorkspaceAgentPortShareLevel),
    name: Line,
    require_active_version: Type.Optional(Type.Boolean()),
    template_use_classic_parameter_flow: Type.Optional(Type.Boolean()),
    template_version_id: Uuid,
    time_til_autostop_notify_ms: Type.Optional(Milliseconds),
  }),
);
export type CreateTemplateRequest = Static<typeof CreateTemplateRequest>;

export const CreateTemplateVersionDryRunRequest = named(
  'CreateTemplateVersionDryRunRequest',
  Type.Object({
    rich_parameter_values: Type.Optional(Type.Array(WorkspaceBuildParameter, { maxItems: 1_000 })),
    user_variable_values: Type.Optional(Type.Array(VariableValue, { maxItems: 1_000 })),
    workspace_name: Type.Optional(Line),
  }),
);
export type CreateTemplateVersionDryRunRequest = Static<typeof CreateTemplateVersionDryRunRequest>;

export const CreateTemplateVersionRequest = named(
  'CreateTemplateVersionRequest',
  Type.Object({
    example_id: Type.Optional(Line),
    file_id: Type.Optional(Uuid),
    message: Type.Optional(Paragraph),
    name: Type.Optional(Line),
    provisioner: stringEnum(['terraform', 'echo']),
    /**
     * An extension of upstream's API: the id of a version whose import waits for a daemon. The new version has its
     * archive, type and template, and its name, message and variable values unless this request has others. The old
     * version's import is canceled. If it belongs to a template, it is archived under the name "unused-…".
     */
    replaces: Type.Optional(Uuid),
    storage_method: ProvisionerStorageMethod,
    tags: Type.Optional(Tags),
    template_id: Type.Optional(Uuid),
    user_variable_values: Type.Optional(Type.Array(VariableValue, { maxItems: 1_000 })),
  }),
);
export type CreateTemplateVersionRequest = Static<typeof CreateTemplateVersionRequest>;

export const DAUEntry = named(
  'DAUEntry',
  Type.Object({
    amount: Type.Integer(),
    date: Type.String(),
  }),
);
export type DAUEntry = Static<typeof DAUEntry>;

export const DAUsResponse = named(
  'DAUsResponse',
  Type.Object({
    entries: Type.Array(DAUEntry),
    tz_hour_offset: Type.Integer(),
  }),
);
export type DAUsResponse = Static<typeof DAUsResponse>;

export const PatchTemplateVersionRequest = named(
  'PatchTemplateVersionRequest',
  Type.Object({
    message: Type.Optional(Paragraph),
    name: Type.Optional(Line),
  }),
);
export type PatchTemplateVersionRequest = Static<typeof PatchTemplateVersionRequest>;

export const PresetParameter = named(
  'PresetParameter',
  documentedAlso(Type.Object({ Name: Type.String(), Value: Type.String() }), {
    type: 'object',
    properties: { name: { type: 'string' }, value: { type: 'string' } },
  }),
);
export type PresetParameter = Static<typeof PresetParameter>;

export const Preset = named(
  'Preset',
  // Upstream's programs send and read Go's own field names.
  documentedAlso(
    Type.Object({
      Default: Type.Boolean(),
      Description: Type.String(),
      DesiredPrebuildInstances: Nullable(Type.Integer()),
      Icon: Type.String(),
      ID: Type.String(),
      Name: Type.String(),
      Parameters: Type.Array(PresetParameter),
    }),
    {
      type: 'object',
      properties: {
        default: { type: 'boolean' },
        description: { type: 'string' },
        desiredPrebuildInstances: { type: 'integer' },
        icon: { type: 'string' },
        id: { type: 'string' },
        name: { type: 'string' },
        parameters: { type: 'array', items: PresetParameter },
      },
    },
  ),
);
export type Preset = Static<typeof Preset>;

export const TransitionStats = named(
  'TransitionStats',
  Type.Object({
    P50: Nullable(Type.Integer()),
    P95: Nullable(Type.Integer()),
  }),
);
export type TransitionStats = Static<typeof TransitionStats>;

export const TemplateBuildTimeStats = named('TemplateBuildTimeStats', Type.Record(Type.String(), TransitionStats));
export type TemplateBuildTimeStats = Static<typeof TemplateBuildTimeStats>;

export const Template = named(
  'Template',
  Type.Object({
    active_user_count: Type.Integer(),
    active_version_id: Uuid,
    activity_bump_ms: Type.Integer(),
    allow_user_autostart: Type.Boolean(),
    allow_user_autostop: Type.Boolean(),
    allow_user_cancel_workspace_jobs: Type.Boolean(),
    autostart_requirement: TemplateAutostartRequirement,
    autostop_requirement: TemplateAutostopRequirement,
    build_time_stats: TemplateBuildTimeStats,
    cors_behavior: CORSBehavior,
    created_at: Timestamp,
    created_by_id: Uuid,
    created_by_name: Type.String(),
    default_ttl_ms: Type.Integer(),
    deleted: Type.Boolean(),
    deprecated: Type.Boolean(),
    deprecation_message: Type.Optional(Type.String()),
    description: Type.String(),
    /** Always false: builds use the modules that the import stored. */
    disable_module_cache: Type.Boolean(),
    display_name: Type.String(),
    failure_ttl_ms: Type.Integer(),
    icon: Type.String(),
    id: Uuid,
    max_port_share_level: WorkspaceAgentPortShareLevel,
    name: Type.String(),
    organization_display_name: Type.String(),
    organization_icon: Type.Optional(Type.String()),
    organization_id: Uuid,
    organization_name: Type.String(),
    provisioner: stringEnum(['terraform', 'echo']),
    require_active_version: Type.Boolean(),
    /** How long before an automatic stop the owner gets a message. 0: no message. */
    time_til_autostop_notify_ms: Type.Integer(),
    time_til_dormant_autodelete_ms: Type.Integer(),
    time_til_dormant_ms: Type.Integer(),
    updated_at: Timestamp,
    use_classic_parameter_flow: Type.Boolean(),
  }),
);
export type Template = Static<typeof Template>;

export const TemplateExample = named(
  'TemplateExample',
  Type.Object({
    description: Type.String(),
    icon: Type.String(),
    // A slug, though upstream's API document says UUID.
    id: Type.String(),
    markdown: Type.String(),
    name: Type.String(),
    tags: Type.Array(Type.String()),
    url: Type.String(),
  }),
);
export type TemplateExample = Static<typeof TemplateExample>;

export const TemplateVersionWarning = named('TemplateVersionWarning', stringEnum(['UNSUPPORTED_WORKSPACES']));
export type TemplateVersionWarning = Static<typeof TemplateVersionWarning>;

export const TemplateVersion = named(
  'TemplateVersion',
  Type.Object({
    archived: Type.Boolean(),
    created_at: Timestamp,
    created_by: MinimalUser,
    id: Uuid,
    job: ProvisionerJob,
    has_external_agent: Type.Boolean(),
    matched_provisioners: Type.Optional(MatchedProvisioners),
    message: Type.String(),
    name: Type.String(),
    organization_id: Uuid,
    readme: Type.String(),
    template_id: Type.Optional(Uuid),
    updated_at: Timestamp,
    warnings: Type.Optional(Type.Array(TemplateVersionWarning)),
  }),
);
export type TemplateVersion = Static<typeof TemplateVersion>;

export const TemplateVersionExternalAuth = named(
  'TemplateVersionExternalAuth',
  Type.Object({
    authenticate_url: Type.String(),
    authenticated: Type.Optional(Type.Boolean()),
    display_icon: Type.String(),
    display_name: Type.String(),
    id: Type.String(),
    optional: Type.Optional(Type.Boolean()),
    type: Type.String(),
  }),
);
export type TemplateVersionExternalAuth = Static<typeof TemplateVersionExternalAuth>;

export const TemplateVersionParameterOption = named(
  'TemplateVersionParameterOption',
  Type.Object({
    description: Type.String(),
    icon: Type.String(),
    name: Type.String(),
    value: Type.String(),
  }),
);
export type TemplateVersionParameterOption = Static<typeof TemplateVersionParameterOption>;

export const ValidationMonotonicOrder = named('ValidationMonotonicOrder', stringEnum(['increasing', 'decreasing']));
export type ValidationMonotonicOrder = Static<typeof ValidationMonotonicOrder>;

export const ParameterFormType = named(
  'ParameterFormType',
  stringEnum([
    '',
    'radio',
    'dropdown',
    'input',
    'textarea',
    'slider',
    'checkbox',
    'switch',
    'tag-select',
    'multi-select',
    'error',
  ]),
);
export type ParameterFormType = Static<typeof ParameterFormType>;

export const ParameterType = named('OptionType', stringEnum(['string', 'number', 'bool', 'list(string)']));
export type ParameterType = Static<typeof ParameterType>;

export const TemplateVersionParameter = named(
  'TemplateVersionParameter',
  Type.Object({
    default_value: Type.String(),
    description: Type.String(),
    description_plaintext: Type.String(),
    display_name: Type.Optional(Type.String()),
    ephemeral: Type.Boolean(),
    form_type: ParameterFormType,
    icon: Type.String(),
    mutable: Type.Boolean(),
    name: Type.String(),
    options: Type.Optional(Type.Array(TemplateVersionParameterOption)),
    required: Type.Boolean(),
    type: ParameterType,
    validation_error: Type.Optional(Type.String()),
    validation_max: Type.Optional(Type.Integer()),
    validation_min: Type.Optional(Type.Integer()),
    validation_monotonic: Type.Optional(ValidationMonotonicOrder),
    validation_regex: Type.Optional(Type.String()),
  }),
);
export type TemplateVersionParameter = Static<typeof TemplateVersionParameter>;

export const TemplateVersionVariable = named(
  'TemplateVersionVariable',
  Type.Object({
    default_value: Type.String(),
    description: Type.String(),
    name: Type.String(),
    required: Type.Boolean(),
    sensitive: Type.Boolean(),
    type: stringEnum(['string', 'number', 'bool']),
    value: Type.String(),
  }),
);
export type TemplateVersionVariable = Static<typeof TemplateVersionVariable>;

export const UpdateActiveTemplateVersion = named(
  'UpdateActiveTemplateVersion',
  Type.Object({
    id: Uuid,
  }),
);
export type UpdateActiveTemplateVersion = Static<typeof UpdateActiveTemplateVersion>;

/** Go clients omit fields that are zero or false. app/template/update.ts defines what absence means. */
export const UpdateTemplateMeta = named(
  'UpdateTemplateMeta',
  Type.Object({
    name: Type.Optional(Line),
    display_name: Type.Optional(Line),
    description: Type.Optional(Paragraph),
    icon: Type.Optional(ImageAddress),
    default_ttl_ms: Type.Optional(Milliseconds),
    activity_bump_ms: Type.Optional(Milliseconds),
    autostop_requirement: Type.Optional(
      Type.Object({
        days_of_week: Type.Optional(TemplateAutostopRequirement.properties.days_of_week),
        weeks: Type.Optional(Type.Integer({ minimum: -1_000, maximum: 1_000 })),
      }),
    ),
    autostart_requirement: Type.Optional(
      Type.Object({ days_of_week: Type.Optional(TemplateAutostartRequirement.properties.days_of_week) }),
    ),
    allow_user_autostart: Type.Optional(Type.Boolean()),
    allow_user_autostop: Type.Optional(Type.Boolean()),
    allow_user_cancel_workspace_jobs: Type.Optional(Type.Boolean()),
    failure_ttl_ms: Type.Optional(Milliseconds),
    time_til_autostop_notify_ms: Type.Optional(Milliseconds),
    time_til_dormant_ms: Type.Optional(Milliseconds),
    time_til_dormant_autodelete_ms: Type.Optional(Milliseconds),
    update_workspace_last_used_at: Type.Optional(Type.Boolean()),
    update_workspace_dormant_at: Type.Optional(Type.Boolean()),
    require_active_version: Type.Optional(Type.Boolean()),
    deprecation_message: Type.Optional(Paragraph),
    disable_everyone_group_access: Type.Optional(Type.Boolean()),
    max_port_share_level: Type.Optional(WorkspaceAgentPortShareLevel),
    cors_behavior: Type.Optional(CORSBehavior),
    /** Whether builds fetch their modules again instead of using those of the import. */
    disable_module_cache: Type.Optional(Type.Boolean()),
    use_classic_parameter_flow: Type.Optional(Type.Boolean()),
  }),
);
export type UpdateTemplateMeta = Static<typeof UpdateTemplateMeta>;

export const InvalidatePresetsResponse = named(
  'InvalidatePresetsResponse',
  Type.Object({
    invalidated: Type.Array(
      Type.Object({
        preset_name: Type.String(),
        template_name: Type.String(),
        template_version_name: Type.String(),
      }),
    ),
  }),
);
export type InvalidatePresetsResponse = Static<typeof InvalidatePresetsResponse>;

export const PrebuildPool = named(
  'PrebuildPool',
  Type.Object({
    preset_id: Uuid,
    preset_name: Type.String(),
    template_version_name: Type.String(),
    /** How many workspaces the pool should have now. */
    desired: Type.Integer(),
    /** A person can claim them now. */
    ready: Type.Integer(),
    /** On their way: they wait for a daemon, are built, or run start scripts. */
    starting: Type.Integer(),
    failed: Type.Integer(),
    /** Stopped by people. */
    stopped: Type.Integer(),
    /** The next change of the size by the schedule, within a week. */
    next_change: Type.Optional(Type.Object({ at: Timestamp, desired: Type.Integer() })),
    /** Whether too many builds failed, so that the pool gets no more workspaces. */
    limit_reached: Type.Boolean(),
    /** Why the last creation could not begin. */
    error: Type.Optional(Type.String()),
    /** The next attempt after failures. */
    next_attempt_at: Type.Optional(Timestamp),
  }),
);
export type PrebuildPool = Static<typeof PrebuildPool>;

export const TemplatePrebuilds = named(
  'TemplatePrebuilds',
  Type.Object({
    /** Whether the server leaves all pools of the deployment as they are. */
    paused: Type.Boolean(),
    pools: Type.Array(PrebuildPool),
  }),
);
export type TemplatePrebuilds = Static<typeof TemplatePrebuilds>;
