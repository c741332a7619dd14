import type { HealthcheckReport, HealthSeverity } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { BellOff, BellRing, RefreshCw } from 'lucide-react';
import type { ReactNode } from 'react';
import { call } from '../../api/client.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { queryClient, useChange } from '../../api/query.ts';
import { NotFoundPage } from '../../layouts/problems.tsx';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Badge, Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { TagList } from '../../ui/tags.tsx';
import { useRouteParams } from '../../util/route.ts';
import { formatDuration, formatRelative, useNow } from '../../util/time.ts';
import { shownTags } from '../organizations/provisioning.ts';
import { HEALTH_SECTIONS, type HealthSectionInfo, REMEDIES, SEVERITIES } from './health-sections.ts';
import { healthQuery } from './queries.ts';

export default function HealthPage() {
  const { section: path } = useRouteParams<'section'>();
  const report = useQuery(healthQuery);
  const section = HEALTH_SECTIONS.find((each) => each.path === path);
  const check = useChange(() => call('GET /debug/health', { query: { force: true } }), {
    onSuccess: (fresh) => queryClient.setQueryData(healthQuery.queryKey, fresh),
  });
  if (!section) return <NotFoundPage />;
  return (
    <SidebarPage
      title={section.name}
      area="Health"
      description={report.data ? <Checked at={report.data.time} /> : <>&nbsp;</>}
      actions={
        <Button icon={RefreshCw} pending={check.isPending} onClick={() => check.mutate()}>
          Check again
        </Button>
      }
    >
      <QueryView query={report} loading={<SkeletonLines lines={6} />}>
        {(data) => <SectionReport section={section} report={data} />}
      </QueryView>
    </SidebarPage>
  );
}

function Checked({ at }: { at: string }) {
  return <>Checked {formatRelative(at, useNow())}</>;
}

function SectionReport({ section, report }: { section: HealthSectionInfo; report: HealthcheckReport }) {
  const part = report[section.key];
  const error = 'error' in part ? part.error : null;
  const dismissed = 'dismissed' in part && part.dismissed;
  return (
    <>
      <Section>
        <div className="flex flex-wrap items-center gap-3">
          <Severity severity={part.severity} />
          {dismissed && <Badge icon={BellOff}>Muted</Badge>}
          <div className="flex-1" />
          {section.dismiss && (part.severity !== 'ok' || dismissed) && (
            <MuteButton section={section.dismiss} dismissed={dismissed} />
          )}
        </div>
        {error && <Notice tone="bad" title="The check failed" detail={error} />}
        {part.warnings.map((warning) => (
          <Notice key={warning.code + warning.message} tone="warn" title={warning.message} detail={warning.code} />
        ))}
        {(part.severity !== 'ok' || error) && (
          <p className="text-muted">
            <b className="font-medium text-text">What to do: </b>
            {REMEDIES[section.path]}
          </p>
        )}
        <SectionFacts section={section} report={report} />
      </Section>
      {section.path === 'provisioner-daemons' && <Daemons report={report} />}
      {section.path === 'servers' && <Servers report={report} />}
      {section.path === 'background-tasks' && <Tasks report={report} />}
      {section.path === 'workspace-proxy' && report.workspace_proxy.workspace_proxies.regions.length <= 1 && (
        <Section>
          <EmptyState title="No workspace proxies">This server reaches all workspaces by itself.</EmptyState>
        </Section>
      )}
    </>
  );
}

function Severity({ severity }: { severity: HealthSeverity }) {
  const { tone, name } = SEVERITIES[severity];
  return (
    <span className="font-medium text-lg">
      <Status tone={tone}>{name}</Status>
    </span>
  );
}

function MuteButton({
  section,
  dismissed,
}: {
  section: NonNullable<HealthSectionInfo['dismiss']>;
  dismissed: boolean;
}) {
  const may = useSitePermissions();
  const mute = useChange(
    async () => {
      const { dismissed_healthchecks: now } = await call('GET /debug/health/settings');
      const others = now.filter((each) => each !== section);
      await call('PUT /debug/health/settings', {
        body: { dismissed_healthchecks: dismissed ? others : [...others, section] },
      });
    },
    { refetch: ['GET /debug/health'] },
  );
  if (!may.updateDeploymentConfig) return null;
  return (
    <Button size="sm" icon={dismissed ? BellRing : BellOff} pending={mute.isPending} onClick={() => mute.mutate()}>
      {dismissed ? 'Unmute' : 'Mute'}
    </Button>
  );
}

