import { createHash } from 'node:crypto';
import { accessSync, constants } from 'node:fs';
import type { Logger } from '@platform/kit';
import type { ExternalAuthProvider, Metadata, RichParameterValue } from '@platform/wire/proto/provisioner';
import { PrebuiltWorkspaceBuildStage, WorkspaceTransition } from '@platform/wire/proto/provisioner';

export type Env = Record<string, string>;

/** Hex SHA-256: parameter names in variable names are hashed, since they may hold any character. */
export function hashed(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/**
 * What terraform may inherit: everything but the platform's own variables, Postgres's, and any whose value is
 * one of the given secrets. Cloud credentials, proxies and `TF_*` pass, because templates need them, but for the folder
 * that each build has of its own.
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
 * Without a TF_CLI_CONFIG_FILE that cannot be read: Terraform would print a warning about it in every log.
 * Says so once.
 */
export function withReadableConfig(env: Env, log: Pick<Logger, 'warn'>): Env {
  const { TF_CLI_CONFIG_FILE: path, ...rest } = env;
  if (!path) return env;
  try {
    accessSync(path, constants.R_OK);
    return env;
  } catch (err) {
    log.warn('TF_CLI_CONFIG_FILE is not passed on to Terraform: the file cannot be read', {
      path,
      reason: (err as NodeJS.ErrnoException).code,
    });
    return rest;
  }
}

/**
 * Always set for terraform: no phoning home, messages meant for a program, and the workspace whose state file the daemon
 * reads, whatever an archive or the machine selects.
 */
export const TERRAFORM_ENV: Env = { CHECKPOINT_DISABLE: '1', TF_IN_AUTOMATION: '1', TF_WORKSPACE: 'default' };

export interface ProviderInput {
  metadata: Metadata;
  /** Absent when applying a saved plan, as published. */
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

/** The published variables by which a provider learns about the workspace, its owner, parameters and tokens. */
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
