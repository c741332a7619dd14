import { tmpdir } from 'node:os';
import { type Account, currentAccount, scriptBinDir, userEnvironment, workingDirectory } from './environment.ts';
import type { AgentOptions } from './options.ts';
import type { Manifest } from './wire-types.ts';

/** What the processes of a workspace share: who runs them, with what environment, and where. */
export interface Workspace {
  readonly options: AgentOptions;
  readonly account: Account;
  readonly manifest: Manifest;
  environment(extra?: NodeJS.ProcessEnv): Record<string, string>;
  directory(env: NodeJS.ProcessEnv): string;
}

export function createWorkspace(options: AgentOptions, token: string, manifest: Manifest): Workspace {
  const account = currentAccount(options.env ?? process.env);
  const binDir = scriptBinDir(options, tmpdir());
  return {
    options,
    account,
    manifest,
    environment: (extra) => userEnvironment({ options, account, token, manifest, binDir }, extra),
    directory: (env) => workingDirectory(manifest, account, env),
  };
}
