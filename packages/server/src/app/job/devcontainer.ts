import type { Devcontainer } from '@platform/wire/proto/provisioner';

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
