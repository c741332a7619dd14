import type { PendingReason, ProvisionerJob, ProvisionerJobStatus, TemplateVersion } from '@platform/contract';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import { Status } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import type { Tone } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDuration } from '../../../util/time.ts';
import type { Problem } from './problems.ts';
import { tagRows } from './tags.ts';

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
    return 'Start the matching provisioner daemons, or look at why they are offline.';
  if (reason === 'provisioners_busy' && wait) return `The wait is about ${formatDuration(wait * 1_000)}.`;
  return '';
}

/** Why an import waits, why it failed, or nothing. */
export function ImportNotice({
  version,
  organizationName,
  problems,
  onOpen,
}: {
  version: TemplateVersion;
  organizationName: string;
  problems: readonly Problem[];
  /** Shows the place of a problem. */
  onOpen?: (problem: Problem) => void;
}) {
  const { job } = version;
  const cancel = useChange(
    () => call('PATCH /templateversions/{templateversion}/cancel', { params: { templateversion: version.id } }),
    { refetch: ['GET /templateversions/{templateversion}'] },
  );
  const cancelButton = (
    <Button size="sm" pending={cancel.isPending} onClick={() => cancel.mutate()}>
      Cancel the import
    </Button>
  );
  const why = job.pending_reason;
  if (job.status === 'pending' && why && why.reason !== 'starting') {
    const blocked = why.reason !== 'provisioners_busy';
    return (
      <Notice
        tone={blocked ? 'warn' : 'neutral'}
        title={blocked ? 'The import waits for a provisioner daemon' : 'The import waits for its turn'}
        detail={[why.message, nextStep(why)].filter(Boolean).join(' ')}
        actions={cancelButton}
      >
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
        detail={errors.length > 0 ? undefined : job.error}
      >
        {errors.length > 0 && <ProblemList problems={errors} {...(onOpen ? { onOpen } : {})} />}
      </Notice>
    );
  }
  if (job.status === 'canceled') return <Notice title="The import was canceled" detail={job.error} />;
  return null;
}

/** Problems with their places, which open the source. */
export function ProblemList({
  problems,
  onOpen,
}: {
  problems: readonly Problem[];
  onOpen?: (problem: Problem) => void;
}) {
  return (
    <ul className="flex flex-col gap-2">
      {problems.map((problem, at) => {
        const place = problem.file && `${problem.file}:${problem.line}`;
        return (
          <li key={at} className="min-w-0">
            <div className="break-words text-text">
              {place &&
                (onOpen ? (
                  <button
                    type="button"
                    className="mr-2 rounded-sm font-mono text-accent-text text-sm underline underline-offset-2"
                    onClick={() => onOpen(problem)}
                  >
                    {place}
                  </button>
                ) : (
                  <span className="mr-2 font-mono text-sm">{place}</span>
                ))}
              {problem.summary}
            </div>
            {problem.detail && (
              <div className="whitespace-pre-wrap break-words text-sm text-text">{problem.detail}</div>
            )}
          </li>
        );
      })}
    </ul>
  );
}
