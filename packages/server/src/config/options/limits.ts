import type { OptionRow } from '../option.ts';

/** How much one person may hold, so that nobody takes the service from others. */
export const limitOptions = {
  maxFormsPerUser: {
    type: 'int',
    flag: 'max-forms-per-user',
    env: 'CODER_MAX_FORMS_PER_USER',
    yaml: 'limits.formsPerUser',
    default: '30',
    description:
      'The maximum number of dynamic parameter forms that a person may have open at the same time, for each server. 0 or less: no limit.',
    group: 'Limits',
  },
  maxStreamsPerUser: {
    type: 'int',
    flag: 'max-streams-per-user',
    env: 'CODER_MAX_STREAMS_PER_USER',
    yaml: 'limits.streamsPerUser',
    default: '500',
    description:
      'The maximum number of event streams, followed logs and exports that a person may have open at the same time, for each server. 0 or less: no limit.',
    group: 'Limits',
  },
  maxTunnelsPerUser: {
    type: 'int',
    flag: 'max-tunnels-per-user',
    env: 'CODER_MAX_TUNNELS_PER_USER',
    yaml: 'limits.tunnelsPerUser',
    default: '1000',
    description:
      'The maximum number of connections to workspaces that a person may have open at the same time, for each server: terminals, SSH, forwarded ports, and WebSockets of apps. 0 or less: no limit.',
    group: 'Limits',
  },
  maxWorkspacesPerUser: {
    type: 'int',
    flag: 'max-workspaces-per-user',
    env: 'CODER_MAX_WORKSPACES_PER_USER',
    yaml: 'limits.workspacesPerUser',
    default: '200',
    description:
      'The maximum number of workspaces that a person may own. A prebuilt workspace counts once the person has claimed it. 0 or less: no limit.',
    group: 'Limits',
  },
  maxPendingJobsPerUser: {
    type: 'int',
    flag: 'max-pending-jobs-per-user',
    env: 'CODER_MAX_PENDING_JOBS_PER_USER',
    yaml: 'limits.pendingJobsPerUser',
    default: '200',
    description:
      "The maximum number of a person's starts, imports and dry runs that may wait for a provisioner daemon at the same time. Stops, deletions and automatic builds are not limited. 0 or less: no limit.",
    group: 'Limits',
  },
  workspaceCreationRateLimit: {
    type: 'int',
    flag: 'workspace-creation-rate-limit',
    env: 'CODER_WORKSPACE_CREATION_RATE_LIMIT',
    yaml: 'limits.workspaceCreationRate',
    default: '30',
    description:
      'The maximum number of workspaces that a person may create per minute, for each server. 0 or less: --api-rate-limit applies.',
    group: 'Limits',
  },
  maxTokensPerUser: {
    type: 'int',
    flag: 'max-tokens-per-user',
    env: 'CODER_MAX_TOKENS_PER_USER',
    yaml: 'limits.tokensPerUser',
    default: '200',
    description:
      'The maximum number of tokens that a person may have, without expired ones. A person who has five times as many API keys, including sessions, gets no further keys for programs. 0 or less: no limit.',
    group: 'Limits',
  },
  maxProvisionerKeysPerOrganization: {
    type: 'int',
    flag: 'max-provisioner-keys-per-organization',
    env: 'CODER_MAX_PROVISIONER_KEYS_PER_ORGANIZATION',
    yaml: 'limits.provisionerKeysPerOrganization',
    default: '200',
    description: 'The maximum number of provisioner keys that an organization may have. 0 or less: no limit.',
    group: 'Limits',
  },
  maxGroupsPerOrganization: {
    type: 'int',
    flag: 'max-groups-per-organization',
    env: 'CODER_MAX_GROUPS_PER_ORGANIZATION',
    yaml: 'limits.groupsPerOrganization',
    default: '2000',
    description:
      'The maximum number of groups that an organization may have. A sign-in that would create more groups omits them. 0 or less: no limit.',
    group: 'Limits',
  },
  maxTemplatesPerOrganization: {
    type: 'int',
    flag: 'max-templates-per-organization',
    env: 'CODER_MAX_TEMPLATES_PER_ORGANIZATION',
    yaml: 'limits.templatesPerOrganization',
    default: '1000',
    description: 'The maximum number of templates that an organization may have. 0 or less: no limit.',
    group: 'Limits',
  },
  maxVersionsPerTemplate: {
    type: 'int',
    flag: 'max-versions-per-template',
    env: 'CODER_MAX_VERSIONS_PER_TEMPLATE',
    yaml: 'limits.versionsPerTemplate',
    default: '20000',
    description:
      'The maximum number of versions that a template may have, including archived ones. 0 or less: no limit.',
    group: 'Limits',
  },
} as const satisfies Record<string, OptionRow>;
