/** Flags that several commands share, so that each has the same wording everywhere. */
export const yesFlag = {
  yes: { type: 'bool', short: 'y', description: 'Answer yes to every question.' },
} as const;

export const orgFlag = {
  org: {
    type: 'string',
    short: 'O',
    env: 'CODER_ORGANIZATION',
    description: 'Organization, by name or ID. Default: your only organization.',
  },
} as const;

/** The format that the command prints. The first one is the default. */
export function outputFlag<const V extends readonly [string, ...string[]]>(...values: V) {
  return {
    output: { type: 'string', short: 'o', default: values[0] as V[0], values, description: 'Output format.' },
  } as const;
}

export function columnFlag<const N extends string>(columns: readonly N[], defaults: readonly N[] = columns) {
  return {
    column: {
      type: 'string[]',
      short: 'c',
      default: defaults.join(','),
      description: `Columns of the table, separated by commas. Available: ${columns.join(', ')}.`,
    },
  } as const;
}

/** The flags of every list. */
export function tableFlags<const N extends string>(columns: readonly N[], defaults: readonly N[] = columns) {
  return { ...columnFlag(columns, defaults), ...outputFlag('table', 'json') } as const;
}

/** Which workspaces a list shows. */
export const workspaceSearchFlags = {
  all: { type: 'bool', short: 'a', description: 'Show the workspaces of all users.' },
  search: {
    type: 'string',
    default: 'owner:me',
    description: 'Search for workspaces, such as "status:running template:docker".',
  },
} as const;

export function limitFlag<const E extends string>(env: E) {
  return {
    limit: { type: 'int', short: 'l', env, default: '50', description: 'Maximum number of rows.' },
  } as const;
}

export function disableAutostartFlag<const E extends string>(env: E) {
  return {
    'disable-autostart': {
      type: 'bool',
      env,
      default: 'false',
      description: 'Fail instead of starting a stopped workspace.',
    },
  } as const;
}

export const waitFlag = {
  wait: {
    type: 'string',
    default: 'auto',
    values: ['yes', 'no', 'auto'],
    description: 'Whether to wait until the startup scripts have finished. With auto, the template decides.',
  },
} as const;

export const logDirFlag = {
  'log-dir': {
    type: 'string',
    short: 'l',
    description:
      'Directory for connection logs. Each connection writes one file that records when it was made, lost, resumed ' +
      'and closed. Default: no log.',
  },
} as const;

export const templateVersionFlag = {
  'template-version': {
    type: 'string',
    description: 'Template version, by name. Default: the active version.',
  },
} as const;

/** How a command inside a workspace proves that it is the workspace's agent. */
export const agentAuthFlags = {
  auth: {
    type: 'string',
    env: 'CODER_AGENT_AUTH',
    default: 'token',
    description:
      'Authentication of the agent: token, aws-instance-identity, azure-instance-identity or google-instance-identity.',
  },
  'agent-name': {
    type: 'string',
    env: 'CODER_AGENT_NAME',
    description: 'Name of the agent, for an authentication other than token on a machine with several agents.',
  },
} as const;

/** The flags of every command that starts a build. */
export const buildFlags = {
  'provisioner-log-debug': { type: 'bool', hidden: true },
  reason: {
    type: 'string',
    default: 'cli',
    values: ['cli', 'vscode_connection', 'jetbrains_connection'],
    hidden: true,
  },
} as const;

export interface BuildFlagValues {
  'provisioner-log-debug': boolean;
  reason: string;
}
