import type { Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { addedTags } from '@ropewalk/rules/provisioner-tags';
import type { ReactNode } from 'react';
import { useOrganizationPermissions } from '../../../api/permissions.ts';
import { LinkButton } from '../../../ui/button.tsx';
import { CodeLine } from '../../../ui/copy.tsx';
import type { JobLogHandle } from '../../../ui/job-log.ts';
import { FailureExcerpt } from '../../../ui/log-excerpt.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Skeleton } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDuration, formatRelative } from '../../../util/time.ts';

type Pending = NonNullable<WorkspaceBuild['job']['pending_reason']>;

interface ShownBuild {
  workspace: Workspace;
  build: WorkspaceBuild;
  log: JobLogHandle;
}

/** Why a build waits or has failed, who can change that, and how. */
export function BuildProblems({ workspace, build, log }: ShownBuild) {
  const { job } = build;
  return (
    <>
      {build.status === 'pending' && job.pending_reason && (
        <PendingProblem workspace={workspace} build={build} reason={job.pending_reason} />
      )}
      {job.status === 'failed' && <FailedProblem workspace={workspace} build={build} log={log} />}
      {job.status === 'canceled' && (
        <Notice
          tone="warn"
          title="The build was canceled"
          detail={[job.error, inFlightText(job.in_flight)].filter(Boolean).join('\n\n') || undefined}
        />
      )}
      {build.warning && (
        <Notice tone="warn" title="An administrator should look at this build" detail={build.warning} />
      )}
    </>
  );
}

function PendingProblem({
  workspace,
  build,
  reason,
}: {
  workspace: Workspace;
  build: WorkspaceBuild;
  reason: Pending;
}) {
  const may = useOrganizationPermissions(workspace.organization_id);
  if (reason.reason === 'starting') return null;
  if (reason.reason === 'provisioners_busy')
    return (
      <Notice
        title={`Waiting in the queue: position ${reason.queue_position} of ${reason.queue_size}`}
        detail={
          reason.estimated_wait_seconds === undefined
            ? 'All matching provisioner daemons work on other builds.'
            : `All matching provisioner daemons work on other builds. One is probably free in ${formatDuration(reason.estimated_wait_seconds * 1_000)}.`
        }
      />
    );
  const tags = addedTags(build.job.tags).map(([name, value]) => `${name}=${value}`);
  const offline = reason.reason === 'provisioners_offline';
  const seen = reason.matched_provisioners.most_recently_seen;
  return (
    <Notice
      tone="warn"
      title={
        offline
          ? 'All provisioner daemons that can take this build are offline'
          : 'No provisioner daemon can take this build'
      }
      detail={reason.message}
      actions={
        may.readProvisioners && (
          <LinkButton size="sm" to={paths.provisioners(workspace.organization_name)}>
            Provisioner daemons
          </LinkButton>
        )
      }
    >
      {offline && seen && <p className="text-text">One was last seen {formatRelative(seen)}.</p>}
      {may.createProvisionerKeys ? (
        <div className="flex flex-col gap-1.5 text-text">
          <p>{offline ? 'Start one of them again, or start another one:' : 'Start a daemon with these tags:'}</p>
          <CodeLine wrap code={['coder provisioner start', ...tags.map((tag) => `--tag ${tag}`)].join(' ')} />
        </div>
      ) : (
        <p className="text-text">
          An administrator of the organization {workspace.organization_name} can start a daemon
          {tags.length > 0 && (
            <>
              {' '}
              with the tags <code className="font-mono">{tags.join(', ')}</code>
            </>
          )}
          . The build then continues by itself.
        </p>
      )}
    </Notice>
  );
}

const inFlightText = (inFlight: readonly string[] | undefined): string =>
  inFlight && inFlight.length > 0
    ? `These resources may exist although Terraform did not finish them: ${inFlight.join(', ')}`
    : '';

function FailedProblem({ workspace, build, log }: ShownBuild) {
  const may = useOrganizationPermissions(workspace.organization_id);
  const { job } = build;
  const template = { organization_name: workspace.organization_name, name: workspace.template_name };
  const overBudget = job.error?.startsWith('insufficient quota');
  let help: ReactNode;
  // the text depends on it, and it must not move what is below when it changes
  if (may.updateTemplates === undefined) help = <Skeleton className="w-3/5" />;
  else if (job.error_code === 'REQUIRED_TEMPLATE_VARIABLES')
    help = may.updateTemplates
      ? 'Set the missing variables in the settings of the template.'
      : 'The template lacks values for its variables. An administrator of the template can set them.';
  else if (job.started_at === undefined)
    help = 'The build never began. An administrator can check the provisioner daemons.';
  // the error itself says what to do
  else if (overBudget) help = may.updateGroups && 'You can raise the allowance of a group of the owner.';
  else if (may.updateTemplates)
    help = 'If the error comes from a value, change the parameters. Otherwise, change the template.';
  else
    help = `If the error comes from a value that you chose, change the parameters. Otherwise, show it to those who maintain the template ${workspace.template_display_name || workspace.template_name}.`;
  return (
    <Notice
      tone="bad"
      title={TITLES[build.transition]}
      actions={
        <>
          {job.error_code !== 'REQUIRED_TEMPLATE_VARIABLES' && build.transition === 'start' && (
            <LinkButton size="sm" to={paths.workspaceParameters(workspace)}>
              Parameters
            </LinkButton>
          )}
          {overBudget && may.updateGroups && (
            <LinkButton size="sm" to={paths.groups(workspace.organization_name)}>
              Groups
            </LinkButton>
          )}
          {may.updateTemplates && (
            <LinkButton
              size="sm"
              to={
                job.error_code === 'REQUIRED_TEMPLATE_VARIABLES'
                  ? paths.templateVariables(template)
                  : paths.templateEditor(template, build.template_version_name)
              }
            >
              {job.error_code === 'REQUIRED_TEMPLATE_VARIABLES' ? 'Template variables' : 'Edit the template'}
            </LinkButton>
          )}
        </>
      }
    >
      <FailureExcerpt log={log} job={job} />
      {inFlightText(job.in_flight) && <p className="text-text">{inFlightText(job.in_flight)}</p>}
      {help && <div className="flex min-h-5.5 items-center text-text">{help}</div>}
    </Notice>
  );
}

const TITLES = {
  start: 'The workspace could not be started',
  stop: 'The workspace could not be stopped',
  delete: 'The workspace could not be deleted',
} as const;
