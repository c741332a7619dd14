/** The addresses and commands with which programs on a person's computer reach a workspace. */
import type { Workspace, WorkspaceAgent, WorkspaceApp } from '@ropewalk/contract';
import type { AppServer } from '../../regions/choice.ts';
import { paths } from '../../util/paths.ts';

type WorkspaceName = Pick<Workspace, 'owner_name' | 'name'>;
type AgentPlace = Pick<WorkspaceAgent, 'id' | 'name' | 'expanded_directory'>;

export type Editor = 'vscode' | 'vscode_insiders' | 'cursor' | 'jetbrains';

export const EDITOR_NAMES: Record<Editor, string> = {
  vscode: 'VS Code',
  vscode_insiders: 'VS Code Insiders',
  cursor: 'Cursor',
  jetbrains: 'JetBrains',
};

/** The editors that open the agent. The template decides about VS Code, and Cursor uses its extension. */
export function editorsOf(agent: Pick<WorkspaceAgent, 'display_apps'>): Editor[] {
  const shows = (app: WorkspaceAgent['display_apps'][number]) => agent.display_apps.includes(app);
  return [
    ...(shows('vscode') ? (['vscode', 'cursor'] as const) : []),
    ...(shows('vscode_insiders') ? (['vscode_insiders'] as const) : []),
    ...(shows('ssh_helper') ? (['jetbrains'] as const) : []),
  ];
}

const SCHEMES = { vscode: 'vscode', vscode_insiders: 'vscode-insiders', cursor: 'cursor' } as const;

/** The address that opens an editor on this computer. `token` is a session token for its extension. */
export function editorAddress(
  editor: Editor,
  workspace: WorkspaceName,
  agent: AgentPlace,
  server: { url: string; token: string },
): string {
  const folder: Record<string, string> = agent.expanded_directory ? { folder: agent.expanded_directory } : {};
  if (editor === 'jetbrains') {
    const values = new URLSearchParams({
      type: 'coder',
      owner: workspace.owner_name,
      workspace: workspace.name,
      agent: agent.name,
      agent_id: agent.id,
      ...folder,
      url: server.url,
      token: server.token,
    });
    return `jetbrains-gateway://connect#${values}`;
  }
  const values = new URLSearchParams({
    owner: workspace.owner_name,
    workspace: workspace.name,
    agent: agent.name,
    ...folder,
    url: server.url,
    token: server.token,
  });
  return `${SCHEMES[editor]}://coder.coder-remote/open?${values}`;
}

/** The argument of `coder ssh` and `coder port-forward`. The agent's name is only needed where there are several. */
export function sshTarget(workspace: WorkspaceName, agent: string, several: boolean, me: string): string {
  const owner = workspace.owner_name === me ? '' : `${workspace.owner_name}/`;
  return `${owner}${workspace.name}${several ? `.${agent}` : ''}`;
}

/** The host name that `coder config-ssh` sets up: with the server's suffix, or else its prefix. */
export function sshHost(workspace: WorkspaceName, agent: string, server: { suffix: string; prefix: string }): string {
  const name = `${agent}.${workspace.name}.${workspace.owner_name}`;
  return server.suffix ? `${name}.${server.suffix}` : `${server.prefix}${name}`;
}

/** The address of an app or port with its own host: `name` replaces the star of the region's wildcard. */
const hostAddress = ({ wildcard, protocol }: AppServer, name: string): string =>
  `${protocol}//${wildcard.replace('*', name)}/`;

/** Where an app opens, or why it cannot. */
export function appAddress(
  app: WorkspaceApp,
  workspace: WorkspaceName,
  agent: Pick<WorkspaceAgent, 'name'>,
  server: AppServer,
): { href: string } | { problem: string } {
  if (app.external) return { href: app.url ?? '' };
  if (app.command) return { href: paths.terminal(workspace, agent.name, { app: app.slug }) };
  if (!app.subdomain) return { href: server.base + paths.pathApp(workspace, agent.name, app.slug) };
  if (!server.wildcard)
    return {
      problem: 'This app needs a separate host name. An administrator must set CODER_WILDCARD_ACCESS_URL.',
    };
  return { href: hostAddress(server, app.subdomain_name ?? '') };
}

/** Whether the address contains the place for a session token. */
export const needsToken = (href: string): boolean => href.includes('$SESSION_TOKEN');

/** The address of a port of the workspace. Undefined without a wildcard host. */
export function portAddress(
  port: number,
  protocol: 'http' | 'https',
  workspace: WorkspaceName,
  agent: string,
  server: AppServer,
): string | undefined {
  if (!server.wildcard) return undefined;
  const name = [`${port}${protocol === 'https' ? 's' : ''}`, agent, workspace.name, workspace.owner_name].join('--');
  return hostAddress(server, name.toLowerCase());
}

/** Addresses of external apps open programs or pages. Addresses that would run scripts in this page are rejected. */
export function isSafeAddress(href: string): boolean {
  if (href.startsWith('/')) return true;
  try {
    return !/^(javascript|data|vbscript|blob|file):$/i.test(new URL(href).protocol);
  } catch {
    return false;
  }
}
