import type { FlagDefs } from '../../framework/types.ts';

/** The settings of a template that can be set when it is created and later. */
export const templateFlags = {
  'default-ttl': {
    type: 'duration',
    description: 'Time after which a running workspace stops, such as 8h. With 0h, never.',
  },
  'failure-ttl': {
    type: 'duration',
    default: '0h',
    description: 'Time after which a workspace stops if its start failed. With 0h, never.',
  },
  'dormancy-threshold': {
    type: 'duration',
    default: '0h',
    description: 'Time without use after which a workspace becomes dormant. With 0h, never.',
  },
  'dormancy-auto-deletion': {
    type: 'duration',
    default: '0h',
    description: 'Time after which a dormant workspace is deleted. With 0h, never.',
  },
  'require-active-version': {
    type: 'bool',
    description: 'Require the active template version when a workspace starts.',
  },
  private: { type: 'bool', description: 'Hide the template from all users except those it is shared with.' },
} as const satisfies FlagDefs;
