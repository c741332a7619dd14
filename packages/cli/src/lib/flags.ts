/** Flags that several commands share. */
export const yesFlag = {
  yes: { type: 'bool', short: 'y', description: 'Answer every question with yes.' },
} as const;

/** Of every command that starts a build. */
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
