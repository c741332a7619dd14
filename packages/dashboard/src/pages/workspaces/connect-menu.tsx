import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Code, Copy, SquareTerminal } from 'lucide-react';
import { call } from '../../api/client.ts';
import { useMe } from '../../api/me.ts';
import { useChange } from '../../api/query.ts';
import { CodeLine, copyText } from '../../ui/copy.tsx';
import { MenuItem, MenuLabel, MenuSeparator } from '../../ui/menu.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { EDITOR_NAMES, type Editor, editorAddress, editorsOf, sshHost, sshTarget } from './connect.ts';
import { sshConfigQuery } from './queries.ts';
import { agentsOf } from './status.ts';

/** A session token for a program on this computer. It is made when it is needed. */
async function newToken(): Promise<string> {
  return (await call('POST /users/{user}/keys', { params: { user: 'me' } })).key;
}

/** Opens an editor on this computer. */
export async function openEditor({
  editor,
  workspace,
  agent,
}: {
  editor: Editor;
  workspace: Workspace;
  agent: WorkspaceAgent;
}): Promise<void> {
  const token = await newToken();
  location.assign(editorAddress(editor, workspace, agent, { url: location.origin, token }));
  toast({
    tone: 'neutral',
    title: `Opening ${EDITOR_NAMES[editor]}.`,
    detail: 'If nothing opens, install the editor and its Coder extension first.',
  });
}

export const useOpenEditor = () => useChange(openEditor);

/** The command that opens a shell in the agent from a person's computer. */
export function sshCommand(workspace: Workspace, agent: WorkspaceAgent, me: { username: string }): string {
  const several = agentsOf(workspace.latest_build).length > 1;
  return `coder ssh ${sshTarget(workspace, agent.name, several, me.username)}`;
}

/** Copies a text and says so. */
export async function copyAndTell(text: string): Promise<void> {
  if (await copyText(text)) toast({ title: 'Copied.', detail: <code className="break-all">{text}</code> });
}

/** The entries of a menu with the ways to connect to an agent. */
export function ConnectItems({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) {
  const me = useMe();
  const editor = useOpenEditor();
  const several = agentsOf(workspace.latest_build).length > 1;
  return (
    <>
      {several && <MenuLabel>{agent.name}</MenuLabel>}
      {agent.display_apps.includes('web_terminal') && (
        <MenuItem icon={SquareTerminal} to={paths.terminal(workspace, agent.name)}>
          Terminal
        </MenuItem>
      )}
      {editorsOf(agent).map((name) => (
        <MenuItem key={name} icon={Code} onSelect={() => editor.mutate({ editor: name, workspace, agent })}>
          {EDITOR_NAMES[name]}
        </MenuItem>
      ))}
      {agent.display_apps.includes('ssh_helper') && (
        <>
          <MenuSeparator />
          <MenuItem icon={Copy} onSelect={() => void copyAndTell(sshCommand(workspace, agent, me))}>
            Copy the SSH command
          </MenuItem>
        </>
      )}
    </>
  );
}

/** The commands that connect a shell or an SSH client, to copy. */
export function SshHelp({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) {
  const me = useMe();
  const config = useQuery(sshConfigQuery).data;
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-col gap-1.5">
        <div className="font-medium text-sm">From a terminal on your computer</div>
        <CodeLine code={sshCommand(workspace, agent, me)} />
      </div>
      <div className="flex flex-col gap-1.5">
        <div className="font-medium text-sm">With your own SSH client</div>
        <p className="text-muted text-sm">Run the first command once.</p>
        <CodeLine code="coder config-ssh" />
        {config && (
          <CodeLine
            code={`ssh ${sshHost(workspace, agent.name, { suffix: config.hostname_suffix, prefix: config.hostname_prefix })}`}
          />
        )}
      </div>
      <p className="text-muted text-sm">
        Both need the <code className="font-mono">coder</code> command and a sign-in with{' '}
        <code className="font-mono">coder login</code>.
      </p>
    </div>
  );
}
