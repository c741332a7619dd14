import type { OptionRow } from '../option.ts';

/** How long records are kept. */
export const retentionOptions = {
  auditLogsRetention: {
    type: 'duration',
    flag: 'audit-logs-retention',
    env: 'CODER_AUDIT_LOGS_RETENTION',
    yaml: 'retention.audit_logs',
    default: '0s',
    description: 'How long entries of the audit log are kept, for example 365d. 0 keeps them for ever.',
    group: 'Retention',
  },
  connectionLogsRetention: {
    type: 'duration',
    flag: 'connection-logs-retention',
    env: 'CODER_CONNECTION_LOGS_RETENTION',
    yaml: 'retention.connection_logs',
    default: '90d',
    description: 'How long entries of the connection log are kept, for example 30d. 0 keeps them for ever.',
    group: 'Retention',
  },
  apiKeysRetention: {
    type: 'duration',
    flag: 'api-keys-retention',
    env: 'CODER_API_KEYS_RETENTION',
    yaml: 'retention.api_keys',
    default: '7d',
    description:
      'How long expired sessions and tokens are kept, so that the server can say why it rejects them. 0 keeps them for ever.',
    group: 'Retention',
  },
  workspaceAgentLogsRetention: {
    type: 'duration',
    flag: 'workspace-agent-logs-retention',
    env: 'CODER_WORKSPACE_AGENT_LOGS_RETENTION',
    yaml: 'retention.workspace_agent_logs',
    default: '7d',
    description:
      "How long logs of agents are kept after their last connection. Logs of a workspace's latest build are always kept. 0 keeps all for ever.",
    group: 'Retention',
  },
  deletedWorkspacesRetention: {
    type: 'duration',
    flag: 'deleted-workspaces-retention',
    env: 'CODER_DELETED_WORKSPACES_RETENTION',
    yaml: 'retention.deleted_workspaces',
    default: '180d',
    description:
      "How long the builds of a workspace are kept after its deletion, with their logs, timings, resources and states. Dry runs of templates are kept for the same time. Data that insights count is kept for longer, and a workspace's latest build always. 0 keeps all for ever.",
    group: 'Retention',
  },
} as const satisfies Record<string, OptionRow>;
