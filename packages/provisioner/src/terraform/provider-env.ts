import { createHash } from 'node:crypto';
import type { ExternalAuthProvider, Metadata, RichParameterValue } from '@ropewalk/wire/proto/provisioner';
import { PrebuiltWorkspaceBuildStage, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import type { Env } from './env.ts';

/** The SHA-256 in hex. Names of variables contain it instead of a parameter's name, which may have any character. */
export function hashed(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

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
  if (m.taskId !== '') {
    env['CODER_TASK_ID'] = m.taskId;
    env['CODER_TASK_PROMPT'] = m.taskPrompt;
  }
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
