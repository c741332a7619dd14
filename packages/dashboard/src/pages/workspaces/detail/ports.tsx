import type { Template, Workspace, WorkspaceAgent, WorkspaceAgentPortShare } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Cable, ExternalLink as ExternalIcon, RefreshCw, Trash2 } from 'lucide-react';
import { useId, useState } from 'react';
import { call } from '../../../api/client.ts';
import { useMe } from '../../../api/me.ts';
import { apiQuery, useChange } from '../../../api/query.ts';
import { useAppServer } from '../../../regions/store.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button, buttonClass, IconButton } from '../../../ui/button.tsx';
import { CodeLine } from '../../../ui/copy.tsx';
import { Input, NativeSelect } from '../../../ui/field.tsx';
import { Popover } from '../../../ui/popover.tsx';
import { QueryView } from '../../../ui/states.tsx';
import { portAddress, sshTarget } from '../connect.ts';
import { agentsOf } from '../status.ts';

type Level = WorkspaceAgentPortShare['share_level'];
type Protocol = WorkspaceAgentPortShare['protocol'];

const LEVELS: readonly { level: Level; name: string }[] = [
  { level: 'owner', name: 'Only you' },
  { level: 'organization', name: 'The organization' },
  { level: 'authenticated', name: 'Everyone who signs in' },
  { level: 'public', name: 'Anyone with the link' },
];

const listeningQuery = (agentId: string) => ({
  ...apiQuery('GET /workspaceagents/{workspaceagent}/listening-ports', [], { params: { workspaceagent: agentId } }),
  staleTime: 0,
});
const sharesQuery = (workspaceId: string) =>
  apiQuery('GET /workspaces/{workspace}/port-share', [{ kind: 'workspace', id: workspaceId }], {
    params: { workspace: workspaceId },
  });

