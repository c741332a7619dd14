import { existsSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { uuidText } from '@ropewalk/wire/uuid';
import type { Project } from './command.ts';
import { safeName } from './customizations.ts';
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

/** The dev containers that the agent knows, by id. Their names are unique. */
export class KnownDevcontainers {
  readonly #byId = new Map<string, Known>();

  get all(): Known[] {
    return [...this.#byId.values()];
  }

  get(id: string): Known | undefined {
    return this.#byId.get(id);
  }

  /** The dev container of a project. One that has no configuration path yet gets it. */
  ofProject({ workspaceFolder, configPath }: Project): Known | undefined {
    const same = this.all.filter((one) => one.workspaceFolder === workspaceFolder);
    const found = same.find((one) => one.configPath === configPath) ?? same.find((one) => one.configPath === '');
    if (found && found.configPath === '') found.configPath = configPath;
    return found;
  }

  /** Adds a project's dev container. Without a name it gets the folder's. */
  add(project: Project, origin: Known['origin'], given?: { id: string; name: string }): Known {
    const id = given?.id ?? crypto.randomUUID();
    const one: Known = {
      ...project,
      id,
      name: this.#freeName(given?.name || safeName(basename(project.workspaceFolder))),
      origin,
      work: '',
      error: '',
      ignored: false,
      retryAt: Number.NEGATIVE_INFINITY,
    };
    this.#byId.set(id, one);
    return one;
  }

  delete(id: string): void {
    this.#byId.delete(id);
  }

  /** The name, with a number if another dev container has it. */
  #freeName(base: string): string {
    const taken = new Set(this.all.map((one) => one.name));
    const names = [base, ...Array.from({ length: taken.size }, (_, i) => `${base}-${i + 2}`)];
    return names.find((candidate) => !taken.has(candidate)) ?? base;
  }
}

/** A dev container as the API describes it. */
export function toDevcontainer(one: Known): Devcontainer {
  const { id, name, workspaceFolder, configPath, container, work, error, subAgent, prepared } = one;
  const running = container?.running === true && work !== 'removing';
  return {
    id,
    name,
    workspace_folder: workspaceFolder,
    ...(configPath === '' ? {} : { config_path: configPath }),
    ...(prepared ? { subagent_id: uuidText(prepared) } : {}),
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
