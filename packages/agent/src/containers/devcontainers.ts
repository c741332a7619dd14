/**
 * The dev containers of a workspace. A dev container is known from the template (declared), from a Git repository in the
 * agent's directory (discovered), or from a container that somebody started with the devcontainer command (found). The
 * agent starts those that are declared, follows the containers of all of them through Docker, and runs a sub-agent in
 * each that is running.
 */
import { existsSync } from 'node:fs';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { Log_Level } from '@ropewalk/wire/proto/agent';
import { uuidText } from '@ropewalk/wire/uuid';
import { expandPath } from '../environment.ts';
import type { LogSender } from '../logs.ts';
import { Notifier } from '../notifier.ts';
import type { AgentOptions } from '../options.ts';
import type { Routine } from '../wire-types.ts';
import type { Workspace } from '../workspace.ts';
import { hasCommand, MISSING_COMMAND, readConfiguration, startContainer } from './command.ts';
import { customizationsOf } from './customizations.ts';
import { discover } from './discovery.ts';
import { listContainers, removeContainer } from './docker.ts';
import { type Known, KnownDevcontainers, toDevcontainer } from './known.ts';
import { DevcontainerLogs } from './logs.ts';
import { isInstalled, type Surroundings } from './program.ts';
import { SubAgents } from './sub-agents.ts';
import type { Container, ContainerList } from './types.ts';

/** How often containers are listed, in ms, and how often while Docker does not answer. */
const LOOK_MS = 10_000;
const LOOK_WITHOUT_DOCKER_MS = 60_000;
/** How often while somebody watches the list. */
const WATCHED_MS = 3_000;
/** The least time between two searches for dev containers, in ms. */
const DISCOVER_MS = 30_000;
/** Labels that the devcontainer command puts on its containers. */
const FOLDER_LABEL = 'devcontainer.local_folder';
const CONFIG_LABEL = 'devcontainer.config_file';

export interface Devcontainers {
  setWorkspace(workspace: Workspace, token: string): void;
  /** Starts a dev container of the template. Returns an exit status. A missing command is logged, and no failure. */
  start(id: string, logSource: Uint8Array): Promise<number>;
  /** Everything that is known now. */
  list(): ContainerList;
  /** Looks for containers and dev containers once more, for somebody who wants the list. */
  refresh(): Promise<void>;
  /** Calls back after each change of the list. Returns a function that stops this. */
  onChange(listener: () => void): () => void;
  /** Builds and starts a dev container again. @throws AppError `not_found`, or `conflict` if it is starting */
  recreate(id: string): void;
  /**
   * Stops and removes the container of a dev container. Cancels its start first.
   * @throws AppError `not_found`, or `conflict` if there is nothing to remove
   */
  remove(id: string): Promise<void>;
  /** Begins to discover dev containers. Called once the start scripts have ended, which often clone repositories. */
  settled(): void;
  /** Follows containers and runs sub-agents over one connection. */
  run: Routine;
  close(): Promise<void>;
}

export interface DevcontainerOptions {
  options: AgentOptions;
  logs: LogSender;
  log: Logger;
}

export function createDevcontainers(options: DevcontainerOptions): Devcontainers {
  return new WorkspaceDevcontainers(options);
}

class WorkspaceDevcontainers implements Devcontainers {
  readonly #options: AgentOptions;
  readonly #log: Logger;
  readonly #logs: DevcontainerLogs;
  readonly #subAgents: SubAgents;
  readonly #known = new KnownDevcontainers();
  readonly #listeners = new Set<() => void>();
  readonly #due = new Notifier();
  readonly #closing = new AbortController();
  #workspace: Workspace | undefined;
  #agentId = '';
  #containers: Container[] = [];
  #warnings: string[] = [];
  /** The last list that the listeners were called for. */
  #lastList = '';
  #looking: Promise<void> | undefined;
  #isSettled = false;
  /** When the last search for dev containers began. */
  #discoveredAt = Number.NEGATIVE_INFINITY;
  /** Whether the sub-agents of an earlier process are deleted. */
  #cleaned = false;

