import { AppError } from '@ropewalk/kit';
import { isInstalled, runProgram, type Surroundings } from './program.ts';

/** How long reading a configuration may take, which can download descriptions of features. */
const READ_TIMEOUT_MS = 2 * 60_000;

/** How long building and starting one may take, in ms. */
const START_TIMEOUT_MS = 60 * 60_000;

/** A dev container, by its folder and, if it is not in one of the standard places, by its configuration. */
export interface Project {
  workspaceFolder: string;
  configPath: string;
}

/** What `devcontainer read-configuration` prints, as far as it is read. */
export interface Configuration {
  configuration?: { customizations?: { coder?: unknown } };
  mergedConfiguration?: { customizations?: { coder?: unknown } };
  workspace?: { workspaceFolder?: string };
}

export const MISSING_COMMAND =
  'Cannot start the dev container: the workspace has no "devcontainer" command. Install it with: npm install -g @devcontainers/cli';

export const hasCommand = (env: NodeJS.ProcessEnv): boolean => isInstalled('devcontainer', env);

const ofProject = ({ workspaceFolder, configPath }: Project) => [
  '--workspace-folder',
  workspaceFolder,
  ...(configPath === '' ? [] : ['--config', configPath]),
];

export interface UpOptions {
  /** Removes an existing container first. */
  recreate: boolean;
  /** Called with each line of the command's log. */
  onLine(line: string): void;
  signal: AbortSignal;
}

/**
 * Builds and starts a dev container with `devcontainer up`.
 * @throws AppError `unavailable` with the command's message
 */
export async function startContainer(project: Project, around: Surroundings, options: UpOptions): Promise<void> {
  if (!hasCommand(around.env)) throw new AppError('unavailable', MISSING_COMMAND);
  const { recreate, onLine, signal } = options;
  const args = ['up', ...ofProject(project), ...(recreate ? ['--remove-existing-container'] : [])];
  const { code, stdout } = await runProgram('devcontainer', args, around, {
    onLine,
    signal,
    timeoutMs: START_TIMEOUT_MS,
  });
  const result = lastJson(stdout) as { outcome?: string; message?: string; description?: string } | undefined;
  if (code === 0 && (result === undefined || result.outcome === 'success')) return;
  const reason = result?.message || result?.description || `exit status ${code}`;
  throw new AppError('unavailable', `"devcontainer up" failed: ${reason.slice(0, 1_000)}`);
}

/** Reads the configuration of a running dev container. Throws `unavailable`. */
export async function readConfiguration(
  project: Project,
  containerId: string | undefined,
  around: Surroundings,
  signal: AbortSignal,
): Promise<Configuration> {
  const args = ['read-configuration', '--include-merged-configuration', ...ofProject(project)];
  if (containerId) args.push('--container-id', containerId);
  const run = await runProgram('devcontainer', args, around, { signal, timeoutMs: READ_TIMEOUT_MS });
  const result = lastJson(run.stdout);
  if (run.code === 0 && result) return result;
  throw new AppError('unavailable', `"devcontainer read-configuration" failed: ${run.messages.slice(-1_000)}`);
}

/** The arguments of `devcontainer` that run a program in a dev container as its user. */
export function execArgs(project: Project, containerId: string, env: Record<string, string>, args: string[]): string[] {
  const variables = Object.entries(env).flatMap(([name, value]) => ['--remote-env', `${name}=${value}`]);
  return ['exec', ...ofProject(project), '--container-id', containerId, ...variables, ...args];
}

/** The command's result is the last line of its output. */
function lastJson(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text.trim().split('\n').at(-1)!) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
