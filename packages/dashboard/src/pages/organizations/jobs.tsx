import type { PendingReason, ProvisionerJob, ProvisionerJobStatus } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { CircleX, ListChecks, X } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { apiQuery, queryClient } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { useJobLog } from '../../ui/job-log.ts';
import { FailureExcerpt } from '../../ui/log-excerpt.tsx';
import { LogView } from '../../ui/log-view.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Section } from '../../ui/page.tsx';
import { Select } from '../../ui/select.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { TagList } from '../../ui/tags.tsx';
import { useSearchParams } from '../../util/route.ts';
import { formatDuration, formatExact, formatRelative, serverNow, useNow } from '../../util/time.ts';
import { JOB_STATUSES, JobStatus } from './job-status.tsx';
import { differences, isActive, jobLogPath, jobTitle, remedy, shownTags } from './provisioning.ts';
import { useOrganization } from './use-organization.ts';

const MOST = 100;
const ALL = 'all';

export default function JobsPage() {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const [{ ids = '', status = '' }, setSearch] = useSearchParams();
  const query = apiQuery(
    'GET /organizations/{organization}/provisionerjobs',
    [{ kind: 'job', id: organization.id }, { kind: 'provisioner' }],
    { params: { organization: organization.id }, query: { limit: MOST, ids, status } },
  );
  const jobs = useQuery(query);
  const [canceled, setCanceled] = useState<ProvisionerJob>();
  const mayCancel = ({ type }: ProvisionerJob) =>
    type === 'workspace_build' ? may.updateWorkspaces : may.updateTemplates;
  const filtered = ids !== '' || status !== '';
  return (
    <SidebarPage
      title="Jobs"
      area={organization.display_name || organization.name}
      description="Imports of templates, dry runs, and builds of workspaces."
    >
      {/* with the first job there is something to filter */}
      {(filtered || jobs.data?.length !== 0) && (
        <div className="flex flex-wrap items-center gap-2">
          <Select
            label="State"
            className="max-w-44"
            value={status || ALL}
            onChange={(value) => setSearch({ status: value === ALL ? '' : value })}
            options={[
              { value: ALL, label: 'All states' },
              ...(Object.keys(JOB_STATUSES) as ProvisionerJobStatus[]).map((value) => ({
                value,
                label: JOB_STATUSES[value].name,
              })),
              // a link may name several
              ...(status.includes(',') ? [{ value: status, label: status.replaceAll(',', ', ') }] : []),
            ]}
          />
          {ids !== '' && (
            <Button icon={X} onClick={() => setSearch({ ids: '' })}>
              {ids.includes(',') ? `${ids.split(',').length} jobs` : `Job ${ids.slice(0, 8)}`}
            </Button>
          )}
        </div>
      )}
      <Section flush>
        <QueryView query={jobs}>
          {(rows) =>
            rows.length === 0 ? (
              <EmptyState
                icon={ListChecks}
                title={filtered ? 'No job matches' : 'No jobs yet'}
                action={filtered && <Button onClick={() => setSearch({ ids: '', status: '' })}>Show all jobs</Button>}
              >
                {filtered
                  ? `The newest ${MOST} jobs are searched.`
                  : 'Import a template or build a workspace, and its job appears here.'}
              </EmptyState>
            ) : (
              <ul aria-label="Jobs">
                {rows.map((job) => (
                  <JobRow key={job.id} job={job} onCancel={mayCancel(job) ? () => setCanceled(job) : undefined} />
                ))}
              </ul>
            )
          }
        </QueryView>
      </Section>
      {jobs.data?.length === MOST && (
        <p className="text-muted text-sm">The newest {MOST} jobs are shown. Filter to find others.</p>
      )}
      <ConfirmDialog
        open={canceled !== undefined}
        onClose={() => setCanceled(undefined)}
        title="Cancel the job?"
        action="Cancel job"
        danger
        onConfirm={async () => {
          await cancel(canceled!);
          await queryClient.invalidateQueries({ queryKey: query.queryKey });
        }}
      >
        {canceled?.status === 'pending'
          ? 'It has not started, so nothing is left behind.'
          : 'Terraform is asked to stop. What it has already created stays until the next build or deletion.'}
      </ConfirmDialog>
    </SidebarPage>
  );
}

function cancel({ id, type, input }: ProvisionerJob): Promise<unknown> {
  const templateversion = input.template_version_id ?? '';
  if (type === 'workspace_build')
    return call('PATCH /workspacebuilds/{workspacebuild}/cancel', {
      params: { workspacebuild: input.workspace_build_id ?? '' },
    });
  if (type === 'template_version_dry_run')
    return call('PATCH /templateversions/{templateversion}/dry-run/{jobID}/cancel', {
      params: { templateversion, jobID: id },
    });
  return call('PATCH /templateversions/{templateversion}/cancel', { params: { templateversion } });
}

