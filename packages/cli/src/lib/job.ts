import type { Client } from '@ropewalk/client';
import type { MatchedProvisioners, ProvisionerJob, ProvisionerJobLog } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit/errors';
import type { Context } from '../framework/context.ts';
import { note } from '../framework/io.ts';
import { followLog } from './follow-log.ts';
import { tagsText } from './format.ts';
import { pause, throughOutage } from './outage.ts';
import { type Progress, showProgress } from './progress.ts';

const POLL_MS = 1_000;

export interface FollowedJob {
  /** Such as `/workspacebuilds/{id}/logs`. */
  logsPath: string;
  fetch: (client: Client) => Promise<{ job: ProvisionerJob; matched?: MatchedProvisioners | undefined }>;
  cancel?: ((client: Client) => Promise<unknown>) | undefined;
  /** Show only the stages, without their logs. */
  quiet?: boolean;
  /** Interval between checks of a pending job, in ms. Default: 1,000. The server pushes the log of a running one. */
  pollMs?: number | undefined;
}

/** The resources that an aborted build may have created without recording them, unless its error names them. */
export function inFlightText({ error = '', in_flight: names = [] }: ProvisionerJob): string {
  const unsaid = names.filter((name) => !error.includes(name));
  return unsaid.length === 0 ? '' : `\nResources that were being created: ${unsaid.join(', ')}.`;
}

/** Whether a job has ended, with or without success. */
export const isDone = (job: ProvisionerJob) => !['pending', 'running', 'canceling'].includes(job.status);

/**
 * Shows a job until it has ended: why it waits, then each stage with its log and duration. The first Ctrl+C cancels the
 * job, and the function continues to show its end.
 * @throws AppError when the job did not succeed.
 */
export async function followJob(ctx: Context, client: Client, followed: FollowedJob): Promise<ProvisionerJob> {
  const view = new StageView(ctx, followed.quiet ?? false);
  const ended = new AbortController();
  const onInterrupt = () => {
    view.say('Canceling. Press Ctrl+C again to exit immediately.');
    void followed.cancel?.(client).catch((err) => view.say(`Could not cancel: ${errorText(err)}`));
  };
  ctx.signal.addEventListener('abort', onInterrupt, { once: true });
  const watching = watchQueue(client, followed, view, ended.signal);
  try {
    let job: ProvisionerJob | undefined;
    await followLog<ProvisionerJobLog>(client, {
      path: followed.logsPath,
      after: 0,
      onLine: (line) => view.log(line),
      isOver: async () => {
        ({ job } = await followed.fetch(client));
        return isDone(job);
      },
    });
    ended.abort();
    await watching;
    return view.end(job!);
  } finally {
    ended.abort();
    ctx.signal.removeEventListener('abort', onInterrupt);
    view.close();
    await watching;
  }
}

async function watchQueue(client: Client, followed: FollowedJob, view: StageView, signal: AbortSignal): Promise<void> {
  try {
    while (!signal.aborted) {
      const { job, matched } = await throughOutage(() => followed.fetch(client), { signal });
      if (signal.aborted) return;
      if (job.status !== 'pending') return;
      view.pending(job, matched);
      await pause(followed.pollMs ?? POLL_MS, signal);
    }
  } catch {
    // the connection of the log reports the error
  }
}

/** Shows the stages of one job. */
class StageView {
  readonly #ctx: Context;
  readonly #quiet: boolean;
  readonly #progress: Progress;
  #stage: { name: string; since: number } | undefined;
  #isClosed = false;

  constructor(ctx: Context, quiet: boolean) {
    this.#ctx = ctx;
    this.#quiet = quiet;
    this.#progress = showProgress(ctx.io.stdout, ctx.env);
  }

