// Sessions in a container of a workspace.

import type { Client } from '@ropewalk/client';
import type { WorkspaceAgent, WorkspaceAgentContainer } from '@ropewalk/contract';
import { containerCommand } from '@ropewalk/kit/container-command';
import { AppError } from '@ropewalk/kit/errors';

export interface ContainerSession {
  /** The agent to connect to: that of the workspace, or the one that runs in the container. */
  agentId: string;
  /** The command to run there. Undefined for a login shell. */
  command: string | undefined;
}

export interface ContainerOptions {
  /** The name of a container or dev container, or the beginning of a container's ID. */
  container: string;
  /** Empty: the container's own user. */
  user: string;
  command: string | undefined;
  env: Readonly<Record<string, string>>;
  /** Whether the session has a terminal. */
  tty: boolean;
}

/** So that `a` does not mean whichever container has an ID with it. */
const LEAST_ID = 4;

/**
 * Finds how to run a command in a running container. A dev container with an agent is entered through that agent, and any
 * other, or with a user, by `docker exec` in the workspace.
 * @throws AppError `not_found` with the names of the containers that there are
 */
export async function containerSession(
  client: Client,
  agent: WorkspaceAgent,
  { container: wanted, user, command, env, tty }: ContainerOptions,
): Promise<ContainerSession> {
  const { containers, devcontainers } = await client.call('GET /workspaceagents/{workspaceagent}/containers', {
    params: { workspaceagent: agent.id },
    query: {},
  });
  const running = containers.filter((one) => one.running);
  const dev = devcontainers.find((one) => one.name === wanted || one.container?.name === wanted);
  const found = dev?.container?.running ? dev.container : matching(running, wanted);
  if (!found) {
    const names = [...new Set([...devcontainers.flatMap(nameOf), ...running.map(({ name }) => name)])];
    throw new AppError(
      'not_found',
      `Container ${JSON.stringify(wanted)} not found. ` +
        (names.length > 0 ? `These run in the workspace: ${names.join(', ')}.` : 'No container runs in the workspace.'),
    );
  }
  const inside = devcontainers.find((one) => one.container?.id === found.id)?.agent;
  if (inside && user === '') return { agentId: inside.id, command };
  // the shell of the workspace reads it, whatever runs the CLI
  return { agentId: agent.id, command: containerCommand({ container: found.id, user, command, env, tty }) };
}

const nameOf = ({ name, container }: { name: string; container?: WorkspaceAgentContainer }): string[] =>
  container?.running ? [name] : [];

const matching = (running: readonly WorkspaceAgentContainer[], wanted: string): WorkspaceAgentContainer | undefined =>
  running.find(({ name }) => name === wanted) ??
  running.find(({ id }) => wanted.length >= LEAST_ID && id.startsWith(wanted));
