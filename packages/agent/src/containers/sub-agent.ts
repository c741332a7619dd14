import { realpath } from 'node:fs/promises';
import { AppError, backoff, errorText, type GroupChild, type Logger, spawnGroup, systemClock } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { uuidText } from '@ropewalk/wire/uuid';
import { LineSplitter } from '../logs.ts';
import type { AgentClient } from '../wire-types.ts';
import { execArgs, type Project, readConfiguration } from './command.ts';
import { type Customizations, customizationsOf, safeName } from './customizations.ts';
import { copyInto, execAsRoot } from './docker.ts';
import type { Surroundings } from './program.ts';

/** Where the agent's executable lies in a container, as in upstream's. */
const FOLDER = '/.coder-agent';
const EXECUTABLE = `${FOLDER}/coder`;
/** How long an agent in a container may take to end, in ms. */
const END_GRACE_MS = 5_000;
/** An agent that ran for this long counts as started, so that the next start follows soon. */
const SETTLED_MS = 10_000;
const MAX_NAMES = 5;

/**
 * Runs the agent in a container. The token comes by stdin, because arguments are visible to everybody on the machine.
 * Docker leaves a program in a container running when its client ends. The end of stdin then ends the agent.
 */
const RUN = `IFS= read -r CODER_AGENT_TOKEN
export CODER_AGENT_TOKEN
agent=$$
exec 3<&0
{ cat >/dev/null; kill "$agent"; } <&3 >/dev/null 2>&1 3<&- &
exec "$0" agent </dev/null 3<&-`;

const ARCHITECTURES: Record<string, NodeJS.Architecture> = { x86_64: 'x64', aarch64: 'arm64', arm64: 'arm64' };
/** Names of architectures in the API. */
const NAMES: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', arm64: 'arm64' };

export interface SubAgentSource {
  project: Project;
  containerId: string;
  /** The dev container's own name, from its folder. */
  name: string;
  /** The id of the sub-agent, if the build created it. */
  prepared: Uint8Array | undefined;
  url: string;
  /** The path of the agent's executable on this machine. */
  executable: string | undefined;
  around: Surroundings;
  log: Logger;
  /** Writes to the dev container's log. */
  say(line: string): void;
}

export interface SubAgent {
  readonly id: string;
  readonly name: string;
  readonly directory: string;
  /** Ends the agent in the container. */
  end(): Promise<void>;
}

/**
 * Puts the agent's executable into a running dev container, registers a sub-agent at the server and runs it until
 * `signal` aborts or it is ended. Returns undefined for a dev container that is to be left alone.
 * @throws AppError `unavailable` with the reason
 */
export async function startSubAgent(
  client: AgentClient,
  source: SubAgentSource,
  signal: AbortSignal,
): Promise<SubAgent | undefined> {
  const { project, containerId, around, say, executable, url } = source;
  const { customizations, directory } = await configurationOf(source, signal);
  if (customizations.ignore) return undefined;
  if (!executable || executable.endsWith('.mjs')) {
    const message = 'The agent cannot copy itself into the container: it does not run from a single executable file.';
    throw new AppError('unavailable', message);
  }
  const prepare = `mkdir -p ${FOLDER} && chmod 0755 ${FOLDER} && uname -m`;
  const machine = (await execAsRoot(containerId, ['/bin/sh', '-c', prepare], around, signal)).trim();
  if (ownValue(ARCHITECTURES, machine) !== process.arch) {
    const message = `The container's architecture is ${JSON.stringify(machine)}, the agent's is "${process.arch}". They must be the same.`;
    throw new AppError('unavailable', message);
  }
  say('Copying the agent into the container.');
  await copyInto(containerId, await realpath(executable), EXECUTABLE, around, signal);
  await execAsRoot(containerId, ['chmod', '0755', EXECUTABLE], around, signal);
  const made = await register(client, source, customizations, directory, signal);
  const { id, name, token, failures } = made;
  for (const failure of failures) say(`An app was left out: ${failure}`);
  const stopping = new AbortController();
  let child: GroupChild | undefined;
  const ended = (async () => {
    const waits = backoff({ baseMs: 1_000, capMs: 30_000 });
    while (!stopping.signal.aborted) {
      const from = performance.now();
      try {
        child = await spawnAgent(project, containerId, {
          url,
          token,
          around,
          log: source.log.child({ sub_agent: name }),
        });
        if (stopping.signal.aborted) child.process.stdin?.destroy();
        const { code } = await child.exited;
        if (!stopping.signal.aborted) say(`The agent in the container ended with status ${code}.`);
      } catch (err) {
        say(`The agent in the container could not start: ${errorText(err)}`);
      }
      if (performance.now() - from > SETTLED_MS) waits.reset();
      await systemClock.sleep(waits.next(), stopping.signal).catch(() => {});
    }
  })();
  say(`The agent "${name}" runs in the container.`);
  return {
    id,
    name,
    directory,
    async end() {
      stopping.abort();
      child?.process.stdin?.destroy();
      const timer = setTimeout(() => child?.signal('SIGKILL'), END_GRACE_MS);
      await ended;
      clearTimeout(timer);
    },
  };
}