function JobRow({ job, onCancel }: { job: ProvisionerJob; onCancel: (() => void) | undefined }) {
  const now = useNow();
  const { metadata } = job;
  const tags = shownTags(job.tags);
  const difference = job.pending_reason?.nearest?.difference;
  const lacking = difference ? Object.keys({ ...difference.missing, ...difference.different }) : [];
  const template = metadata.template_display_name || metadata.template_name;
  const started = job.started_at && new Date(job.started_at).getTime();
  const ended = job.completed_at ? new Date(job.completed_at).getTime() : serverNow();
  return (
    <li className="flex flex-col gap-2 border-line border-b px-4 py-3 last:border-b-0">
      <div className="flex items-start gap-x-4">
        <div className="flex min-w-0 flex-1 flex-col gap-1 sm:flex-row sm:items-start sm:gap-4">
          <div className="shrink-0 sm:w-24">
            <JobStatus status={job.status} />
          </div>
          <div className="flex min-w-0 flex-1 flex-col gap-1">
            <div className="flex min-w-0 flex-wrap items-baseline gap-x-2">
              <span className="wrap-anywhere font-medium">{jobTitle(job)}</span>
              <span className="wrap-anywhere text-muted text-sm">
                {job.type === 'workspace_build'
                  ? `${template} ${metadata.template_version_name}`
                  : template && metadata.template_version_name}
              </span>
            </div>
            {tags.length > 0 && <TagList tags={tags} missing={lacking} />}
          </div>
          <div className="flex shrink-0 flex-wrap gap-x-3 text-muted text-sm sm:block sm:w-40 sm:text-right">
            <div title={formatExact(job.created_at)}>{formatRelative(job.created_at, now)}</div>
            <div>
              {job.status === 'pending' && job.queue_size > 0 ? (
                <>
                  {job.queue_position} of {job.queue_size} in the queue
                </>
              ) : (
                started && (
                  <>
                    {formatDuration(ended - started)}
                    {job.worker_name && ` on ${job.worker_name}`}
                  </>
                )
              )}
            </div>
          </div>
        </div>
        <div className="w-7 shrink-0">
          {isActive(job) && onCancel && (
            <IconButton icon={CircleX} size="sm" label={`Cancel ${jobTitle(job)}`} onClick={onCancel} />
          )}
        </div>
      </div>
      {job.pending_reason && job.pending_reason.reason !== 'starting' && <Reason reason={job.pending_reason} />}
      {job.error && <Failure job={job} />}
    </li>
  );
}

/** Why a job failed. Its log is fetched when the person opens it: a list may have a hundred failed jobs. */
function Failure({ job }: { job: ProvisionerJob }) {
  const [open, setOpen] = useState(false);
  if (open) return <FailureWithLog job={job} />;
  return (
    <Notice
      tone="bad"
      title="It failed"
      detail={job.error}
      actions={
        job.started_at && (
          <Button size="sm" aria-label={`Show the log: ${jobTitle(job)}`} onClick={() => setOpen(true)}>
            Show the log
          </Button>
        )
      }
    />
  );
}

function FailureWithLog({ job }: { job: ProvisionerJob }) {
  const log = useJobLog(jobLogPath(job));
  return (
    <>
      <Notice tone="bad" title="It failed">
        <FailureExcerpt log={log} job={job} />
      </Notice>
      <LogView store={log.store} target={log.target} name={`job-${job.id}`} label="Log of the job" height="h-80" />
    </>
  );
}

const REASONS: Record<PendingReason['reason'], string> = {
  no_matching_provisioners: 'No daemon has its tags',
  provisioners_offline: 'Its daemons are offline',
  provisioners_busy: 'Its daemons are busy',
  starting: 'It is about to start',
};

/** Why a job waits, and what to do. */
function Reason({ reason }: { reason: PendingReason }) {
  const { nearest } = reason;
  return (
    <Notice
      tone={reason.reason === 'provisioners_busy' ? 'neutral' : 'warn'}
      title={REASONS[reason.reason]}
      detail={nearest ? undefined : reason.message}
    >
      {nearest && (
        <div className="flex flex-col gap-1.5 text-text">
          <div className="flex flex-wrap items-center gap-1.5">
            Nearest daemon: <Badge>{nearest.name}</Badge>
            <TagList tags={shownTags(nearest.tags)} none="without tags" />
          </div>
          <ul className="list-disc pl-5">
            {differences(nearest.difference).map((text) => (
              <li key={text} className="break-words">
                {text}
              </li>
            ))}
          </ul>
        </div>
      )}
      <div className="text-muted">{remedy(reason)}</div>
    </Notice>
  );
}
