/**
 * The dev containers of a workspace. A dev container is known from the template (declared), from a Git repository in the
 * agent's directory (discovered), or from a container that somebody started with the devcontainer command (found). The
 * agent starts those that are declared, follows the containers of all of them through Docker, and runs a sub-agent in
 * each that is running.
 */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { Log_Level } from '@ropewalk/wire/proto/agent';
import { expandPath } from '../environment.ts';
import type { LogSender } from '../logs.ts';
import { Notifier } from '../notifier.ts';
import type { AgentOptions } from '../options.ts';
import { type AgentClient, type Routine, uuidBytes, uuidText } from '../wire-types.ts';
import type { Workspace } from '../workspace.ts';
import { hasCommand, MISSING_COMMAND, type Project, readConfiguration, startContainer } from './command.ts';
import { customizationsOf, safeName } from './customizations.ts';
import { discover } from './discovery.ts';
import { listContainers, removeContainer } from './docker.ts';
import { type Known, toDevcontainer } from './known.ts';
import { createLogSource } from './log-source.ts';
import { isInstalled, type Surroundings } from './program.ts';
import { startSubAgent } from './sub-agent.ts';
import type { Container, ContainerList } from './types.ts';

/** How often containers are listed, in ms, and how often while Docker does not answer. */
const LOOK_MS = 10_000;
const LOOK_WITHOUT_DOCKER_MS = 60_000;
/** How often while somebody watches the list. */
const WATCHED_MS = 3_000;
/** How long a failed sub-agent waits for its next start, in ms. */
const RETRY_MS = 30_000;
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

