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
      'The forms for dynamic parameters that a person may have open at a time, for each server. 0 or less: no limit.',
    group: 'Limits',
  },
  maxStreamsPerUser: {
    type: 'int',
    flag: 'max-streams-per-user',
    env: 'CODER_MAX_STREAMS_PER_USER',
    yaml: 'limits.streamsPerUser',
    default: '500',
    description:
      'The event streams, followed logs and exports that a person may have open at a time, for each server. 0 or less: no limit.',
    group: 'Limits',
  },
  maxTunnelsPerUser: {
    type: 'int',
    flag: 'max-tunnels-per-user',
    env: 'CODER_MAX_TUNNELS_PER_USER',
    yaml: 'limits.tunnelsPerUser',
    default: '1000',
    description:
      'The connections to workspaces that a person may have open at a time, for each server: terminals, SSH, forwarded ports, and WebSockets of apps. 0 or less: no limit.',
    group: 'Limits',
  },
} as const satisfies Record<string, OptionRow>;
