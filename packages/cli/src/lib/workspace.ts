import type { Client } from '@ropewalk/client';
import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { orNotFound } from './not-found.ts';

export interface WorkspaceName {
  owner: string;
  name: string;
}

/** Splits `owner/name`. The owner of `name` alone is the caller. */
export function splitWorkspaceName(text: string): WorkspaceName {
  const parts = text.split('/');
  if (parts.length > 2 || parts.some((part) => part === '')) {
    throw new AppError('invalid', `Invalid workspace name ${JSON.stringify(text)}: write it as name or owner/name.`);
  }
  return parts.length === 2 ? { owner: parts[0]!, name: parts[1]! } : { owner: 'me', name: parts[0]! };
}

/** A workspace and the name of its agent, which may be empty. */
export interface Target {
  workspace: string;
  agent: string;
}

/** `[owner/]workspace[.agent]`. */
export function splitTarget(text: string): Target {
  const dot = text.indexOf('.', text.lastIndexOf('/') + 1);
  return dot < 0 ? { workspace: text, agent: '' } : { workspace: text.slice(0, dot), agent: text.slice(dot + 1) };
}

/**
 * Finds a workspace by `name` or `owner/name`.
 * @throws AppError `invalid` for another form, `not_found` if the user cannot see such a workspace
 */
export function findWorkspace(client: Client, text: string): Promise<Workspace> {
  const { owner, name } = splitWorkspaceName(text);
  const answer = client.call('GET /users/{user}/workspace/{workspacename}', {
    params: { user: owner, workspacename: name },
    query: { include_deleted: false },
  });
  return orNotFound(
    answer,
    `Workspace ${JSON.stringify(text)} not found, or you don't have access to it. List your workspaces with: coder list`,
  );
}

export function agentsOf(workspace: Workspace): WorkspaceAgent[] {
  return workspace.latest_build.resources.flatMap((resource) => resource.agents ?? []);
}

/** Finds an agent by name or ID. Without a name, the only agent that is not a dev container's. */
export function pickAgent(workspace: Workspace, wanted: string): WorkspaceAgent {
  const agents = agentsOf(workspace);
  const names = agents.map(({ name }) => name).join(', ');
  if (wanted !== '') {
    const found = agents.find(({ name, id }) => name === wanted || id === wanted);
    if (found) return found;
    throw new AppError(
      'not_found',
      `Agent ${JSON.stringify(wanted)} not found in ${workspace.name}. ${names ? `It has: ${names}` : 'It has no agents'}.`,
    );
  }
  const own = agents.filter(({ parent_id: parent }) => !parent);
  if (own.length === 1) return own[0]!;
  if (agents.length === 0) throw new AppError('not_found', `The workspace ${workspace.name} has no agent.`);
  throw new AppError(
    'invalid',
    `The workspace ${workspace.name} has several agents (${names}). Choose one with ${workspace.name}.<agent>.`,
  );
}
