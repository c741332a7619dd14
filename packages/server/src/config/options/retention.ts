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
} as const satisfies Record<string, OptionRow>;
