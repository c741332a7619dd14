import type { ProvisionerJob } from '@ropewalk/contract';
import { cx } from './classes.ts';
import { type JobLogHandle, useLastError } from './job-log.ts';
import { type ExcerptLine, MAX_EXCERPT_LINES } from './log-errors.ts';
import { Skeleton } from './states.tsx';

const BOX = 'my-1 overflow-hidden rounded-md bg-surface py-1';

/** Why a job failed: the last error of its log, and the job's own message unless the log has it. */
export function FailureExcerpt({ log, job }: { log: JobLogHandle; job: Pick<ProvisionerJob, 'error' | 'started_at'> }) {
  const error = useLastError(log);
  if (error === undefined) return job.started_at !== undefined && <SkeletonExcerpt />;
  // the message of a job sums up what Terraform printed, and everything else is only there
  const isInLog = error[0] !== undefined && job.error?.includes(error[0].text.replace(/^Error: /, ''));
  return (
    <>
      {job.error && !isInLog && <div className="whitespace-pre-wrap break-words text-text">{job.error}</div>}
      {error.length > 0 && <LogExcerpt lines={error} onOpen={log.show} />}
    </>
  );
}

/** Lines of a log that say why something failed, the last of them the most. Each opens its place in the log. */
export function LogExcerpt({
  lines,
  onOpen,
  label = 'The last error of the log',
}: {
  lines: readonly ExcerptLine[];
  onOpen: (index: number) => void;
  label?: string;
}) {
  return (
    <ol aria-label={label} className={BOX}>
      {lines.map(({ index, text, afterGap }, at) => (
        <li key={index} className={cx(afterGap && 'mt-1 border-line border-t border-dashed pt-1')}>
          <button
            type="button"
            title="Show in the log"
            className="flex w-full gap-3 px-3 py-0.5 text-left font-mono text-text text-xs leading-5 hover:bg-hover"
            onClick={() => onOpen(index)}
          >
            <span aria-hidden="true" className="w-8 shrink-0 select-none text-right text-faint tabular-nums">
              {index + 1}
            </span>
            <span
              className={cx(
                'min-w-0 whitespace-pre-wrap break-words',
                // all of the others is in the log
                at === lines.length - 1 ? 'line-clamp-6 font-semibold' : 'line-clamp-1 sm:line-clamp-2',
              )}
            >
              {text}
            </span>
          </button>
        </li>
      ))}
    </ol>
  );
}

/** The place of an excerpt that is loading. Most have all lines, so that nothing below moves. */
function SkeletonExcerpt() {
  return (
    <div className={BOX}>
      <span className="sr-only" role="status">
        Loading
      </span>
      {Array.from({ length: MAX_EXCERPT_LINES }, (_, at) => (
        <div key={at} className="flex h-6 items-center px-3">
          <Skeleton className={at % 2 ? 'w-3/5' : 'w-4/5'} />
        </div>
      ))}
    </div>
  );
}
