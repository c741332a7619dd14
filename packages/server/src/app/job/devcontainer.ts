import type { Devcontainer, Resource } from '@ropewalk/wire/proto/provisioner';

/** Quotes a text as one word of a POSIX shell. `~/` at its start becomes the home directory. */
function word(text: string): string {
  const home = text === '~' || text.startsWith('~/');
  const quoted = `'${(home ? text.slice(1) : text).replaceAll("'", `'\\''`)}'`;
  return home ? `"$HOME"${quoted}` : quoted;
}

/**
 * The script of a dev container. Agents run the same command themselves, so that they can run it again later, and store
 * log, exit code and duration as those of this script. It shows people what the agent does.
 */
export function devcontainerScript(container: Pick<Devcontainer, 'workspaceFolder' | 'configPath'>): string {
  const config = container.configPath === '' ? '' : ` --config ${word(container.configPath)}`;
  return [
    'if ! command -v devcontainer >/dev/null 2>&1; then',
    `  echo 'Cannot start the dev container: the workspace has no "devcontainer" command. Install it with: npm install -g @devcontainers/cli' >&2`,
    '  exit 0',
    'fi',
    `exec devcontainer up --workspace-folder ${word(container.workspaceFolder)}${config}`,
    '',
  ].join('\n');
}

/** Whether the template gives the agent in a dev container separate parts, so that the build has to create it. */
export const hasOwnParts = ({ apps, scripts, envs }: Devcontainer): boolean =>
  apps.length + scripts.length + envs.length > 0;

const MAX_NAME = 56;

/** Names for the agents in dev containers: those of the containers, as far as no other agent of the build has them. */
export class AgentNames {
  readonly #taken: Set<string>;

  constructor(resources: readonly Resource[]) {
    const agents = resources.flatMap((resource) => resource.agents);
    this.#taken = new Set(agents.map(({ name }) => name.toLowerCase()));
  }

  inside({ name }: Devcontainer): string {
    const words = name.toLowerCase().match(/[a-z0-9]+/g) ?? ['devcontainer'];
    const base = words.join('-').slice(0, MAX_NAME).replace(/-$/, '');
    let free = base;
    for (let n = 2; this.#taken.has(free); n++) free = `${base}-${n}`;
    this.#taken.add(free);
    return free;
  }
}