  pending(job: ProvisionerJob, matched: MatchedProvisioners | undefined): void {
    if (this.#isClosed) return;
    this.#begin('Queued', Date.parse(job.created_at));
    const waits = reasonOf(job, matched);
    if (waits) this.#progress.wait(waits.text, waits.key);
  }

  log(log: ProvisionerJobLog): void {
    const at = Date.parse(log.created_at);
    if (log.stage !== '' && log.stage !== this.#stage?.name) {
      this.#end('done', at);
      this.#begin(log.stage, at);
    }
    if (log.output === '' || this.#quiet) return;
    if (log.log_level === 'trace' || (log.log_level === 'debug' && !this.#ctx.globals.verbose)) return;
    const mark = log.log_level === 'error' || log.log_level === 'warn' ? `${log.log_level.toUpperCase()}: ` : '';
    this.#progress.log(`${mark}${log.output}`);
  }

  say(line: string): void {
    // a notice is not part of the output
    if (this.#ctx.io.stdout.isTTY) this.#progress.say(line);
    else note(this.#ctx.io, line);
  }

  /** @throws AppError when the job did not succeed. */
  end(job: ProvisionerJob): ProvisionerJob {
    const at = Date.parse(job.completed_at ?? '') || Date.now();
    this.#end(job.status === 'succeeded' ? 'done' : 'failed', at);
    if (job.status === 'succeeded') return job;
    if (job.status === 'canceled') throw new AppError('canceled', `The job was canceled.${inFlightText(job)}`);
    throw new AppError('conflict', `${job.error || `The job ended with status ${job.status}.`}${inFlightText(job)}`);
  }

  close(): void {
    this.#isClosed = true;
    this.#progress.close();
  }

  #begin(name: string, since: number): void {
    if (this.#stage?.name === name) return;
    this.#stage = { name, since };
    this.#progress.begin(name);
  }

  #end(outcome: 'done' | 'failed', at: number): void {
    if (!this.#stage) return;
    this.#progress.end(outcome, at - this.#stage.since);
    this.#stage = undefined;
  }
}

/**
 * Why a pending job waits; undefined while there is nothing to say. The text can change with every poll, such as by a
 * time in it. The key changes with the reason or the place in the queue.
 */
function reasonOf(
  job: ProvisionerJob,
  matched: MatchedProvisioners | undefined,
): { text: string; key: string } | undefined {
  const why = job.pending_reason;
  if (why) {
    // `starting` is over before anyone reads it
    if (why.reason === 'starting') return undefined;
    const mark = why.reason === 'provisioners_busy' ? '' : 'WARN: ';
    return { text: `${mark}${why.message}`, key: `${why.reason} ${why.queue_position}` };
  }
  // upstream's server reports no reason
  const same = (text: string) => ({ text, key: text });
  if (matched?.count === 0) {
    const tags = tagsText(job.tags);
    return same(`WARN: No provisioner daemon accepts the tags of this job: ${tags}. The job waits until one does.`);
  }
  if (matched?.available === 0) {
    const seen = matched.most_recently_seen ? `, last seen at ${matched.most_recently_seen}` : '';
    return same(
      `WARN: All ${matched.count} provisioner daemons that accept this job are offline${seen}. The job waits for one.`,
    );
  }
  if (job.queue_position === 0) return undefined;
  return same(`Waiting in the queue: position ${job.queue_position} of ${job.queue_size}`);
}

/** Shows a workspace build until it has ended. */
export function followBuild(ctx: Context, client: Client, buildId: string, pollMs?: number): Promise<ProvisionerJob> {
  const params = { workspacebuild: buildId };
  return followJob(ctx, client, {
    pollMs,
    logsPath: `/workspacebuilds/${buildId}/logs`,
    fetch: async (one) => {
      const build = await one.call('GET /workspacebuilds/{workspacebuild}', { params });
      return { job: build.job, matched: build.matched_provisioners };
    },
    cancel: (one) => one.call('PATCH /workspacebuilds/{workspacebuild}/cancel', { params }),
  });
}

/** Shows the import of a template version until it has ended. */
export function followImport(ctx: Context, client: Client, versionId: string): Promise<ProvisionerJob> {
  const params = { templateversion: versionId };
  return followJob(ctx, client, {
    logsPath: `/templateversions/${versionId}/logs`,
    fetch: async (one) => {
      const version = await one.call('GET /templateversions/{templateversion}', { params });
      return { job: version.job, matched: version.matched_provisioners };
    },
    cancel: (one) => one.call('PATCH /templateversions/{templateversion}/cancel', { params }),
  });
}
