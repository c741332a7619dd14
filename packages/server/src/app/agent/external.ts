import type { ExternalAgentCredentials } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { filledScript, initScripts } from '@ropewalk/rules/init-scripts';
import { externalAgents } from '../../db/queries/agents.ts';
import type { Ctx, Services } from '../context/context.ts';
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

/** The command has the form of upstream's, which people and scripts recognize. */
function commandOf(accessUrl: string, agent: Machine): string {
  const [os, architecture] = executableFor(agent);
  const script = `${accessUrl}/api/v2/init-script/${os}/${architecture}`;
  const { auth_token: token } = agent;
  return os === 'windows'
    ? `$env:CODER_AGENT_TOKEN="${token}"; iwr -useb "${script}" | iex`
    : `curl -fsSL "${script}" | CODER_AGENT_TOKEN="${token}" sh`;
}

/**
 * The script that downloads and starts an agent whose token is in CODER_AGENT_TOKEN. It contains no secret.
 * @throws AppError `invalid` for an unknown operating system or architecture
 */
export function agentInitScript({ accessUrl }: Services, os: string, architecture: string): string {
  const script = ownValue(initScripts(), `${os}_${architecture}`.toLowerCase());
  if (script === undefined) throw new AppError('invalid', `Unknown os/arch: ${os}/${architecture}`);
  return filledScript(script, { url: `${accessUrl}/`, auth: 'token' });
}
