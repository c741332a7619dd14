import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { ChevronDown, ChevronRight, Code, SquareTerminal, Terminal } from 'lucide-react';
import { useState } from 'react';
import { buildInfoQuery } from '../../../api/me.ts';
import { workspacePermissions } from '../../../api/permissions.ts';
import { Status } from '../../../ui/badge.tsx';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { ExternalLink } from '../../../ui/link.tsx';
import { Menu, MenuItem } from '../../../ui/menu.tsx';
import { Popover } from '../../../ui/popover.tsx';
import { isOutdated } from '../../../util/outdated.ts';
import { paths } from '../../../util/paths.ts';
import { AppLink } from '../app-link.tsx';
import { EDITOR_NAMES, editorsOf } from '../connect.ts';
import { SshHelp, useOpenEditor } from '../connect-menu.tsx';
import { agentLook, isExternal, isReachable } from '../status.ts';
import { DevContainers } from './dev-containers.tsx';
import { ExternalAgentCommand } from './external-agent.tsx';
import { AgentLog } from './logs.tsx';
import { AgentMetadata } from './metadata.tsx';
import { PortsButton } from './ports.tsx';

/** An agent: its state, how to connect to it, its apps, live values, dev containers and log. */
export function AgentCard({
  workspace,
  agent,
  parent,
}: {
  workspace: Workspace;
  agent: WorkspaceAgent;
  /** The agent in which this one's dev container runs. */
  parent: WorkspaceAgent | undefined;
}) {
  const external = isExternal(workspace.latest_build, agent);
  const look = agentLook(agent, external);
  const serverVersion = useQuery(buildInfoQuery).data?.version;
  const may = useQuery(workspacePermissions(workspace)).data;
  const reachable = isReachable(agent);
  const troubled = (look.tone === 'bad' || look.tone === 'warn') && !(external && agent.status === 'connecting');
  const [logOpen, setLogOpen] = useState(troubled);
  const apps = agent.apps.filter((app) => !app.hidden);
  const groups = Map.groupBy(apps, (app) => app.group ?? '');
  const shows = (app: WorkspaceAgent['display_apps'][number]) => agent.display_apps.includes(app);
  const Chevron = logOpen ? ChevronDown : ChevronRight;
  return (
    <section aria-label={`Agent ${agent.name}`} className="rounded-lg border border-line bg-surface">
      <header className="flex flex-wrap items-center gap-x-4 gap-y-3 px-4 py-3">
        <div className="min-w-0 flex-1 basis-48">
          <div className="flex flex-wrap items-center gap-x-3">
            <h2 className="wrap-anywhere font-semibold text-lg">{agent.name}</h2>
            <span aria-live="polite">
              <Status tone={look.tone}>{look.text}</Status>
            </span>
          </div>
          <div className="text-muted text-sm">
            {[
              `${agent.operating_system}/${agent.architecture}`,
              agent.version &&
                `agent ${agent.version}${isOutdated(agent, serverVersion) ? ", not the server's version" : ''}`,
              parent && `dev container in ${parent.name}`,
            ]
              .filter(Boolean)
              .join(' · ')}
          </div>
        </div>
        {reachable && (
          <div className="flex flex-wrap items-center gap-2">
            {shows('web_terminal') && (
              <LinkButton to={paths.terminal(workspace, agent.name)} icon={SquareTerminal} look="primary">
                Terminal
              </LinkButton>
            )}
            <EditorMenu workspace={workspace} agent={agent} />
            {shows('ssh_helper') && (
              <Popover trigger={<Button icon={Terminal}>SSH</Button>}>
                <SshHelp workspace={workspace} agent={agent} />
              </Popover>
            )}
            {shows('port_forwarding_helper') && <PortsButton workspace={workspace} agent={agent} />}
          </div>
        )}
      </header>
      {look.explanation && (
        <p className="px-4 pb-3 text-muted">
          {look.explanation}{' '}
          {troubled && agent.troubleshooting_url && (
            <ExternalLink href={agent.troubleshooting_url}>How to fix it</ExternalLink>
          )}
        </p>
      )}
      {external && !reachable && may?.ssh && <ExternalAgentCommand workspace={workspace} agent={agent} />}
      {[...groups].map(([group, members]) => (
        <div key={group} className="border-line border-t px-4 py-3">
          {group && <h3 className="mb-2 text-muted text-sm">{group}</h3>}
          <div className="flex flex-wrap gap-2">
            {members.map((app) => (
              <AppLink
                key={app.id}
                app={app}
                workspace={workspace}
                agent={agent}
                disabled={!reachable && !app.external}
              />
            ))}
          </div>
        </div>
      ))}
      {reachable && (
        <div className="border-line border-t px-4 py-3 empty:hidden">
          <AgentMetadata agent={agent} />
        </div>
      )}
      {reachable && !parent && <DevContainers agent={agent} mayChange={may?.ssh ?? false} />}
      <div className="border-line border-t">
        <button
          type="button"
          aria-expanded={logOpen}
          onClick={() => setLogOpen(!logOpen)}
          className="flex w-full items-center gap-1.5 rounded-b-lg px-4 py-2.5 text-left text-muted hover:bg-hover hover:text-text"
        >
          <Chevron size={15} aria-hidden="true" />
          Agent log
        </button>
        {logOpen && (
          <div className="px-4 pb-4">
            <AgentLog agent={agent} workspace={workspace.name} />
          </div>
        )}
      </div>
    </section>
  );
}

function EditorMenu({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) {
  const open = useOpenEditor();
  const editors = editorsOf(agent);
  if (editors.length === 0) return null;
  return (
    <Menu
      trigger={
        <Button icon={Code} pending={open.isPending}>
          Open in
          <ChevronDown size={14} aria-hidden="true" />
        </Button>
      }
    >
      {editors.map((editor) => (
        <MenuItem key={editor} onSelect={() => open.mutate({ editor, workspace, agent })}>
          {EDITOR_NAMES[editor]}
        </MenuItem>
      ))}
    </Menu>
  );
}
