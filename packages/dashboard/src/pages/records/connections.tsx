import type { ConnectionLog } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { AppWindow, Cable, Code, type LucideIcon, Plug, SquareTerminal, Terminal } from 'lucide-react';
import { apiQuery } from '../../api/query.ts';
import { Badge, Status } from '../../ui/badge.tsx';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Link } from '../../ui/link.tsx';
import { Facts } from '../../ui/page.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { formatDuration, formatExact, formatRelative, useNow } from '../../util/time.ts';
import { Entry } from './entry.tsx';
import { programOf, RecordPage, useRecordQuery } from './frame.tsx';
import { connectionKeys } from './keys.ts';

const TYPES: Record<ConnectionLog['type'], { icon: LucideIcon; name: string; did: string }> = {
  ssh: { icon: Terminal, name: 'SSH', did: 'connected by SSH to' },
  vscode: { icon: Code, name: 'VS Code', did: 'connected with VS Code to' },
  jetbrains: { icon: Code, name: 'JetBrains', did: 'connected with JetBrains to' },
  reconnecting_pty: { icon: SquareTerminal, name: 'Terminal', did: 'opened a terminal in' },
  workspace_app: { icon: AppWindow, name: 'App', did: 'opened an app of' },
  port_forwarding: { icon: Cable, name: 'Port', did: 'opened a port of' },
};

export default function ConnectionLogPage() {
  const search = useRecordQuery();
  const now = useNow(30_000);
  const logs = useQuery({
    ...apiQuery('GET /connectionlog', [], { query: search.query }),
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  return (
    <RecordPage
      title="Connection log"
      description="Who connected to which workspace, from where, and for how long."
      keys={connectionKeys}
      exportPath="/connectionlog/export"
      placeholder="Search, for example type:ssh status:ongoing"
      search={search}
      logs={logs}
      entries={logs.data?.connection_logs ?? []}
      empty={
        <EmptyState
          icon={Plug}
          title={search.filter ? 'No connection matches' : 'No connections yet'}
          action={
            search.filter ? (
              <Button onClick={() => search.setFilter('')}>Show all connections</Button>
            ) : (
              <LinkButton to={paths.workspaces()}>Workspaces</LinkButton>
            )
          }
        >
          {!search.filter && 'Connections by SSH, editors, terminals, apps and ports appear here.'}
        </EmptyState>
      }
      label="Connections"
    >
      {(log) => <ConnectionEntry key={log.id} log={log} now={now} />}
    </RecordPage>
  );
}

function ConnectionEntry({ log, now }: { log: ConnectionLog; now: number }) {
  const { icon: Icon, name, did } = TYPES[log.type];
  const person = log.user?.username ?? 'Somebody';
  const what = log.web_info?.slug_or_port;
  const workspace = { owner_name: log.workspace_owner_username, name: log.workspace_name };
  const label = `${workspace.owner_name}/${workspace.name}`;
  const code = log.ssh_info?.exit_code;
  return (
    <Entry
      label={`Details: ${person} ${did} ${label}`}
      picture={
        <span className="flex size-7 shrink-0 items-center justify-center rounded-md bg-active text-muted">
          <Icon size={15} aria-hidden="true" />
        </span>
      }
      title={
        <>
          <strong className="font-medium">{person}</strong> {did}{' '}
          <Link to={paths.workspace(workspace)} className="font-medium">
            {label}
          </Link>
          {what && <span className="text-muted">: {what}</span>}
        </>
      }
      note={
        <>
          <time dateTime={log.connect_time} title={formatExact(log.connect_time)}>
            {formatRelative(log.connect_time, now)}
          </time>
          {log.disconnect_time && (
            <span>for {formatDuration(Date.parse(log.disconnect_time) - Date.parse(log.connect_time))}</span>
          )}
          {log.ip && <span>from {log.ip}</span>}
          {log.reported_by_agent && <span>as the workspace reports</span>}
          {programOf(log.user_agent) && <span>by {programOf(log.user_agent)}</span>}
        </>
      }
      aside={
        code !== undefined && code !== 0 ? (
          <Badge tone="warn">exit {code}</Badge>
        ) : log.ssh_info && !log.disconnect_time ? (
          <Status tone="good">Open</Status>
        ) : undefined
      }
    >
      <Facts
        facts={[
          ['Kind', name],
          ['From', formatExact(log.connect_time)],
          log.disconnect_time ? ['Until', formatExact(log.disconnect_time)] : undefined,
          log.ssh_info?.disconnect_reason ? ['Ended because', log.ssh_info.disconnect_reason] : undefined,
          code !== undefined && ['Exit code', String(code)],
          log.user && ['Person', `${log.user.username} (${log.user.email})`],
          ['Agent', log.agent_name],
          what ? [log.type === 'workspace_app' ? 'App' : 'Port', what] : undefined,
          log.ip ? ['Address', log.ip] : undefined,
          log.user_agent
            ? [
                'Program',
                <span key="value" className="wrap-anywhere">
                  {log.user_agent}
                </span>,
              ]
            : undefined,
          ['Organization', log.organization.display_name || log.organization.name],
          log.ssh_info && [
            'Connection',
            <code key="value" className="break-all text-sm">
              {log.ssh_info.connection_id}
            </code>,
          ],
        ]}
      />
    </Entry>
  );
}
