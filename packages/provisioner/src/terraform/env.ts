import { createHash } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import type { Logger } from '@platform/kit';
import type { ExternalAuthProvider, Metadata, RichParameterValue } from '@platform/wire/proto/provisioner';
import { PrebuiltWorkspaceBuildStage, WorkspaceTransition } from '@platform/wire/proto/provisioner';

export type Env = Record<string, string>;

/** The SHA-256 in hex. Names of variables contain it instead of a parameter's name, which may have any character. */
export function hashed(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

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

export interface ProviderInput {
  metadata: Metadata;
  /** Absent for a saved plan, as upstream. */
  parameters?: readonly RichParameterValue[];
  previousParameters?: readonly RichParameterValue[];
  externalAuth?: readonly ExternalAuthProvider[];
  /** `<os>_<arch>` → bootstrap script. */
  initScripts: Record<string, string>;
}

const TRANSITIONS: Record<WorkspaceTransition, string> = {
  [WorkspaceTransition.START]: 'start',
  [WorkspaceTransition.STOP]: 'stop',
  [WorkspaceTransition.DESTROY]: 'destroy',
};

/** Upstream's variables that describe the workspace, its owner, parameters and tokens to the provider. */
export function providerEnv(input: ProviderInput): Env {
  const m = input.metadata;
  const roles = m.workspaceOwnerRbacRoles.map((role) => ({
    ...(role.name ? { name: role.name } : {}),
    ...(role.orgId ? { org_id: role.orgId } : {}),
  }));
  const env: Env = {
    CODER_AGENT_URL: m.coderUrl,
    CODER_WORKSPACE_TRANSITION: TRANSITIONS[m.workspaceTransition] ?? 'start',
    CODER_WORKSPACE_NAME: m.workspaceName,
    CODER_WORKSPACE_ID: m.workspaceId,
    CODER_WORKSPACE_BUILD_ID: m.workspaceBuildId,
    CODER_WORKSPACE_OWNER: m.workspaceOwner,
    CODER_WORKSPACE_OWNER_ID: m.workspaceOwnerId,
    CODER_WORKSPACE_OWNER_EMAIL: m.workspaceOwnerEmail,
    CODER_WORKSPACE_OWNER_NAME: m.workspaceOwnerName,
    CODER_WORKSPACE_OWNER_LOGIN_TYPE: m.workspaceOwnerLoginType,
    CODER_WORKSPACE_OWNER_GROUPS: m.workspaceOwnerGroups.length ? JSON.stringify(m.workspaceOwnerGroups) : 'null',
    CODER_WORKSPACE_OWNER_RBAC_ROLES: roles.length ? JSON.stringify(roles) : 'null',
    CODER_WORKSPACE_OWNER_OIDC_ACCESS_TOKEN: m.workspaceOwnerOidcAccessToken,
    CODER_WORKSPACE_OWNER_SESSION_TOKEN: m.workspaceOwnerSessionToken,
    CODER_WORKSPACE_OWNER_SSH_PUBLIC_KEY: m.workspaceOwnerSshPublicKey,
    CODER_WORKSPACE_OWNER_SSH_PRIVATE_KEY: m.workspaceOwnerSshPrivateKey,
    CODER_WORKSPACE_TEMPLATE_ID: m.templateId,
    CODER_WORKSPACE_TEMPLATE_NAME: m.templateName,
    CODER_WORKSPACE_TEMPLATE_VERSION: m.templateVersion,
  };
  const stage = m.prebuiltWorkspaceBuildStage;
  if (stage === PrebuiltWorkspaceBuildStage.CREATE) env['CODER_WORKSPACE_IS_PREBUILD'] = 'true';
  if (stage === PrebuiltWorkspaceBuildStage.CLAIM) env['CODER_WORKSPACE_IS_PREBUILD_CLAIM'] = 'true';
  const tokens = m.runningAgentAuthTokens;
  for (const { agentId, token } of tokens)
    env[`CODER_RUNNING_WORKSPACE_AGENT_TOKEN_${hashed(tokens.length === 1 ? '' : agentId)}`] = token;
  for (const [platform, script] of Object.entries(input.initScripts)) env[`CODER_AGENT_SCRIPT_${platform}`] = script;
  for (const { name, value } of input.parameters ?? []) env[`CODER_PARAMETER_${hashed(name)}`] = value;
  for (const { name, value } of input.previousParameters ?? []) env[`CODER_PARAMETER_PREVIOUS_${hashed(name)}`] = value;
  for (const { id, accessToken } of input.externalAuth ?? []) {
    env[`CODER_EXTERNAL_AUTH_ACCESS_TOKEN_${id}`] = accessToken;
    env[`CODER_GIT_AUTH_ACCESS_TOKEN_${id}`] = accessToken;
  }
  return env;
}
