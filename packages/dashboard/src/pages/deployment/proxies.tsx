import type { ProxyHealthStatus, WorkspaceProxy } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Ellipsis, Globe, KeyRound, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useSitePermissions } from '../../api/permissions.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { isPrimary, regionName } from '../../regions/choice.ts';
import { proxiesQuery } from '../../regions/store.ts';
import { Avatar } from '../../ui/avatar.tsx';
import { Status } from '../../ui/badge.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import type { Tone } from '../../ui/classes.ts';
import { Menu, MenuItem, MenuSeparator } from '../../ui/menu.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { formatExact, formatRelative, useNow } from '../../util/time.ts';
import { type AskedProxy, ProxyDialogs } from './proxy-dialogs.tsx';

/** Processes of proxies register without an event of the stream. */
const AGAIN_MS = 10_000;

const STATUS: Record<ProxyHealthStatus, { tone: Tone; name: string }> = {
  ok: { tone: 'good', name: 'Healthy' },
  unhealthy: { tone: 'bad', name: 'Unhealthy' },
  unreachable: { tone: 'bad', name: 'Unreachable' },
  unregistered: { tone: 'neutral', name: 'Not registered' },
};

/** The regions where people open apps and terminals: the servers and the workspace proxies. */
export default function ProxiesPage() {
  const may = useSitePermissions();
  const proxies = useQuery({ ...proxiesQuery, refetchInterval: AGAIN_MS });
  const [asked, setAsked] = useState<AskedProxy>();
  const columns = useColumns(setAsked);
  const regions = proxies.data?.regions;
  const create = may.createProxies && (
    <Button look="primary" icon={Plus} onClick={() => setAsked({ what: 'create' })}>
      Create proxy
    </Button>
  );
  const table = (rows: WorkspaceProxy[] | undefined) => (
    <Table label="Workspace proxies" columns={columns} rows={rows} rowKey={({ id }) => id} />
  );
  return (
    <SidebarPage
      title="Workspace proxies"
      area="Deployment"
      description="The regions where people open apps, ports and terminals."
      actions={regions && regions.length > 1 && create}
    >
      <Section flush>
        <QueryView query={proxies} loading={table(undefined)}>
          {({ regions: rows }) =>
            rows.length > 1 ? (
              table(rows)
            ) : (
              <EmptyState icon={Globe} title="No workspace proxies" action={create}>
                For people far from this server, apps and terminals in the browser are slow. A proxy is a process near
                these people that serves their apps and terminals. They choose it as their region.
              </EmptyState>
            )
          }
        </QueryView>
      </Section>
      <ProxyDialogs asked={asked} onClose={() => setAsked(undefined)} />
    </SidebarPage>
  );
}

/** The columns of the list. The last one has the menu, which asks with `onAsk`. */
function useColumns(onAsk: (asked: AskedProxy) => void): Column<WorkspaceProxy>[] {
  const may = useSitePermissions();
  const now = useNow(60_000);
  const muted = (text: string, title?: string) => (
    <span className="truncate text-muted" title={title}>
      {text}
    </span>
  );
  return [
    { name: 'Name', width: 'minmax(0,3fr)', cell: (proxy) => <Name proxy={proxy} /> },
    { name: 'Status', width: 'minmax(0,4fr)', cell: (proxy) => <ProxyStatus proxy={proxy} /> },
    {
      name: 'Address',
      width: 'minmax(0,3fr)',
      wideOnly: true,
      cell: ({ path_app_url: url, wildcard_hostname: wildcard }) => (
        <span className="flex min-w-0 flex-col text-sm">
          <span className="break-all">{url}</span>
          <span className="break-all text-muted">{wildcard}</span>
        </span>
      ),
    },
    { name: 'Version', width: '7rem', wideOnly: true, cell: ({ version }) => muted(version, version) },
    {
      name: 'Last seen',
      width: '8rem',
      wideOnly: true,
      cell: (proxy) => {
        const { last_seen_at: at } = proxy;
        if (isPrimary(proxy)) return muted('Now');
        return at ? muted(formatRelative(at, now), formatExact(at)) : muted('Never');
      },
    },
    actionsColumn(
      (proxy) =>
        (may.updateProxies || (may.deleteProxies && !isPrimary(proxy))) && (
          <Menu trigger={<IconButton icon={Ellipsis} size="sm" label={`Actions for ${proxy.name}`} />}>
            <ProxyActions proxy={proxy} onAsk={onAsk} />
          </Menu>
        ),
    ),
  ];
}

function Name({ proxy }: { proxy: WorkspaceProxy }) {
  const { name, icon_url: icon } = proxy;
  return (
    <span className="flex min-w-0 items-center gap-3">
      <Avatar square name={regionName(proxy)} src={icon} />
      <span className="flex min-w-0 flex-col">
        <span className="wrap-anywhere font-medium">{regionName(proxy)}</span>
        <span className="wrap-anywhere text-muted text-sm">{isPrimary(proxy) ? 'This server' : name}</span>
      </span>
    </span>
  );
}

/** The status with its reasons. */
function ProxyStatus({ proxy: { healthy, status, derp_only: isRelayOnly } }: { proxy: WorkspaceProxy }) {
  const { tone, name } = STATUS[status?.status ?? (healthy ? 'ok' : 'unhealthy')];
  const { errors = [], warnings = [] } = status?.report ?? {};
  const shownTone = tone === 'good' && warnings.length > 0 ? 'warn' : tone;
  return (
    <span className="flex min-w-0 flex-col gap-1">
      <Status tone={shownTone}>{shownTone === 'warn' ? `${name}, with warnings` : name}</Status>
      {status?.status === 'unregistered' && (
        <span className="text-muted text-sm">No process has used its token yet.</span>
      )}
      {isRelayOnly && <span className="text-muted text-sm">Relays connections, without apps and terminals.</span>}
      {[...errors, ...warnings].map((text) => (
        <span key={text} className="wrap-anywhere text-muted text-sm">
          {text}
        </span>
      ))}
    </span>
  );
}

/** The entries of a proxy's menu. */
function ProxyActions({ proxy, onAsk }: { proxy: WorkspaceProxy; onAsk: (asked: AskedProxy) => void }) {
  const may = useSitePermissions();
  return (
    <>
      {may.updateProxies && (
        <MenuItem icon={Pencil} onSelect={() => onAsk({ what: 'edit', proxy })}>
          Edit
        </MenuItem>
      )}
      {may.updateProxies && !isPrimary(proxy) && (
        <MenuItem icon={KeyRound} onSelect={() => onAsk({ what: 'replace', proxy })}>
          Replace token
        </MenuItem>
      )}
      {may.deleteProxies && !isPrimary(proxy) && (
        <>
          <MenuSeparator />
          <MenuItem icon={Trash2} danger onSelect={() => onAsk({ what: 'delete', proxy })}>
            Delete
          </MenuItem>
        </>
      )}
    </>
  );
}