function SectionFacts({ section, report }: { section: HealthSectionInfo; report: HealthcheckReport }) {
  const facts: (readonly [string, ReactNode])[] = [];
  const yes = (value: boolean) => (value ? 'Yes' : 'No');
  switch (section.path) {
    case 'access-url': {
      const { access_url, reachable, status_code, healthz_response } = report.access_url;
      facts.push(['Address', access_url], ['Reachable', yes(reachable)]);
      facts.push(['Answer', `${status_code || 'none'} ${healthz_response}`]);
      break;
    }
    case 'database': {
      const { reachable, latency_ms, threshold_ms } = report.database;
      facts.push(['Reachable', yes(reachable)], ['Latency', `${latency_ms} ms`]);
      facts.push(['Warns above', `${threshold_ms} ms`]);
      break;
    }
    case 'derp':
      for (const { region, severity } of Object.values(report.derp.regions))
        facts.push([region.RegionName, SEVERITIES[severity].name]);
      break;
    case 'websocket':
      facts.push(['Answer', report.websocket.code], ['Body', report.websocket.body || 'none']);
      break;
    case 'workspace-proxy':
      for (const proxy of report.workspace_proxy.workspace_proxies.regions)
        facts.push([proxy.display_name || proxy.name, yes(proxy.healthy)]);
      break;
    default:
  }
  return facts.length > 0 && <Facts facts={facts} />;
}

function Daemons({ report }: { report: HealthcheckReport }) {
  const now = useNow();
  return (
    <Section flush title="Daemons">
      <Table
        label="Daemons"
        rows={report.provisioner_daemons.items}
        rowKey={({ provisioner_daemon: { id } }) => id}
        empty={<EmptyState title="No provisioner daemons">Builds wait until one is connected.</EmptyState>}
        columns={[
          {
            name: 'Daemon',
            cell: ({ provisioner_daemon: daemon, warnings }) => (
              <span className="flex min-w-0 flex-col gap-1">
                <span className="wrap-anywhere font-medium">{daemon.name}</span>
                <TagList tags={shownTags(daemon.tags)} />
                {warnings.map(({ code, message }) => (
                  <span key={code} className="text-sm text-warn">
                    {message}
                  </span>
                ))}
              </span>
            ),
          },
          {
            name: 'Version',
            width: '10rem',
            wideOnly: true,
            cell: ({ provisioner_daemon: { version } }) => (
              <span title={version} className="truncate text-muted">
                {version.split('+')[0]}
              </span>
            ),
          },
          {
            name: 'Last seen',
            width: '9rem',
            cell: ({ provisioner_daemon: { last_seen_at } }) => (
              <span className="text-muted">{last_seen_at ? formatRelative(last_seen_at, now) : 'Never'}</span>
            ),
          },
        ]}
      />
    </Section>
  );
}

function Servers({ report }: { report: HealthcheckReport }) {
  const now = useNow();
  return (
    <Section flush title="Servers of this deployment">
      <Table
        label="Servers"
        rows={report.replicas.items}
        rowKey={({ id }) => id}
        columns={[
          {
            name: 'Server',
            width: 'minmax(0,2fr)',
            cell: ({ hostname, relay_address, error }) => (
              <span className="flex min-w-0 flex-col">
                <span className="wrap-anywhere font-medium">{hostname}</span>
                <span className="wrap-anywhere text-muted text-sm">
                  {relay_address || 'No address for other servers'}
                </span>
                {error && <span className="wrap-anywhere text-bad text-sm">Cannot reach {error}</span>}
              </span>
            ),
          },
          {
            name: 'Version',
            width: '10rem',
            wideOnly: true,
            cell: ({ version }) => (
              <span title={version} className="truncate text-muted">
                {version.split('+')[0]}
              </span>
            ),
          },
          {
            name: 'Database',
            numeric: true,
            width: '7rem',
            wideOnly: true,
            cell: ({ database_latency_ms: ms }) => <span className="text-muted">{ms.toFixed(1)} ms</span>,
          },
          {
            name: 'Started',
            width: '9rem',
            cell: ({ started_at }) => <span className="text-muted">{formatRelative(started_at, now)}</span>,
          },
        ]}
      />
    </Section>
  );
}

function Tasks({ report }: { report: HealthcheckReport }) {
  const now = useNow();
  return (
    <Section flush title="Tasks of the server that sent this report">
      <Table
        label="Background tasks"
        rows={report.background_tasks.items}
        rowKey={({ name }) => name}
        columns={[
          {
            name: 'Task',
            width: 'minmax(0,2fr)',
            cell: ({ name, error, failures }) => (
              <span className="flex min-w-0 flex-col">
                <span className="font-medium first-letter:uppercase">{name}</span>
                {error && (
                  <span className="break-words text-bad text-sm">
                    {error} ({failures} times)
                  </span>
                )}
              </span>
            ),
          },
          {
            name: 'Last run',
            width: '9rem',
            cell: ({ last_run_at }) => (
              <span className="text-muted">{last_run_at ? formatRelative(last_run_at, now) : 'Not yet'}</span>
            ),
          },
          {
            name: 'Took',
            numeric: true,
            width: '6rem',
            wideOnly: true,
            cell: ({ last_run_at, duration_ms }) => (
              <span className="text-muted">{last_run_at && formatDuration(duration_ms)}</span>
            ),
          },
          {
            name: 'Every',
            numeric: true,
            width: '6rem',
            wideOnly: true,
            cell: ({ period_ms }) => <span className="text-muted">{formatDuration(period_ms)}</span>,
          },
        ]}
      />
    </Section>
  );
}
