import type { ProvisionerDaemon, ProvisionerDaemonJob } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { useQuery } from '@tanstack/react-query';
import { Plus, Server } from 'lucide-react';
import { buildInfoQuery } from '../../api/me.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { apiQuery } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Badge, Status } from '../../ui/badge.tsx';
import { LinkButton } from '../../ui/button.tsx';
import type { Tone } from '../../ui/classes.ts';
import { RowLink } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { TagList } from '../../ui/tags.tsx';
import { isOutdated } from '../../util/outdated.ts';
import { paths } from '../../util/paths.ts';
import { formatRelative, useNow } from '../../util/time.ts';
import { JobStatus } from './job-status.tsx';
import { byAttention, engineName, shownTags } from './provisioning.ts';
import { useOrganization } from './use-organization.ts';

const STATUS: Record<string, { tone: Tone; name: string }> = {
  idle: { tone: 'good', name: 'Idle' },
  busy: { tone: 'busy', name: 'Busy' },
  offline: { tone: 'bad', name: 'Offline' },
};

export default function ProvisionersPage() {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const version = useQuery(buildInfoQuery).data?.version;
  const now = useNow();
  const daemons = useQuery(
    apiQuery(
      'GET /organizations/{organization}/provisionerdaemons',
      [{ kind: 'provisioner' }, { kind: 'job', id: organization.id }],
      { params: { organization: organization.id }, query: { limit: 1_000 } },
    ),
  );
  const columns: Column<ProvisionerDaemon>[] = [
    {
      name: 'Daemon',
      cell: (daemon) => (
        <span className="flex min-w-0 flex-col gap-1">
          <span className="flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1">
            <span className="wrap-anywhere font-medium">{daemon.name}</span>
            {isOutdated(daemon, version) && <Badge tone="warn">{daemon.version}, not the server's</Badge>}
          </span>
          <TagList tags={shownTags(daemon.tags)} />
        </span>
      ),
    },
    {
      name: 'Job',
      width: 'minmax(0,2fr)',
      wideOnly: true,
      cell: (daemon) => <DaemonJob daemon={daemon} organization={organization.name} />,
    },
    {
      name: 'State',
      width: '7.5rem',
      cell: (daemon) => {
        const { tone, name } = ownValue(STATUS, daemon.status ?? 'offline')!;
        return (
          <span className="flex flex-col">
            <Status tone={tone}>{name}</Status>
            {daemon.status === 'offline' && daemon.last_seen_at && (
              <span className="text-muted text-sm">{formatRelative(daemon.last_seen_at, now)}</span>
            )}
          </span>
        );
      },
    },
    {
      name: 'Key',
      width: '8rem',
      wideOnly: true,
      cell: (daemon) => <span className="truncate text-muted">{daemon.key_name}</span>,
    },
    {
      name: 'Version',
      width: '9rem',
      wideOnly: true,
      cell: (daemon) => (
        <span className="flex min-w-0 flex-col text-muted">
          <span title={daemon.version} className="truncate">
            {daemon.version.split('+')[0]}
          </span>
          {daemon.engines?.map((engine) => (
            <span key={engine} className="truncate text-sm">
              {engineName(engine)}
            </span>
          ))}
        </span>
      ),
    },
  ];
  return (
    <SidebarPage
      title="Provisioners"
      area={organization.display_name || organization.name}
      description="Daemons that run Terraform for templates and workspaces. A daemon takes the jobs whose tags it has."
      actions={
        // an empty list has the button itself
        may.createProvisionerKeys &&
        daemons.data?.length !== 0 && (
          <LinkButton to={paths.provisionerKeys(organization.name)} icon={Plus}>
            Add a daemon
          </LinkButton>
        )
      }
    >
      <Section flush>
        <QueryView
          query={daemons}
          loading={<Table label="Provisioners" columns={columns} rows={undefined} rowKey={(daemon) => daemon.id} />}
        >
          {(rows) => (
            <Table
              label="Provisioners"
              columns={columns}
              rows={byAttention(rows, version)}
              rowKey={(daemon) => daemon.id}
              empty={
                <EmptyState
                  icon={Server}
                  title="No provisioner daemons"
                  action={
                    may.createProvisionerKeys && (
                      <LinkButton to={paths.provisionerKeys(organization.name)} look="primary">
                        Create a provisioner key
                      </LinkButton>
                    )
                  }
                >
                  Builds of this organization wait until a daemon is connected. Create a key and start a daemon with it.
                </EmptyState>
              }
            />
          )}
        </QueryView>
      </Section>
    </SidebarPage>
  );
}

function DaemonJob({ daemon, organization }: { daemon: ProvisionerDaemon; organization: string }) {
  const shown: [string, ProvisionerDaemonJob][] = [];
  if (daemon.current_job) shown.push(['Now', daemon.current_job]);
  if (daemon.previous_job) shown.push(['Last', daemon.previous_job]);
  if (shown.length === 0) return <span className="text-faint">No job yet</span>;
  return (
    <span className="flex min-w-0 flex-col gap-0.5">
      {shown.map(([label, job]) => (
        <span key={label} className="flex min-w-0 items-center gap-2 text-sm">
          <span className="w-7 shrink-0 text-muted">{label}</span>
          <RowLink to={paths.provisionerJobs(organization, { ids: job.id })} className="flex min-w-0 gap-2">
            <JobStatus status={job.status} />
            <span className="truncate text-muted">{job.template_display_name || job.template_name}</span>
          </RowLink>
        </span>
      ))}
    </span>
  );
}
