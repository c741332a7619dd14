import { tmpdir } from 'node:os';
import { type Account, currentAccount, scriptBinDir, userEnvironment, workingDirectory } from './environment.ts';
import type { AgentOptions } from './options.ts';
import { secretVariables } from './secrets.ts';
import type { Manifest } from './wire-types.ts';

/** A program to start. */
export interface ProcessSpec {
  file: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
}

/**
 * Variables from which programs see that they run remotely. The agent does not know the client's address, so it uses
 * upstream's placeholders.
 */
const FROM_AFAR = { SSH_CLIENT: '0.0.0.0 0 0', SSH_CONNECTION: '0.0.0.0 0 0.0.0.0 0' };

/** What the processes of a workspace share: account, environment and directory. */
export interface Workspace {
  readonly options: AgentOptions;
  readonly account: Account;
  /** Without secrets. */
  readonly manifest: Manifest;
  /** Replaces the secrets for the processes that start from now on. */
  setSecrets(secrets: Manifest['secrets']): void;
  environment(extra?: NodeJS.ProcessEnv): Record<string, string>;
  directory(env: NodeJS.ProcessEnv): string;
  /**
   * Returns the program of a session, the same for SSH and terminals: a command in the user's shell, or a login shell
   * without a command.
   */
  session(command: string | undefined, extra?: NodeJS.ProcessEnv): ProcessSpec;
}

export function createWorkspace(
  options: AgentOptions,
  token: string,
  manifest: Manifest,
  socketPath?: string,
): Workspace {
  const account = currentAccount(options.env ?? process.env);
  const binDir = scriptBinDir(options, tmpdir());
  let secrets: Record<string, string> = {};
  const environment = (extra?: NodeJS.ProcessEnv) =>
    userEnvironment({ options, account, token, manifest, secrets, binDir, socketPath }, extra);
  const directory = (env: NodeJS.ProcessEnv) => workingDirectory(manifest, account, env);
  return {
    options,
    account,
    manifest,
    setSecrets(values) {
      secrets = secretVariables(values);
    },
    environment,
    directory,
    session(command, extra) {
      const env = environment({ ...FROM_AFAR, ...extra });
      const args = command === undefined ? ['-l'] : ['-c', command];
      return { file: account.shell, args, env, cwd: directory(env) };
    },
  };
}