export function createDevcontainers({ options, logs, log }: DevcontainerOptions): Devcontainers {
  const known = new Map<string, Known>();
  const listeners = new Set<() => void>();
  const due = new Notifier();
  const closing = new AbortController();
  let containers: Container[] = [];
  let warnings: string[] = [];
  let workspace: Workspace | undefined;
  let token = '';
  let client: AgentClient | undefined;
  let cleaned = false;
  let agentId = '';
  let isSettled = false;
  let discovered = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | undefined;
  let last = '';

  const enabled = () => options.devcontainers !== false && workspace?.manifest.parentId === undefined;

  function surroundings(): Surroundings {
    if (!workspace) throw new AppError('unavailable', 'The agent is still starting. Try again in a moment.');
    const env = workspace.environment();
    return { env, cwd: workspace.directory(env) };
  }

  function changed(): void {
    const text = JSON.stringify(list());
    if (text === last) return;
    last = text;
    for (const listener of [...listeners]) listener();
  }

  function list(): ContainerList {
    const devcontainers = [...known.values()].filter(({ ignored }) => !ignored).map(toDevcontainer);
    return { containers, devcontainers, ...(warnings.length > 0 ? { warnings } : {}) };
  }

  const say = (of: Known, level: Log_Level, line: string) => {
    if (of.logSource) logs.add(of.logSource, level, line);
    log.debug('dev container', { name: of.name, line });
  };

  /** The dev container of a project. One that has no configuration path yet gets it. */
  function projectOf({ workspaceFolder, configPath }: Project): Known | undefined {
    const same = [...known.values()].filter((one) => one.workspaceFolder === workspaceFolder);
    const found = same.find((one) => one.configPath === configPath) ?? same.find((one) => one.configPath === '');
    if (found && found.configPath === '') found.configPath = configPath;
    return found;
  }

  function add(project: Project, origin: Known['origin'], id = crypto.randomUUID() as string, name = ''): Known {
    const taken = new Set([...known.values()].map((one) => one.name));
    const base = name || safeName(basename(project.workspaceFolder));
    const names = [base, ...Array.from({ length: known.size }, (_, i) => `${base}-${i + 2}`)];
    const free = names.find((candidate) => !taken.has(candidate)) ?? base;
    const one: Known = {
      ...project,
      id,
      name: free,
      origin,
      work: '',
      error: '',
      ignored: false,
      retryAt: Number.NEGATIVE_INFINITY,
    };
    known.set(id, one);
    return one;
  }

  function refresh(): Promise<void> {
    looking ??= look().finally(() => {
      looking = undefined;
    });
    return looking;
  }

  async function look(): Promise<void> {
    if (!workspace || !enabled() || closing.signal.aborted) return;
    const around = surroundings();
    try {
      containers = isInstalled('docker', around.env) ? await listContainers(around) : [];
      warnings = [];
    } catch (err) {
      // what runs in containers goes on, if Docker is only busy
      warnings = [errorText(err)];
      changed();
      return;
    }
    const unseen = new Set(known.values());
    for (const container of containers) {
      const { [FOLDER_LABEL]: workspaceFolder, [CONFIG_LABEL]: configPath = '' } = container.labels;
      // a Docker that several workspaces share also lists containers of folders elsewhere
      if (!workspaceFolder || !existsSync(workspaceFolder)) continue;
      const one = projectOf({ workspaceFolder, configPath }) ?? add({ workspaceFolder, configPath }, 'found');
      // older containers of the same project may be left. Docker lists the newest first.
      const isFirst = unseen.delete(one);
      if (isFirst || (container.running && !one.container?.running)) one.container = container;
    }
    for (const one of unseen) {
      delete one.container;
      if (one.origin === 'found' && !one.work && one.error === '') known.delete(one.id);
    }
    changed();
    for (const one of known.values()) followSubAgent(one);
  }

  /**
   * Looks for dev containers in Git repositories, for which Git reads all names in their folders: not on a timer, but
   * after the start and when somebody looks at the list.
   */
  function discoverProjects(): void {
    const now = performance.now();
    if (!workspace || !isSettled || !enabled() || options.devcontainerDiscovery === false) return;
    if (now - discovered < DISCOVER_MS || closing.signal.aborted) return;
    discovered = now;
    const around = surroundings();
    void discover(around.cwd, around).then((projects) => {
      for (const project of projects) {
        if (projectOf(project)) continue;
        const one = add(project, 'discovered');
        if (options.devcontainerAutostart === true) void startIfWanted(one);
      }
      changed();
    });
  }

  async function startIfWanted(one: Known): Promise<void> {
    try {
      const { autoStart, ignore } = customizationsOf(
        await readConfiguration(one, undefined, surroundings(), closing.signal),
      );
      if (autoStart && !ignore) await up(one, false);
    } catch (err) {
      log.warn('could not read a dev container', { folder: one.workspaceFolder, err: errorText(err) });
    }
  }

  /** Runs `devcontainer up`, which can be canceled. Returns whether it succeeded. */
  async function up(one: Known, recreate: boolean): Promise<boolean> {
    const canceled = new AbortController();
    const ended = runUp(one, recreate, canceled.signal);
    one.start = { ended, cancel: () => canceled.abort() };
    return ended.finally(() => {
      delete one.start;
    });
  }

  async function runUp(one: Known, recreate: boolean, canceled: AbortSignal): Promise<boolean> {
    one.work = 'starting';
    one.error = '';
    changed();
    try {
      if (recreate) await endSubAgent(one);
      one.logSource ??= await logSourceOf(one);
      await startContainer(one, surroundings(), {
        recreate,
        onLine: (line) => say(one, Log_Level.INFO, line),
        signal: AbortSignal.any([closing.signal, canceled]),
      });
      return true;
    } catch (err) {
      one.error = canceled.aborted ? '' : errorText(err);
      say(one, Log_Level.ERROR, one.error || 'The start of the dev container was canceled.');
      return false;
    } finally {
      one.ignored = false;
      one.retryAt = Number.NEGATIVE_INFINITY;
      await workDone(one);
      if (one.logSource) void logs.flush();
    }
  }

  async function workDone(one: Known): Promise<void> {
    // a look that had begun before does not see the new state
    await looking;
    one.work = '';
    await refresh();
  }

  async function logSourceOf({ name }: Known): Promise<Uint8Array> {
    const headers = (await options.headers?.()) ?? {};
    return createLogSource({ url: options.url, token, headers }, `Dev Container (${name})`);
  }

  /** Starts or ends the sub-agent of a dev container, whichever is due. */
  function followSubAgent(one: Known): void {
    const { container, subAgent } = one;
    const runs = container?.running === true && !one.ignored;
    if (one.busy || one.work) return;
    if (subAgent && (!runs || one.subAgentOf !== container.id)) {
      one.busy = endSubAgent(one);
    } else if (!subAgent && runs && client && performance.now() > one.retryAt && !closing.signal.aborted) {
      one.busy = beginSubAgent(one, container, client);
    } else return;
    void one.busy.finally(() => {
      delete one.busy;
      changed();
      due.notify();
    });
  }

  async function beginSubAgent(one: Known, container: Container, calls: AgentClient): Promise<void> {
    try {
      one.logSource ??= await logSourceOf(one);
      const source = {
        project: one,
        containerId: container.id,
        name: one.name,
        prepared: one.prepared,
        url: options.url,
        executable: options.executable,
        around: surroundings(),
        log,
        say: (line: string) => say(one, Log_Level.INFO, line),
      };
      const started = await startSubAgent(calls, source, closing.signal);
      if (!started) one.ignored = true;
      else {
        one.subAgent = started;
        one.subAgentOf = container.id;
      }
      one.error = '';
    } catch (err) {
      if (closing.signal.aborted) return;
      one.retryAt = performance.now() + RETRY_MS;
      one.error = errorText(err);
      say(one, Log_Level.ERROR, one.error);
    }
  }

  /** Ends a sub-agent and deletes it from the server. */
  async function endSubAgent(one: Known): Promise<void> {
    if (one.work) await one.busy;
    const { subAgent } = one;
    delete one.subAgent;
    delete one.subAgentOf;
    if (!subAgent) return;
    await subAgent.end();
    if (one.prepared) return;
    await client?.deleteSubAgent({ id: uuidBytes(subAgent.id) }).catch((err: unknown) => {
      log.debug('could not delete a sub-agent', { name: subAgent.name, err: errorText(err) });
    });
  }

  /** The dev container of this id. */
  function find(id: string): Known {
    if (options.devcontainers === false) {
      throw new AppError(
        'unavailable',
        'Dev containers are turned off for this agent (CODER_AGENT_DEVCONTAINERS_ENABLE).',
      );
    }
    const one = known.get(id);
    if (!one) throw new AppError('not_found', 'The workspace has no such dev container.');
    return one;
  }

  /** Throws if the agent works on the container. */
  function mustBeIdle({ name, work }: Known): void {
    if (work) throw new AppError('conflict', `The dev container "${name}" is ${work}. Try again when that is done.`);
  }

  return {
    setWorkspace(next, nextToken) {
      workspace = next;
      token = nextToken;
      const id = uuidText(next.manifest.agentId);
      // sub-agents belong to one build of the workspace
      if (agentId !== '' && agentId !== id) {
        for (const one of known.values()) {
          const { subAgent } = one;
          delete one.subAgent;
          void subAgent?.end();
        }
      }
      agentId = id;
      if (!enabled()) return;
      const env = next.environment();
      for (const declared of next.manifest.devcontainers) {
        const workspaceFolder = expandPath(declared.workspaceFolder, next.account, env);
        const configPath =
          declared.configPath === '' ? '' : expandPath(declared.configPath, next.account, env, workspaceFolder);
        const project = { workspaceFolder, configPath };
        const id = uuidText(declared.id);
        const one = known.get(id) ?? projectOf(project) ?? add(project, 'declared', id, declared.name);
        if (declared.subagentId) one.prepared = declared.subagentId;
        else delete one.prepared;
      }
      changed();
    },
    async start(id, logSource) {
      const one = known.get(id);
      if (!one) {
        logs.add(
          logSource,
          Log_Level.WARN,
          'The dev container was not started: dev containers are turned off for this agent.',
        );
        return 0;
      }
      one.logSource = logSource;
      if (!hasCommand(surroundings().env)) {
        one.error = MISSING_COMMAND;
        logs.add(logSource, Log_Level.ERROR, MISSING_COMMAND);
        changed();
        return 0;
      }
      return (await up(one, false)) ? 0 : 1;
    },
    list,
    refresh() {
      discoverProjects();
      return refresh();
    },
    onChange(listener) {
      listeners.add(listener);
      due.notify();
      return () => listeners.delete(listener);
    },
    recreate(id) {
      const one = find(id);
      mustBeIdle(one);
      void up(one, true);
    },
    async remove(id) {
      const one = find(id);
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
        await endSubAgent(one);
        await removeContainer(containerId, surroundings());
      } finally {
        await workDone(one);
      }
    },
    settled() {
      isSettled = true;
      discoverProjects();
    },
    async run(calls, signal) {
      if (!enabled()) return;
      if (!cleaned) await deleteLeftover(calls, signal);
      cleaned = true;
      client = calls;
      try {
        for (;;) {
          await refresh();
          const often = listeners.size > 0 ? WATCHED_MS : LOOK_MS;
          await due.wait(signal, warnings.length > 0 ? LOOK_WITHOUT_DOCKER_MS : often);
        }
      } finally {
        client = undefined;
      }
    },
    async close() {
      closing.abort();
      await Promise.all(
        [...known.values()].map(async (one) => {
          await one.start?.ended;
          await one.busy;
          await one.subAgent?.end();
        }),
      );
    },
  };

  /** Deletes the sub-agents of an earlier process of this agent: nobody has their tokens any more. */
  async function deleteLeftover(calls: AgentClient, signal: AbortSignal): Promise<void> {
    try {
      const { agents } = await calls.listSubAgents({}, { signal });
      const kept = new Set([...known.values()].flatMap(({ prepared }) => (prepared ? [uuidText(prepared)] : [])));
      for (const { id } of agents) if (!kept.has(uuidText(id))) await calls.deleteSubAgent({ id }, { signal });
    } catch (err) {
      signal.throwIfAborted();
      log.debug('could not delete earlier sub-agents', { err: errorText(err) });
    }
  }
}