  constructor({ options, logs, log }: DevcontainerOptions) {
    this.#options = options;
    this.#log = log;
    this.#logs = new DevcontainerLogs(options, logs, log);
    this.#subAgents = new SubAgents({
      options,
      log,
      logs: this.#logs,
      surroundings: () => this.#surroundings(),
      closing: this.#closing.signal,
      onSettled: () => {
        this.#changed();
        this.#due.notify();
      },
    });
  }

  setWorkspace(workspace: Workspace, token: string): void {
    this.#workspace = workspace;
    this.#logs.setToken(token);
    const agentId = uuidText(workspace.manifest.agentId);
    // sub-agents belong to one build of the workspace
    if (this.#agentId !== '' && this.#agentId !== agentId) {
      for (const one of this.#known.all) this.#subAgents.abandon(one);
    }
    this.#agentId = agentId;
    if (!this.#enabled) return;
    this.#declare(workspace);
    this.#changed();
  }

  /** Adds the dev containers of the template. */
  #declare(workspace: Workspace): void {
    const { manifest, account } = workspace;
    const env = workspace.environment();
    for (const declared of manifest.devcontainers) {
      const workspaceFolder = expandPath(declared.workspaceFolder, account, env);
      const configPath =
        declared.configPath === '' ? '' : expandPath(declared.configPath, account, env, workspaceFolder);
      const project = { workspaceFolder, configPath };
      const id = uuidText(declared.id);
      const one =
        this.#known.get(id) ??
        this.#known.ofProject(project) ??
        this.#known.add(project, 'declared', { id, name: declared.name });
      if (declared.subagentId) one.prepared = declared.subagentId;
      else delete one.prepared;
    }
  }

  readonly run: Routine = async (client, signal) => {
    if (!this.#enabled) return;
    if (!this.#cleaned) await this.#subAgents.deleteLeftover(client, this.#known, signal);
    this.#cleaned = true;
    this.#subAgents.setClient(client);
    try {
      for (;;) {
        await this.#look();
        const often = this.#listeners.size > 0 ? WATCHED_MS : LOOK_MS;
        await this.#due.wait(signal, this.#warnings.length > 0 ? LOOK_WITHOUT_DOCKER_MS : often);
      }
    } finally {
      this.#subAgents.setClient(undefined);
    }
  };

  list(): ContainerList {
    const devcontainers = this.#known.all.filter(({ ignored }) => !ignored).map(toDevcontainer);
    const warnings = this.#warnings;
    return { containers: this.#containers, devcontainers, ...(warnings.length > 0 ? { warnings } : {}) };
  }

  refresh(): Promise<void> {
    this.#discover();
    return this.#look();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.#due.notify();
    return () => this.#listeners.delete(listener);
  }

  settled(): void {
    this.#isSettled = true;
    this.#discover();
  }

  async start(id: string, logSource: Uint8Array): Promise<number> {
    const one = this.#known.get(id);
    if (!one) {
      this.#logs.add(
        logSource,
        Log_Level.WARN,
        'The dev container was not started: dev containers are turned off for this agent.',
      );
      return 0;
    }
    one.logSource = logSource;
    if (!hasCommand(this.#surroundings().env)) {
      one.error = MISSING_COMMAND;
      this.#logs.add(logSource, Log_Level.ERROR, MISSING_COMMAND);
      this.#changed();
      return 0;
    }
    return (await this.#up(one, false)) ? 0 : 1;
  }

  recreate(id: string): void {
    const one = this.#find(id);
    mustBeIdle(one);
    void this.#up(one, true);
  }

  async remove(id: string): Promise<void> {
    const one = this.#find(id);
    const { start } = one;
    start?.cancel();
    await start?.ended;
    mustBeIdle(one);
    // a start that was canceled early has made none
    if (start && !one.container) return;
    if (!one.container) throw new AppError('conflict', `The dev container "${one.name}" has no container.`);
    const { id: containerId } = one.container;
    one.work = 'removing';
    try {
      await this.#subAgents.end(one);
      await removeContainer(containerId, this.#surroundings());
    } finally {
      await this.#workDone(one);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(
      this.#known.all.map(async (one) => {
        await one.start?.ended;
        await one.busy;
        await one.subAgent?.end();
      }),
    );
  }

  get #enabled(): boolean {
    return this.#options.devcontainers !== false && this.#workspace?.manifest.parentId === undefined;
  }

  #surroundings(): Surroundings {
    if (!this.#workspace) throw new AppError('unavailable', 'The agent is still starting. Try again in a moment.');
    const env = this.#workspace.environment();
    return { env, cwd: this.#workspace.directory(env) };
  }

  #changed(): void {
    const text = JSON.stringify(this.list());
    if (text === this.#lastList) return;
    this.#lastList = text;
    for (const listener of [...this.#listeners]) listener();
  }

  /** The dev container of this id. */
  #find(id: string): Known {
    if (this.#options.devcontainers === false) {
      throw new AppError(
        'unavailable',
        'Dev containers are turned off for this agent (CODER_AGENT_DEVCONTAINERS_ENABLE).',
      );
    }
    const one = this.#known.get(id);
    if (!one) throw new AppError('not_found', 'The workspace has no such dev container.');
    return one;
  }

  /** Lists the containers. Concurrent calls share one listing. */
  #look(): Promise<void> {
    this.#looking ??= this.#listContainers().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #listContainers(): Promise<void> {
    if (!this.#workspace || !this.#enabled || this.#closing.signal.aborted) return;
    const around = this.#surroundings();
    try {
      this.#containers = isInstalled('docker', around.env) ? await listContainers(around) : [];
      this.#warnings = [];
    } catch (err) {
      // what runs in containers goes on, if Docker is only busy
      this.#warnings = [errorText(err)];
      this.#changed();
      return;
    }
    this.#matchContainers();
    this.#changed();
    for (const one of this.#known.all) this.#subAgents.follow(one);
  }

  /** Gives each dev container its container. Adds those that are not known yet, and forgets found ones that are gone. */
  #matchContainers(): void {
    const unseen = new Set(this.#known.all);
    for (const container of this.#containers) {
      const { [FOLDER_LABEL]: workspaceFolder, [CONFIG_LABEL]: configPath = '' } = container.labels;
      // a Docker that several workspaces share also lists containers of folders elsewhere
      if (!workspaceFolder || !existsSync(workspaceFolder)) continue;
      const project = { workspaceFolder, configPath };
      const one = this.#known.ofProject(project) ?? this.#known.add(project, 'found');
      // older containers of the same project may be left. Docker lists the newest first.
      const isFirst = unseen.delete(one);
      if (isFirst || (container.running && !one.container?.running)) one.container = container;
    }
    for (const one of unseen) {
      delete one.container;
      if (one.origin === 'found' && !one.work && one.error === '') this.#known.delete(one.id);
    }
  }

  /**
   * Looks for dev containers in Git repositories, for which Git reads all names in their folders: not on a timer, but
   * after the start and when somebody looks at the list.
   */
  #discover(): void {
    const now = performance.now();
    if (!this.#workspace || !this.#isSettled || !this.#enabled || this.#options.devcontainerDiscovery === false) return;
    if (now - this.#discoveredAt < DISCOVER_MS || this.#closing.signal.aborted) return;
    this.#discoveredAt = now;
    const around = this.#surroundings();
    void discover(around.cwd, around).then((projects) => {
      for (const project of projects) {
        if (this.#known.ofProject(project)) continue;
        const one = this.#known.add(project, 'discovered');
        if (this.#options.devcontainerAutostart === true) void this.#startIfWanted(one);
      }
      this.#changed();
    });
  }

  async #startIfWanted(one: Known): Promise<void> {
    try {
      const { autoStart, ignore } = customizationsOf(
        await readConfiguration(one, undefined, this.#surroundings(), this.#closing.signal),
      );
      if (autoStart && !ignore) await this.#up(one, false);
    } catch (err) {
      this.#log.warn('could not read a dev container', { folder: one.workspaceFolder, err: errorText(err) });
    }
  }

  /** Runs `devcontainer up`, which can be canceled. Returns whether it succeeded. */
  async #up(one: Known, recreate: boolean): Promise<boolean> {
    const canceled = new AbortController();
    const ended = this.#runUp(one, recreate, canceled.signal);
    one.start = { ended, cancel: () => canceled.abort() };
    return ended.finally(() => {
      delete one.start;
    });
  }

  async #runUp(one: Known, recreate: boolean, canceled: AbortSignal): Promise<boolean> {
    one.work = 'starting';
    one.error = '';
    this.#changed();
    try {
      if (recreate) await this.#subAgents.end(one);
      await this.#logs.open(one);
      await startContainer(one, this.#surroundings(), {
        recreate,
        onLine: (line) => this.#logs.write(one, Log_Level.INFO, line),
        signal: AbortSignal.any([this.#closing.signal, canceled]),
      });
      return true;
    } catch (err) {
      one.error = canceled.aborted ? '' : errorText(err);
      this.#logs.write(one, Log_Level.ERROR, one.error || 'The start of the dev container was canceled.');
      return false;
    } finally {
      one.ignored = false;
      one.retryAt = Number.NEGATIVE_INFINITY;
      await this.#workDone(one);
      this.#logs.flush(one);
    }
  }

  async #workDone(one: Known): Promise<void> {
    // a look that had begun before does not see the new state
    await this.#looking;
    one.work = '';
    await this.#look();
  }
}

/** Throws if the agent works on the container. */
function mustBeIdle({ name, work }: Known): void {
  if (work) throw new AppError('conflict', `The dev container "${name}" is ${work}. Try again when that is done.`);
}
