import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@ropewalk/client';
import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { ToolContext } from '../tool.ts';

const POLL_MS = 1_000;

export interface Target {
  owner: string;
  workspace: string;
  /** Empty: the only agent. */
  agent: string;
}

/**
 * Reads `[owner/]workspace[.agent]`, `owner--workspace[.agent]` or `agent.workspace.owner`. The owner is `me` by default.
 * @throws AppError `invalid`
 */
export function parseTarget(input: string): Target {
  const dots = input.split('.');
  if (dots.length === 3 && !/\/|--/.test(input)) {
    const [agent, workspace, owner] = dots as [string, string, string];
    return checked(input, { owner, workspace, agent });
  }
  const parts = input.replaceAll('--', '/').split('/');
  if (parts.length > 2) throw invalidTarget(input);
  const [workspace, ...agent] = parts.at(-1)!.split('.');
  const owner = parts.length === 2 ? parts[0]! : 'me';
  return checked(input, { owner, workspace: workspace!, agent: agent.join('.') });
}

function checked(input: string, target: Target): Target {
  const { owner, workspace, agent } = target;
  if (owner === '' || workspace === '' || (input.includes('.') && agent === '')) throw invalidTarget(input);
  return target;
}

const invalidTarget = (input: string) =>
  new AppError(
    'invalid',
    `Invalid workspace ${JSON.stringify(input.slice(0, 200))}: write it as [owner/]workspace[.agent].`,
  );

const findByName = (client: Client, { owner, workspace }: Target): Promise<Workspace> =>
  client.call('GET /users/{user}/workspace/{workspacename}', {
    params: { user: owner, workspacename: workspace },
    query: { include_deleted: false },
  });

export { findByName };

/** Finds a workspace and its agent. @throws AppError `not_found` or `invalid` if the agent is not clear */
export async function findAgent(
  client: Client,
  input: string,
): Promise<{ workspace: Workspace; agent: WorkspaceAgent }> {
  const target = parseTarget(input);
  const workspace = await findByName(client, target);
  return { workspace, agent: agentOf(workspace, target.agent) };
}

function agentOf(workspace: Workspace, wanted: string): WorkspaceAgent {
  const agents = workspace.latest_build.resources.flatMap(({ agents }) => agents ?? []);
  const names = agents.map(({ name }) => name).join(', ');
  const own = wanted === '' ? agents.filter(({ parent_id: parent }) => !parent) : [];
  const found = wanted === '' ? own[0] : agents.find(({ name, id }) => name === wanted || id === wanted);
  if (found && own.length < 2) return found;
  if (agents.length === 0) throw new AppError('not_found', `The workspace ${workspace.name} has no agents.`);
  const why = wanted === '' ? 'has several agents' : `has no agent ${JSON.stringify(wanted.slice(0, 100))}`;
  throw new AppError('invalid', `The workspace ${workspace.name} ${why}. Its agents: ${names}.`);
}

/**
 * Finds an agent that is ready. Starts a stopped workspace, and waits for its build, its agent and the startup scripts.
 * @throws AppError `conflict` if the workspace cannot start, `unavailable` if its agent does not connect
 */
export async function readyAgent(ctx: ToolContext, input: string): Promise<WorkspaceAgent> {
  const { client, signal } = ctx;
  const target = parseTarget(input);
  let workspace = await findByName(client, target);
  const { status } = workspace.latest_build;
  if (['deleting', 'deleted'].includes(status))
    throw new AppError('gone', `The workspace ${workspace.name} is deleted.`);
  if (status === 'stopped') {
    await client.call('POST /workspaces/{workspace}/builds', {
      params: { workspace: workspace.id },
      body: { transition: 'start' },
    });
    workspace = await findByName(client, target);
  } else if (!['running', 'starting', 'pending'].includes(status) || workspace.latest_build.transition !== 'start') {
    throw new AppError('conflict', `The workspace ${workspace.name} is ${status}. Start it first.`);
  }
  while (['starting', 'pending'].includes(workspace.latest_build.status)) {
    await delay(POLL_MS, undefined, { signal });
    workspace = await findByName(client, target);
  }
  if (workspace.latest_build.status !== 'running') {
    const { error } = workspace.latest_build.job;
    const why = error ? `: ${error}` : '.';
    throw new AppError('conflict', `The workspace ${workspace.name} is ${workspace.latest_build.status}${why}`);
  }
  let agent = agentOf(workspace, target.agent);
  while (!isReady(agent)) {
    await delay(POLL_MS, undefined, { signal });
    agent = await client.call('GET /workspaceagents/{workspaceagent}', { params: { workspaceagent: agent.id } });
  }
  return agent;
}

/** Whether a connected agent has finished its startup. @throws AppError `unavailable` if it will not */
function isReady({ name, status, lifecycle_state: state }: WorkspaceAgent): boolean {
  if (status === 'timeout' || status === 'disconnected')
    throw new AppError('unavailable', `The agent ${name} is ${status === 'timeout' ? 'not connecting' : status}.`);
  if (['shutting_down', 'off', 'shutdown_error', 'shutdown_timeout'].includes(state))
    throw new AppError('unavailable', `The agent ${name} is shutting down.`);
  return status === 'connected' && ['ready', 'start_error', 'start_timeout'].includes(state);
}
