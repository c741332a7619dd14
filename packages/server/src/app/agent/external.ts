import type { ExternalAgentCredentials } from '@platform/contract';
import { AppError } from '@platform/kit';
import { externalAgents } from '../../db/queries/agents.ts';
import type { Ctx } from '../context.ts';
import { findWorkspace } from '../workspace/find.ts';

/**
 * The token of an agent that a person starts, and the command for it. The token acts as the agent, so only people who may
 * connect to the workspace get it.
 * @throws AppError `not_found` without such an agent in the latest build
 */
export async function externalAgentCredentials(
  ctx: Ctx,
  workspaceId: string,
  name: string,
): Promise<ExternalAgentCredentials> {
  const workspace = await findWorkspace(ctx, 'ssh', workspaceId);
  const agents = await externalAgents(ctx.sql, workspace);
  if (agents.length === 0) throw new AppError('not_found', 'Workspace does not have an external agent.');
  const agent = agents.find((one) => one.name === name);
  if (!agent) throw new AppError('not_found', `External agent '${name}' not found in workspace.`);
  if (agent.auth_instance_id !== null)
    throw new AppError('not_found', 'External agent is authenticated with an instance ID.');
  return { agent_token: agent.auth_token, command: commandOf(ctx.accessUrl, agent) };
}

type Machine = Awaited<ReturnType<typeof externalAgents>>[number];

function commandOf(accessUrl: string, { operating_system: os, architecture, auth_token: token }: Machine): string {
  const program = `${accessUrl}/bin/coder-${os}-${architecture}`;
  if (os === 'windows') {
    const variables = `$env:CODER_AGENT_URL="${accessUrl}/"; $env:CODER_AGENT_TOKEN="${token}"`;
    return `${variables}; iwr -useb "${program}.exe" -OutFile coder.exe; .\\coder.exe agent`;
  }
  const variables = `CODER_AGENT_URL="${accessUrl}/" CODER_AGENT_TOKEN="${token}"`;
  return `curl -fsSL "${program}" -o coder && chmod +x coder && ${variables} ./coder agent`;
}
