import type { ExternalAgentCredentials } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { externalAgents } from '../../db/queries/agents.ts';
import type { Ctx } from '../context/context.ts';
import { findWorkspace, mayUnshared } from '../find/workspace.ts';
import { EXECUTABLES } from './executables.ts';

/**
 * The token of an agent that a person starts, and the command for it. The token acts as the agent, which reads its owner's
 * secrets, so only people who may connect to the workspace without its being shared get it.
 * @throws AppError `not_found` without such an agent in the latest build, `precondition` if no executable is for it
 */
export async function externalAgentCredentials(
  ctx: Ctx,
  workspaceId: string,
  name: string,
): Promise<ExternalAgentCredentials> {
  const workspace = await findWorkspace(ctx, 'ssh', workspaceId);
  if (!mayUnshared(ctx, 'ssh', workspace))
    throw new AppError('forbidden', 'Forbidden.', { detail: `Only ${workspace.owner_name} can start the agent.` });
  const agents = await externalAgents(ctx.sql, workspace);
  if (agents.length === 0) throw new AppError('not_found', 'Workspace does not have an external agent.');
  const agent = agents.find((one) => one.name === name);
  if (!agent) throw new AppError('not_found', `External agent '${name}' not found in workspace.`);
  if (agent.auth_instance_id !== null)
    throw new AppError('not_found', 'External agent is authenticated with an instance ID.');
  return { agent_token: agent.auth_token, command: commandOf(ctx.accessUrl, agent) };
}

type Machine = Awaited<ReturnType<typeof externalAgents>>[number];

/** A build chooses both names. Only known ones enter a command that people copy into a shell. */
function executableFor({ operating_system, architecture }: Machine): (typeof EXECUTABLES)[number] {
  const found = EXECUTABLES.find(([os, arch]) => os === operating_system && arch === architecture);
  if (found) return found;
  const system = `${JSON.stringify(operating_system)} on ${JSON.stringify(architecture)}`;
  throw new AppError('precondition', `No agent executable exists for ${system}.`, {
    detail: `Set the agent's os and arch in the template to one of ${EXECUTABLES.map((one) => one.join(' and ')).join(', ')}.`,
  });
}

function commandOf(accessUrl: string, agent: Machine): string {
  const [os, architecture] = executableFor(agent);
  const program = `${accessUrl}/bin/coder-${os}-${architecture}`;
  const { auth_token: token } = agent;
  if (os === 'windows') {
    const variables = `$env:CODER_AGENT_URL="${accessUrl}/"; $env:CODER_AGENT_TOKEN="${token}"`;
    return `${variables}; iwr -useb "${program}.exe" -OutFile coder.exe; .\\coder.exe agent`;
  }
  const variables = `CODER_AGENT_URL="${accessUrl}/" CODER_AGENT_TOKEN="${token}"`;
  return `curl -fsSL "${program}" -o coder && chmod +x coder && ${variables} ./coder agent`;
}
