import type { Devcontainer } from '@platform/wire/proto/provisioner';

/** Quotes a text as one word of a POSIX shell. `~/` at its start becomes the home directory. */
function word(text: string): string {
  const home = text === '~' || text.startsWith('~/');
  const quoted = `'${(home ? text.slice(1) : text).replaceAll("'", `'\\''`)}'`;
  return home ? `"$HOME"${quoted}` : quoted;
}

/**
 * The script that starts a dev container with the `devcontainer` command, and reports when that command is missing. It
 * runs as one of the agent's scripts, so that its log, exit code and duration are stored like theirs.
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