async function configurationOf(source: SubAgentSource, signal: AbortSignal) {
  const { project, containerId, around, url, name } = source;
  // configurations refer to these as ${localEnv:…}
  const env = { ...around.env, CODER_URL: url, CONTAINER_ID: containerId, CODER_WORKSPACE_AGENT_NAME: name };
  const read = await readConfiguration(project, containerId, { ...around, env }, signal);
  return { customizations: customizationsOf(read), directory: read.workspace?.workspaceFolder ?? '' };
}

/** Creates the sub-agent at the server, under the first of its possible names that no other agent has. */
async function register(
  client: AgentClient,
  { name, project, prepared }: SubAgentSource,
  customizations: Customizations,
  directory: string,
  signal: AbortSignal,
) {
  const wanted = customizations.name || name;
  const parent = project.workspaceFolder.split('/').filter(Boolean).at(-2) ?? '';
  const names = [
    wanted,
    safeName(`${parent}-${wanted}`),
    ...Array.from({ length: MAX_NAMES }, (_, i) => `${wanted}-${i + 2}`),
  ];
  for (;;) {
    const candidate = names.shift()!;
    try {
      const { agent, appCreationErrors } = await client.createSubAgent(
        {
          name: candidate,
          directory,
          architecture: NAMES[process.arch] ?? process.arch,
          operatingSystem: 'linux',
          apps: customizations.apps,
          displayApps: customizations.displayApps,
          ...(prepared ? { id: prepared } : {}),
        },
        { signal },
      );
      if (!agent) throw new AppError('unavailable', 'The server did not return the sub-agent.');
      const failures = appCreationErrors.map(({ index, field, error }) => {
        const app = customizations.apps[index]?.slug ?? String(index);
        return `${JSON.stringify(app)}${field ? `, ${field}` : ''}: ${error}`;
      });
      return { id: uuidText(agent.id), name: agent.name, token: uuidText(agent.authToken), failures };
    } catch (err) {
      if (names.length === 0 || signal.aborted || !/already/i.test(errorText(err))) throw err;
    }
  }
}

async function spawnAgent(
  project: Project,
  containerId: string,
  { url, token, around, log }: { url: string; token: string; around: Surroundings; log: Logger },
): Promise<GroupChild> {
  const args = execArgs(project, containerId, { CODER_AGENT_URL: url }, ['/bin/sh', '-c', RUN, EXECUTABLE]);
  const child = await spawnGroup('devcontainer', args, { ...around, stdio: ['pipe', 'pipe', 'pipe'] });
  const { stdin, stdout, stderr } = child.process;
  stdin!.on('error', () => {});
  stdin!.write(`${token}\n`);
  for (const stream of [stdout!, stderr!]) {
    const lines = new LineSplitter((line) => log.debug('the agent in a container', { line }));
    stream.on('data', (chunk: Buffer) => lines.push(chunk));
  }
  return child;
}
