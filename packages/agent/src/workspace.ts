import { tmpdir } from 'node:os';
import { type Account, currentAccount, scriptBinDir, userEnvironment, workingDirectory } from './environment.ts';
import type { AgentOptions } from './options.ts';
import type { Manifest } from './wire-types.ts';

/** A program to start. */
export interface ProcessSpec {
  file: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
}

/** By these programs know that they are run from afar. Where the person is nobody here knows: as published. */
const FROM_AFAR = { SSH_CLIENT: '0.0.0.0 0 0', SSH_CONNECTION: '0.0.0.0 0 0.0.0.0 0' };

/** What the processes of a workspace share: who runs them, with what environment, and where. */
export interface Workspace {
  readonly options: AgentOptions;
  readonly account: Account;
  readonly manifest: Manifest;
  environment(extra?: NodeJS.ProcessEnv): Record<string, string>;
  directory(env: NodeJS.ProcessEnv): string;
  /** What every way in runs alike: a command by the person's shell, or without one a login shell. */
  session(command: string | undefined, extra?: NodeJS.ProcessEnv): ProcessSpec;
}

export function createWorkspace(options: AgentOptions, token: string, manifest: Manifest): Workspace {
  const account = currentAccount(options.env ?? process.env);
  const binDir = scriptBinDir(options, tmpdir());
  const environment = (extra?: NodeJS.ProcessEnv) =>
    userEnvironment({ options, account, token, manifest, binDir }, extra);
  const directory = (env: NodeJS.ProcessEnv) => workingDirectory(manifest, account, env);
  return {
    options,
    account,
    manifest,
    environment,
    directory,
    session(command, extra) {
      const env = environment({ ...FROM_AFAR, ...extra });
      const args = command === undefined ? ['-l'] : ['-c', command];
      return { file: account.shell, args, env, cwd: directory(env) };
    },
  };
}
