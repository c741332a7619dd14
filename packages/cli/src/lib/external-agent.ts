// Agents that people start on machines which the template does not create: those of a resource `coder_external_agent`.

import type { Client } from '@ropewalk/client';
import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { splitWorkspaceName } from './workspace.ts';

const EXTERNAL_AGENT = 'coder_external_agent';

/** An agent and the command that starts it. The names are those of upstream's JSON. */
export interface ExternalAgent {
  workspace_name: string;
  agent_name: string;
  auth_type: 'token';
  auth_token: string;
  init_script: string;
}

export const externalAgentsOf = ({ latest_build: { resources } }: Workspace): WorkspaceAgent[] =>
  resources.filter(({ type }) => type === EXTERNAL_AGENT).flatMap(({ agents = [] }) => agents);

export async function externalAgent(client: Client, { id, name }: Workspace, agent: string): Promise<ExternalAgent> {
  const answer = await client.call('GET /workspaces/{workspace}/external-agent/{agent}/credentials', {
    params: { workspace: id, agent },
  });
  return {
    workspace_name: name,
    agent_name: agent,
    auth_type: 'token',
    auth_token: answer.agent_token,
    init_script: answer.command,
  };
}

/** What a person does to connect these agents of one workspace. */
export function instructionsText(workspace: string, agents: readonly ExternalAgent[]): string {
  const [first, ...others] = agents;
  if (!first) return '';
  if (others.length === 0)
    return `Run this command on the machine that becomes the workspace ${workspace}:\n\n${first.init_script}`;
  const commands = agents.map((one) => `Agent ${one.agent_name}:\n${one.init_script}`);
  return `Run these commands on the machines that become the workspace ${workspace}:\n\n${commands.join('\n\n')}`;
}

/** The command that prints the instructions of a workspace, with the caller's name for it. */
export function instructionsCommand(workspace: string): string {
  const { owner, name } = splitWorkspaceName(workspace);
  return `coder external-workspaces agent-instructions ${owner === 'me' ? name : workspace}`;
}
