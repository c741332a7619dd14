import * as externalAuth from './data-sources/external-auth/index.ts';
import * as parameter from './data-sources/parameter/index.ts';
import * as provisioner from './data-sources/provisioner/index.ts';
import * as scriptOrder from './data-sources/script-order/index.ts';
import * as secret from './data-sources/secret/index.ts';
import * as task from './data-sources/task/index.ts';
import * as workspace from './data-sources/workspace/index.ts';
import * as workspaceOwner from './data-sources/workspace-owner/index.ts';
import * as workspacePreset from './data-sources/workspace-preset/index.ts';
import * as workspaceTags from './data-sources/workspace-tags/index.ts';
import * as agent from './resources/agent/index.ts';
import * as agentInstance from './resources/agent-instance/index.ts';
import * as aiTask from './resources/ai-task/index.ts';
import * as app from './resources/app/index.ts';
import * as devcontainer from './resources/devcontainer/index.ts';
import * as env from './resources/env/index.ts';
import * as externalAgent from './resources/external-agent/index.ts';
import * as metadata from './resources/metadata/index.ts';
import * as script from './resources/script/index.ts';
import type { DataSource, ResourceType } from './types.ts';

/**
 * Listed one by one, not read from disk: the release is a single executable. A test compares the list with the folders.
 */
export const resources: Readonly<Record<string, ResourceType>> = {
  coder_agent: agent.resource,
  coder_agent_instance: agentInstance.resource,
  coder_ai_task: aiTask.resource,
  coder_app: app.resource,
  coder_devcontainer: devcontainer.resource,
  coder_env: env.resource,
  coder_external_agent: externalAgent.resource,
  coder_metadata: metadata.resource,
  coder_script: script.resource,
};

export const dataSources: Readonly<Record<string, DataSource>> = {
  coder_external_auth: externalAuth.dataSource,
  coder_parameter: parameter.dataSource,
  coder_provisioner: provisioner.dataSource,
  coder_script_order: scriptOrder.dataSource,
  coder_secret: secret.dataSource,
  coder_task: task.dataSource,
  coder_workspace: workspace.dataSource,
  coder_workspace_owner: workspaceOwner.dataSource,
  coder_workspace_preset: workspacePreset.dataSource,
  coder_workspace_tags: workspaceTags.dataSource,
};
