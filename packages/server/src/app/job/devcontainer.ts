import type { Devcontainer } from '@platform/wire/proto/provisioner';

/** A word of a POSIX shell that stands for exactly this text; `~/` at its start is the home directory. */
function word(text: string): string {
  const home = text === '~' || text.startsWith('~/');
  const quoted = `'${(home ? text.slice(1) : text).replaceAll("'", `'\\''`)}'`;
  return home ? `"$HOME"${quoted}` : quoted;
}

/**
 * The script that starts a dev container with the `devcontainer` command, and says so where there is none. It is one of
 * the agent's scripts like any other, so that its log, its end and its time are kept like theirs.
 */
export function devcontainerScript(container: Pick<Devcontainer, 'workspaceFolder' | 'configPath'>): string {
  const config = container.configPath === '' ? '' : ` --config ${word(container.configPath)}`;
  return [
    'if ! command -v devcontainer >/dev/null 2>&1; then',
    `  echo 'The dev container is not started: there is no "devcontainer" command in the workspace (npm install -g @devcontainers/cli).' >&2`,
    '  exit 0',
    'fi',
    `exec devcontainer up --workspace-folder ${word(container.workspaceFolder)}${config}`,
    '',
  ].join('\n');
}
