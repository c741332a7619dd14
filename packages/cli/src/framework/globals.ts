import type { FlagDefs } from './definition.ts';

/** Flags of every command. */
export const globalFlags = {
  url: { type: 'url', env: 'CODER_URL', description: 'The URL of the server.' },
  token: { type: 'string', env: 'CODER_SESSION_TOKEN', description: 'A session token, instead of a log-in.' },
  'debug-options': { type: 'bool', description: 'Print the options that the command would run with, and end.' },
  'no-version-warning': {
    type: 'bool',
    env: 'CODER_NO_VERSION_WARNING',
    description: 'No warning when client and server have different versions.',
  },
  'no-feature-warning': {
    type: 'bool',
    env: 'CODER_NO_FEATURE_WARNING',
    description: 'No warning about features the server is not entitled to.',
  },
  header: {
    type: 'string[]',
    env: 'CODER_HEADER',
    description: 'A header, as name=value, for every request. May be given more than once.',
  },
  'header-command': {
    type: 'string',
    env: 'CODER_HEADER_COMMAND',
    description: 'A command that prints more headers, as name=value on a line each.',
  },
  'force-tty': { type: 'bool', env: 'CODER_FORCE_TTY', description: 'Behave as in a terminal.' },
  verbose: { type: 'bool', short: 'v', env: 'CODER_VERBOSE', description: 'Print more.' },
  'disable-direct-connections': {
    type: 'bool',
    env: 'CODER_DISABLE_DIRECT_CONNECTIONS',
    description: 'Reach workspaces through the server only, which is always so here.',
  },
  'disable-network-telemetry': {
    type: 'bool',
    env: 'CODER_DISABLE_NETWORK_TELEMETRY',
    description: 'Send no figures about connections, which is always so here.',
  },
  'global-config': {
    type: 'string',
    env: 'CODER_CONFIG_DIR',
    default: '~/.config/coderv2',
    description: 'The directory of the configuration.',
  },
  'agent-token': { type: 'string', env: 'CODER_AGENT_TOKEN', hidden: true },
  'agent-token-file': { type: 'string', env: 'CODER_AGENT_TOKEN_FILE', hidden: true },
  'agent-url': { type: 'url', env: 'CODER_AGENT_URL', hidden: true },
  'no-open': { type: 'bool', env: 'CODER_NO_OPEN', hidden: true },
  'debug-http': { type: 'bool', hidden: true },
  version: { type: 'bool', hidden: true },
  help: { type: 'bool', short: 'h', description: 'Print help, and end.' },
} as const satisfies FlagDefs;

export type GlobalFlags = typeof globalFlags;
