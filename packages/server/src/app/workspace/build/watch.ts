import type { WorkspaceBuildUpdate } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { may } from '../../../authz/authorize.ts';
import { buildsOfJobs, unfinishedBuildJobs } from '../../../db/queries/builds.ts';
import type { Ctx } from '../../context/context.ts';
import type { Source } from '../../follow/follow.ts';

/** How often to look for builds whose events were lost, in ms. */
const LOOK_AGAIN_MS = 15_000;
/** The maximum number of jobs that wait to be read, and of builds whose end is remembered. */
const MAX_JOBS = 10_000;

const ENDED: ReadonlySet<string> = new Set(['succeeded', 'failed', 'canceled']);

/**
 * @throws AppError `forbidden` unless the actor may read all workspaces. Which builds run shows the names of workspaces of
 * all organizations
 */
export function mayFollowAllBuilds({ actor }: Ctx): void {
  if (may(actor, 'read', { type: 'workspace' })) return;
  throw new AppError('forbidden', 'You may not follow the builds of all workspaces.', {
    detail: 'This requires the permission to read all workspaces, which owners and template administrators have.',
  });
}

/**
 * Every change of a build's status in the deployment, each once and in the order of the builds. Begins with the builds that have
 * not ended. A build that is quick or a reader that is slow may miss states before the last one.
 */
export function allBuildsSource(ctx: Ctx): Source {
  const { events, clock, sql } = ctx;
  /** The last status that the reader knows, by job. */
  const known = new Map<string, string>();
  let changed = new Set<string>();
  let lookAt = 0;
  return {
    permission: mayFollowAllBuilds,
    subscribe(wake) {
      const note = (jobId: string) => {
        if (changed.size < MAX_JOBS) changed.add(jobId);
        wake();
      };
      const off = [
        events.on('job_posted', ({ job_id }) => note(job_id)),
        events.on('job_changed', ({ job_id, logs }) => !logs && note(job_id)),
        events.on('job_canceled', ({ job_id }) => note(job_id)),
        events.onResync(() => {
          lookAt = 0;
          wake();
        }),
      ];
      return () => {
        for (const each of off) each();
      };
    },
    lookAgainMs: LOOK_AGAIN_MS,
    async next() {
      const jobs = changed;
      changed = new Set();
      if (clock.monotonic() >= lookAt) {
        lookAt = clock.monotonic() + LOOK_AGAIN_MS;
        for (const id of await unfinishedBuildJobs(sql)) jobs.add(id);
        for (const [id, status] of known) if (!ENDED.has(status)) jobs.add(id);
      }
      if (jobs.size === 0) return { messages: [], more: false, end: false };
      const builds = await buildsOfJobs(sql, [...jobs]);
      const news = builds.filter(({ job_id, job_status }) => known.get(job_id) !== job_status);
      for (const { job_id, job_status } of news) {
        known.delete(job_id);
        known.set(job_id, job_status);
      }
      forgetOldest(known);
      return {
        messages: news.map(({ job_id: _, ...update }) => JSON.stringify(update satisfies WorkspaceBuildUpdate)),
        more: false,
        end: false,
      };
    },
  };
}

/** Forgets the builds that ended first. */
function forgetOldest(known: Map<string, string>): void {
  for (const [id, status] of known) {
    if (known.size <= MAX_JOBS) return;
    if (ENDED.has(status)) known.delete(id);
  }
}
