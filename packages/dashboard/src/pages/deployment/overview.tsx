import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import { buildInfoQuery } from '../../api/me.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Link } from '../../ui/link.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { QueryView, Skeleton } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { OptionList } from './option-list.tsx';
import { searchOptions, sourceText } from './options.ts';
import { configQuery, statsQuery } from './queries.ts';

const Activity = lazy(() => import('./activity.tsx'));

export default function OverviewPage() {
  const may = useSitePermissions();
  const build = useQuery(buildInfoQuery);
  const config = useQuery(configQuery);
  const [search, setSearch] = useState('');
  return (
    <SidebarPage title="Overview" area="Deployment">
      {may.readDeploymentStats && <Stats />}
      {may.readDeploymentStats && (
        <Suspense
          fallback={
            <div className="grid gap-5 lg:grid-cols-2">
              <Skeleton className="h-72" />
              <Skeleton className="h-72" />
            </div>
          }
        >
          <Activity />
        </Suspense>
      )}
      <Section title="This server">
        <QueryView query={build}>
          {(info) => (
            <Facts
              facts={[
                ['Version', info.version],
                ['Address', info.dashboard_url || location.origin],
                [
                  'Deployment ID',
                  <span key="id" className="flex items-center gap-1">
                    <code className="break-all font-mono text-sm">{info.deployment_id}</code>
                    <CopyButton text={info.deployment_id} label="Copy the deployment ID" />
                  </span>,
                ],
              ]}
            />
          )}
        </QueryView>
      </Section>
      <div className="flex flex-col gap-3">
        <h2 className="font-semibold text-lg">Options</h2>
        <div className="flex">
          <SearchInput
            label="Search all options"
            placeholder="Search all options…"
            value={search}
            onChange={setSearch}
          />
        </div>
        <QueryView query={config}>
          {({ options }) => {
            const visible = options.filter(({ hidden }) => !hidden);
            const shown = search ? searchOptions(visible, search) : visible.filter(sourceText);
            return (
              <>
                <p className="text-muted text-sm" role="status">
                  {search
                    ? `${shown.length} of ${visible.length} options match.`
                    : `${shown.length} of ${visible.length} options are not at their default.`}
                </p>
                <OptionList options={shown} />
              </>
            );
          }}
        </QueryView>
      </div>
    </SidebarPage>
  );
}

/** Figures of workspaces and connections. */
function Stats() {
  const stats = useQuery(statsQuery);
  const { workspaces, session_count: sessions } = stats.data ?? {};
  const connections = sessions && sessions.ssh + sessions.vscode + sessions.jetbrains + sessions.reconnecting_pty;
  const figures: [name: string, value: number | undefined, filter?: string][] = [
    ['Running', workspaces?.running, 'status:running'],
    ['Building', workspaces && workspaces.building + workspaces.pending, 'status:starting'],
    ['Stopped', workspaces?.stopped, 'status:stopped'],
    ['Failed', workspaces?.failed, 'status:failed'],
    ['Connections', connections],
  ];
  return (
    <dl className="grid grid-cols-2 gap-px overflow-hidden rounded-lg border border-line bg-line sm:grid-cols-5">
      {figures.map(([name, value, filter]) => (
        <div key={name} className="flex flex-col bg-surface px-4 py-3 max-sm:last:col-span-2">
          <dt className="order-2 text-muted text-sm">
            {filter ? (
              <Link to={paths.workspaces(filter)} plain className="hover:underline">
                {name}
              </Link>
            ) : (
              name
            )}
          </dt>
          <dd className="order-1 flex h-8 items-center font-semibold text-2xl tabular-nums">
            {value ?? (stats.isError ? '–' : <Skeleton className="w-8" />)}
          </dd>
        </div>
      ))}
    </dl>
  );
}
