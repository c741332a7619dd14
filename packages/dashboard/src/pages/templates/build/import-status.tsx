import type { PendingReason, ProvisionerJob, ProvisionerJobStatus, TemplateVersion } from '@ropewalk/contract';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { Status } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import type { Tone } from '../../../ui/classes.ts';
import type { JobLogHandle } from '../../../ui/job-log.ts';
import { Link } from '../../../ui/link.tsx';
import { FailureExcerpt, LogExcerpt } from '../../../ui/log-excerpt.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { TagList } from '../../../ui/tags.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDuration } from '../../../util/time.ts';
import type { Problem } from './problems.ts';
import { tagRows } from './tags.ts';
import type { ImportAgain } from './use-import-again.ts';

const STATUS: Record<ProvisionerJobStatus, { tone: Tone; name: string }> = {
  pending: { tone: 'busy', name: 'Waiting' },
  running: { tone: 'busy', name: 'Importing' },
  succeeded: { tone: 'good', name: 'Ready' },
  canceling: { tone: 'busy', name: 'Canceling' },
  canceled: { tone: 'neutral', name: 'Canceled' },
  failed: { tone: 'bad', name: 'Failed' },
  unknown: { tone: 'warn', name: 'Unknown' },
};

/** The state of a version's import. */
export function ImportStatus({ job }: { job: Pick<ProvisionerJob, 'status'> }) {
  const { tone, name } = STATUS[job.status];
  return <Status tone={tone}>{name}</Status>;
}

const tagText = (tags: Record<string, string>) =>
  tagRows(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');

/** What to do about a job that no daemon takes. */
function nextStep({ reason, estimated_wait_seconds: wait }: PendingReason): string {
  if (reason === 'no_matching_provisioners') return 'Start a provisioner daemon with these tags, or change the tags.';
  if (reason === 'provisioners_offline')
    return 'Start the matching provisioner daemons, or find out why they are offline.';
  if (reason === 'provisioners_busy' && wait) return `The wait is about ${formatDuration(wait * 1_000)}.`;
  return '';
}

/** Why an import waits, why it failed, or nothing. */
export function ImportNotice({
  version,
  organizationName,
  log,
  problems,
  again,
  onOpen,
}: {
  version: TemplateVersion;
  organizationName: string;
  log: JobLogHandle;
  problems: readonly Problem[];
  /** Imports the source again, with the tags that the template names. Undefined for people who may not import it. */
  again: ImportAgain | undefined;
  /** Shows the place of a problem. */
  onOpen?: (problem: Problem) => void;
}) {
  const { job } = version;
  const cancel = useChange(
    () => call('PATCH /templateversions/{templateversion}/cancel', { params: { templateversion: version.id } }),
    { refetch: ['GET /templateversions/{templateversion}'] },
  );
  const why = job.pending_reason;
  if (job.status === 'pending' && why && why.reason !== 'starting') {
    const blocked = why.reason !== 'provisioners_busy';
    return (
      <Notice
        tone={blocked ? 'warn' : 'neutral'}
        title={blocked ? 'The import waits for a provisioner daemon' : 'The import waits for its turn'}
        detail={why.template_tags ? undefined : [why.message, nextStep(why)].filter(Boolean).join(' ')}
        actions={
          again && (
            <>
              {why.template_tags && (
                <Button size="sm" look="primary" pending={again.isPending} onClick={() => again.mutate(version)}>
                  Add these tags and import again
                </Button>
              )}
              <Button size="sm" pending={cancel.isPending} disabled={again.isPending} onClick={() => cancel.mutate()}>
                Cancel the import
              </Button>
            </>
          )
        }
      >
        {why.template_tags && (
          <>
            <p className="text-text">
              No provisioner daemon takes it without the tags that the template names for its workspaces:
            </p>
            <TagList tags={tagRows(why.template_tags)} />
          </>
        )}
        <div className="text-sm text-text">
          {tagText(job.tags) && <>Tags of this import: {tagText(job.tags)}. </>}
          {why.queue_position > 0 && (
            <>
              Position {why.queue_position} of {why.queue_size}.{' '}
            </>
          )}
          <Link to={paths.provisioners(organizationName)}>Provisioner daemons</Link>
        </div>
      </Notice>
    );
  }
  if (job.status === 'failed') {
    const errors = problems.filter(({ severity }) => severity === 'error');
    return (
      <Notice
        tone="bad"
        title={
          job.error_code === 'REQUIRED_TEMPLATE_VARIABLES'
            ? 'The template has variables without a value. Enter them and import it again.'
            : errors.length > 0
              ? `The import failed with ${errors.length === 1 ? 'an error' : `${errors.length} errors`}`
              : 'The import failed'
        }
      >
        {errors.length > 0 ? (
          <ProblemList problems={errors} log={log} {...(onOpen ? { onOpen } : {})} />
        ) : (
          <FailureExcerpt log={log} job={job} />
        )}
      </Notice>
    );
  }
  if (job.status === 'canceled') return <Notice title="The import was canceled" detail={job.error} />;
  return null;
}

/** Problems with their places, which open the source, and their lines, which open the log. */
export function ProblemList({
  problems,
  log,
  onOpen,
}: {
  problems: readonly Problem[];
  log: JobLogHandle;
  onOpen?: (problem: Problem) => void;
}) {
  return (
    <ul className="flex flex-col gap-2">
      {problems.map((problem, at) => {
        const place = problem.file && `${problem.file}:${problem.line}`;
        return (
          <li key={at} className="min-w-0">
            {place && onOpen && (
              <button
                type="button"
                title="Show in the source"
                className="rounded-sm font-mono text-accent-text text-sm underline underline-offset-2"
                onClick={() => onOpen(problem)}
              >
                {place}
              </button>
            )}
            <LogExcerpt label={problem.summary} lines={problem.excerpt} onOpen={log.show} />
          </li>
        );
      })}
    </ul>
  );
}
