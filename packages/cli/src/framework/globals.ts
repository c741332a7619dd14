import type { FlagDefs } from './types.ts';

export const DEFAULT_CONFIG_DIR = '~/.config/coderv2';

/** The flags of every command. */
export const globalFlags = {
  url: { type: 'url', env: 'CODER_URL', description: 'URL of the server. Default: the one you logged in to.' },
  token: { type: 'string', env: 'CODER_SESSION_TOKEN', description: 'Session token to use instead of the stored one.' },
  'debug-options': {
    type: 'bool',
    description: 'Print the arguments and options as JSON instead of running the command.',
  },
  'no-version-warning': {
    type: 'bool',
    env: 'CODER_NO_VERSION_WARNING',
    description: 'Do not warn when the versions of client and server differ.',
  },
  'no-feature-warning': {
    type: 'bool',
    env: 'CODER_NO_FEATURE_WARNING',
    description: "Do not warn about features that the server's license does not include.",
  },
  header: {
    type: 'string[]',
    pairs: true,
    env: 'CODER_HEADER',
    description: 'HTTP header to add to every request, as name=value. May be repeated.',
  },
  'header-command': {
    type: 'string',
    env: 'CODER_HEADER_COMMAND',
    description: 'Command that prints HTTP headers to add to every request, as one name=value per line.',
  },
  'client-tls-ca-file': {
    type: 'string',
    env: 'CODER_CLIENT_TLS_CA_FILE',
    description:
      'PEM file with the certificate authorities to trust. Default: those of Node.js and of NODE_EXTRA_CA_CERTS.',
  },
  'client-tls-cert-file': {
    type: 'string',
    env: 'CODER_CLIENT_TLS_CERT_FILE',
    description: 'PEM file with the client certificate for servers and relays that require one.',
  },
  'client-tls-key-file': {
    type: 'string',
    env: 'CODER_CLIENT_TLS_KEY_FILE',
    description: 'PEM file with the private key of the client certificate, without a passphrase.',
  },
  'force-tty': {
    type: 'bool',
    env: 'CODER_FORCE_TTY',
    description: 'Ask questions even if input and output are not a terminal.',
  },
  verbose: { type: 'bool', short: 'v', env: 'CODER_VERBOSE', description: 'Print debug output.' },
  'disable-direct-connections': {
    type: 'bool',
    env: 'CODER_DISABLE_DIRECT_CONNECTIONS',
    description:
      'Connect only through servers, workspace proxies and relays. Without it, connections that last go directly to the ' +
      'agent where that is faster.',
  },
  'connection-region': {
    type: 'string',
    env: 'CODER_CONNECTION_REGION',
    description:
      'Workspace proxy for connections that last: its name, or primary for none. Default: the fastest one, where it is ' +
      'faster than the server.',
  },
  'disable-network-telemetry': {
    type: 'bool',
    env: 'CODER_DISABLE_NETWORK_TELEMETRY',
    description: 'Do not send statistics about connections. Has no effect: this program sends none.',
  },
  'global-config': {
    type: 'string',
    env: 'CODER_CONFIG_DIR',
    default: DEFAULT_CONFIG_DIR,
    description: 'Directory for the configuration and the stored session token.',
  },
  'use-keyring': {
    type: 'bool',
    env: 'CODER_USE_KEYRING',
    description:
      'Store the session token in the keyring of the system when you log in, instead of a file. On Linux this needs ' +
      'secret-tool and a desktop with a keyring. Not on Windows. No effect with --global-config.',
  },
  'agent-token': { type: 'string', env: 'CODER_AGENT_TOKEN', hidden: true },
  'agent-token-file': { type: 'string', env: 'CODER_AGENT_TOKEN_FILE', hidden: true },
  'agent-url': { type: 'url', env: 'CODER_AGENT_URL', hidden: true },
  'no-open': { type: 'bool', env: 'CODER_NO_OPEN', hidden: true },
  'debug-http': { type: 'bool', hidden: true },
  version: { type: 'bool', hidden: true },
  help: { type: 'bool', short: 'h', description: 'Print this help.' },
} as const satisfies FlagDefs;

export type GlobalFlags = typeof globalFlags;

/** The flags that may stand between the names of a command: `coder templates -O acme list`, `coder exp sync --socket-path s list`. */
export const flagsBetweenNames: FlagDefs = {
  ...globalFlags,
  org: { type: 'string', short: 'O', env: 'CODER_ORGANIZATION' },
  'socket-path': { type: 'string', env: 'CODER_AGENT_SOCKET_PATH' },
};
