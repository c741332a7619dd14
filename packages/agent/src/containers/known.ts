import { existsSync, statSync } from 'node:fs';
import type { Project } from './command.ts';
import type { SubAgent } from './sub-agent.ts';
import type { Container, Devcontainer } from './types.ts';

/** A dev container that the agent knows, with its container and its sub-agent. */
export interface Known extends Project {
  id: string;
  name: string;
  origin: 'declared' | 'discovered' | 'found';
  logSource?: Uint8Array;
  /** The sub-agent that the build created. It has the apps and scripts that the template gives it. */
  prepared?: Uint8Array;
  /** What is being done to its container now. */
  work: '' | 'starting' | 'removing';
  /** A start that goes on: its end, and what cancels it. */
  start?: { ended: Promise<unknown>; cancel: () => void };
  error: string;
  container?: Container;
  /** The customizations say that the agent leaves it alone. */
  ignored: boolean;
  subAgent?: SubAgent;
  /** A sub-agent that is being started or ended. */
  busy?: Promise<void>;
  /** The container that the sub-agent belongs to. */
  subAgentOf?: string;
  retryAt: number;
}

/** A dev container as the API describes it. */
export function toDevcontainer(one: Known): Devcontainer {
  const { id, name, workspaceFolder, configPath, container, work, error, subAgent } = one;
  const running = container?.running === true && work !== 'removing';
  return {
    id,
    name,
    workspace_folder: workspaceFolder,
    ...(configPath === '' ? {} : { config_path: configPath }),
    status: work === 'starting' ? 'starting' : running ? 'running' : error !== '' ? 'error' : 'stopped',
    dirty: container !== undefined && isNewer(configPath, container),
    ...(container ? { container } : {}),
    ...(subAgent ? { agent: { id: subAgent.id, name: subAgent.name, directory: subAgent.directory } } : {}),
    ...(error === '' ? {} : { error }),
  };
}

/** Whether a configuration was written after the container was created from it. */
function isNewer(configPath: string, { created_at: created }: Container): boolean {
  if (configPath === '' || !existsSync(configPath)) return false;
  return statSync(configPath).mtimeMs > Date.parse(created);
}
