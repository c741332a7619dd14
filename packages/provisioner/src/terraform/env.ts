import { accessSync, constants } from 'node:fs';
import type { Logger } from '@ropewalk/kit';

export type Env = Record<string, string>;

/**
 * The variables that terraform may inherit: all except the platform's, Postgres's, and those whose value is one of the
 * given secrets. Templates need cloud credentials, proxies and `TF_*`, so these remain, except TF_DATA_DIR, because
 * each build has its own data folder.
 */
export function inheritedEnv(env: NodeJS.ProcessEnv, secretValues: readonly string[] = []): Env {
  const secrets = new Set(secretValues.filter((value) => value !== ''));
  const out: Env = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || secrets.has(value)) continue;
    if (/^(CODER_|PG|TF_REATTACH_PROVIDERS$|TF_DATA_DIR$)/i.test(name)) continue;
    out[name] = value;
  }
  return out;
}

/**
 * Removes a TF_CLI_CONFIG_FILE that cannot be read and logs that once. With it, Terraform would print a warning in
 * every log.
 */
export function withReadableConfig(env: Env, log: Pick<Logger, 'warn'>): Env {
  const { TF_CLI_CONFIG_FILE: path, ...rest } = env;
  if (!path) return env;
  try {
    accessSync(path, constants.R_OK);
    return env;
  } catch (err) {
    log.warn('ignoring TF_CLI_CONFIG_FILE: cannot read the file', {
      path,
      reason: (err as NodeJS.ErrnoException).code,
    });
    return rest;
  }
}

/**
 * Variables that the daemon always sets: no check for updates, messages for a program, and the Terraform workspace
 * whose state file the daemon reads, even if an archive or the machine selects another.
 */
export const TERRAFORM_ENV: Env = { CHECKPOINT_DISABLE: '1', TF_IN_AUTOMATION: '1', TF_WORKSPACE: 'default' };
