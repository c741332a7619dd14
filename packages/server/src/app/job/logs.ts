import type { ProvisionerJobLog } from '@ropewalk/contract';
import { jobLogs, newJobLogs } from '../../db/queries/job-logs.ts';
import type { Permission } from '../context/allowed.ts';
import type { Ctx } from '../context/context.ts';
import type { Source } from '../follow/follow.ts';
import { toJobLog } from './convert.ts';

const PAGE = 1_000;

/** A page of a job's log. */
export async function listJobLogs(
  ctx: Ctx,
  jobId: string,
  range: { after?: number | undefined; before?: number | undefined },
): Promise<ProvisionerJobLog[]> {
  return (await jobLogs(ctx.sql, jobId, range)).map(toJobLog);
}

/**
 * Sends a job's log as it grows, one text message per line, and closes once the job is final. The upstream client reads
 * the job once right after the close to get the result.
 */
export function jobLogSource(
  ctx: Ctx,
  jobId: string,
  { permission, after = 0 }: { permission: Permission; after?: number | undefined },
): Source {
  let last = after;
  return {
    permission,
    subscribe: (wake) => ctx.events.on('job_changed', (event) => event.job_id === jobId && wake()),
    async next() {
      const { ended, lines: rows } = await newJobLogs(ctx.sql, jobId, { after: last, limit: PAGE });
      last = rows.at(-1)?.id ?? last;
      return {
        messages: rows.map((row) => JSON.stringify(toJobLog(row))),
        more: rows.length === PAGE,
        end: ended && rows.length < PAGE,
      };
    },
  };
}