/** The ports of an agent, to open and to share. */
export function PortsButton({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) {
  const [open, setOpen] = useState(false);
  const shares = useQuery(sharesQuery(workspace.id)).data?.shares ?? [];
  const shared = shares.filter((share) => share.agent_name === agent.name).length;
  return (
    <Popover
      open={open}
      onOpenChange={setOpen}
      trigger={
        <Button icon={Cable}>
          Ports
          {shared > 0 && <Badge tone="accent">{shared} shared</Badge>}
        </Button>
      }
    >
      {open && <Ports workspace={workspace} agent={agent} />}
    </Popover>
  );
}

/** The command that makes a port reachable on a person's own computer. */
const forwardCommand = (target: string, port: number) => `coder port-forward ${target} --tcp ${port}`;

/** The workspace as commands name it. */
function useTarget(workspace: Workspace, agent: WorkspaceAgent): string {
  const me = useMe();
  return sshTarget(workspace, agent.name, agentsOf(workspace.latest_build).length > 1, me.username);
}

function Ports({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) {
  const listening = useQuery(listeningQuery(agent.id));
  const shares = useQuery(sharesQuery(workspace.id));
  const template = useQuery(
    apiQuery('GET /templates/{template}', [{ kind: 'template', id: workspace.template_id }], {
      params: { template: workspace.template_id },
    }),
  ).data;
  const { wildcard } = useAppServer();
  const target = useTarget(workspace, agent);
  const mine = shares.data?.shares.filter((share) => share.agent_name === agent.name) ?? [];
  return (
    <div className="flex flex-col gap-3">
      <div className="flex items-center gap-2">
        <h3 className="flex-1 font-semibold">Ports</h3>
        <IconButton
          icon={RefreshCw}
          size="sm"
          label="Refresh the list"
          pending={listening.isFetching}
          onClick={() => void listening.refetch()}
        />
      </div>
      {!wildcard && (
        <p className="text-muted text-sm">
          Ports open in the browser once an administrator sets{' '}
          <code className="font-mono">CODER_WILDCARD_ACCESS_URL</code>. Until then, forward them to your computer.
        </p>
      )}
      <QueryView query={listening}>
        {({ ports }) => {
          const names = new Map(ports.map(({ port, process_name: name }) => [port, name]));
          const all = [...new Set([...names.keys(), ...mine.map(({ port }) => port)])].sort((a, b) => a - b);
          return all.length === 0 ? (
            <p className="text-muted text-sm">No program listens on a port now.</p>
          ) : (
            <ul className="divide-y divide-line rounded-md border border-line">
              {all.map((port) => (
                <PortRow
                  key={port}
                  port={port}
                  process={names.get(port)}
                  share={mine.find((share) => share.port === port)}
                  workspace={workspace}
                  agent={agent}
                  most={template?.max_port_share_level}
                />
              ))}
            </ul>
          );
        }}
      </QueryView>
      {wildcard ? <OpenPort workspace={workspace} agent={agent} /> : <CodeLine code={forwardCommand(target, 8080)} />}
    </div>
  );
}

function PortRow({
  port,
  process,
  share,
  workspace,
  agent,
  most = 'owner',
}: {
  port: number;
  process: string | undefined;
  share: WorkspaceAgentPortShare | undefined;
  workspace: Workspace;
  agent: WorkspaceAgent;
  most?: Template['max_port_share_level'] | undefined;
}) {
  const server = useAppServer();
  const target = useTarget(workspace, agent);
  const [protocol, setProtocol] = useState<Protocol>(share?.protocol ?? 'http');
  const change = useChange(
    async ({ level, protocol: next }: { level: Level; protocol: Protocol }) => {
      const params = { workspace: workspace.id };
      if (level === 'owner')
        await call('DELETE /workspaces/{workspace}/port-share', { params, body: { agent_name: agent.name, port } });
      else
        await call('POST /workspaces/{workspace}/port-share', {
          params,
          body: { agent_name: agent.name, port, protocol: next, share_level: level },
        });
    },
    { refetch: ['GET /workspaces/{workspace}/port-share'] },
  );
  const level = share?.share_level ?? 'owner';
  const permitted = LEVELS.slice(0, LEVELS.findIndex((each) => each.level === most) + 1);
  const href = portAddress(port, protocol, workspace, agent.name, server);
  return (
    <li className="flex flex-col gap-2 p-2.5">
      <div className="flex items-center gap-2">
        <span className="font-mono font-medium">{port}</span>
        <span className="min-w-0 flex-1 truncate text-muted text-sm">
          {process === undefined ? 'Nothing listens' : process || 'Process of another user'}
        </span>
        {href && (
          <a href={href} target="_blank" rel="noreferrer" className={buttonClass('ghost', 'sm')}>
            Open
            <ExternalIcon size={13} aria-hidden="true" />
            <span className="sr-only"> port {port}</span>
          </a>
        )}
        {share && (
          <IconButton
            icon={Trash2}
            size="sm"
            label={`Stop sharing port ${port}`}
            onClick={() => change.mutate({ level: 'owner', protocol })}
          />
        )}
      </div>
      <CodeLine code={forwardCommand(target, port)} label={`Copy the command for port ${port}`} />
      <div className="flex gap-2">
        <NativeSelect
          aria-label={`Protocol of port ${port}`}
          value={protocol}
          className="max-w-24"
          onChange={(event) => {
            const next = event.target.value as Protocol;
            setProtocol(next);
            if (share) change.mutate({ level, protocol: next });
          }}
        >
          <option value="http">HTTP</option>
          <option value="https">HTTPS</option>
        </NativeSelect>
        <NativeSelect
          aria-label={`Who may open port ${port}`}
          value={level}
          disabled={change.isPending || permitted.length < 2}
          onChange={(event) => change.mutate({ level: event.target.value as Level, protocol })}
        >
          {LEVELS.filter((each) => permitted.includes(each) || each.level === level).map((each) => (
            <option key={each.level} value={each.level}>
              {each.name}
            </option>
          ))}
        </NativeSelect>
      </div>
    </li>
  );
}

function OpenPort({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) {
  const id = useId();
  const server = useAppServer();
  const [port, setPort] = useState('');
  const number = Number(port);
  const valid = /^\d+$/.test(port) && number >= 1 && number <= 65_535;
  return (
    <form
      className="flex items-end gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        const href = valid && portAddress(number, 'http', workspace, agent.name, server);
        if (href) window.open(href, '_blank', 'noreferrer');
      }}
    >
      <label htmlFor={id} className="text-muted text-sm leading-8">
        Another port
      </label>
      <Input id={id} inputMode="numeric" value={port} onChange={(event) => setPort(event.target.value)} />
      <Button type="submit" disabled={!valid}>
        Open
      </Button>
    </form>
  );
}
