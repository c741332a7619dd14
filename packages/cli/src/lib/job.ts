import type { Client } from '@platform/client';
import type { MatchedProvisioners, ProvisionerJob, ProvisionerJobLog } from '@platform/contract';
import { AppError, errorText } from '@platform/kit/errors';
import type { Context } from '../framework/context.ts';
import { stageDuration, tagsText } from './format.ts';

const POLL_MS = 1_000;

export interface FollowedJob {
  /** `/workspacebuilds/{id}/logs` or its like. */
  logsPath: string;
  fetch: (client: Client) => Promise<{ job: ProvisionerJob; matched?: MatchedProvisioners | undefined }>;
  cancel?: ((client: Client) => Promise<unknown>) | undefined;
  /** Only the stages. */
  quiet?: boolean;
  /** How often it is looked whether a job that waits has begun; what it does is told by the server. Default: 1 s. */
  pollMs?: number | undefined;
}

/** What a build that ended in the middle may have made without knowing it, unless its error says so. */
export function inFlightText({ error = '', in_flight: names = [] }: ProvisionerJob): string {
  const unsaid = names.filter((name) => !error.includes(name));
  return unsaid.length === 0 ? '' : `\nResources that were being created: ${unsaid.join(', ')}.`;
}

const isDone = (job: ProvisionerJob) => !['pending', 'running', 'canceling'].includes(job.status);

/**
 * Shows a job until it has ended: what it waits for, then each stage with its log and how long it took. The first
 * Ctrl+C cancels the job and goes on to show how that ends.
 * @throws AppError when the job did not succeed.
 */
export async function followJob(ctx: Context, client: Client, followed: FollowedJob): Promise<ProvisionerJob> {
  const view = new StageView(ctx, followed.quiet ?? false);
  const ended = new AbortController();
  let lastId = 0;
  const onMessage = (message: unknown) => {
    for (const log of ([] as ProvisionerJobLog[]).concat(message as ProvisionerJobLog)) {
      if (log.id <= lastId) continue;
      lastId = log.id;
      view.log(log);
    }
  };
  const onInterrupt = () => {
    ctx.io.stderr.write('Canceling; Ctrl+C again to leave at once.\n');
    void followed.cancel?.(client).catch((err) => ctx.io.stderr.write(`Could not cancel: ${errorText(err)}\n`));
  };
  ctx.signal.addEventListener('abort', onInterrupt, { once: true });
  const watching = watchQueue(client, followed, view, ended.signal);
  try {
    const { followJson } = await import('@platform/client/stream');
    for (let lost = 0; ; ) {
      const before = lastId;
      const failure = await followJson(client, `${followed.logsPath}?follow=true&after=${lastId}`, onMessage).then(
        () => undefined,
        (err: unknown) => err as Error,
      );
      const { job } = await followed.fetch(client);
      if (isDone(job)) {
        ended.abort();
        await watching;
        return view.end(job);
      }
      // a server that restarts closes the socket in the middle of a job
      lost = lastId > before ? 0 : lost + 1;
      if (lost > 20) throw failure ?? new AppError('unavailable', 'The server sends no log of this job.');
      await pause(Math.min(250 * lost, 2_000));
    }
  } finally {
    ended.abort();
    ctx.signal.removeEventListener('abort', onInterrupt);
    await watching;
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function watchQueue(client: Client, followed: FollowedJob, view: StageView, signal: AbortSignal): Promise<void> {
  try {
    while (!signal.aborted) {
      const { job, matched } = await followed.fetch(client);
      if (signal.aborted) return;
      if (job.status !== 'pending') return;
      view.pending(job, matched);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, followed.pollMs ?? POLL_MS);
        signal.addEventListener('abort', () => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  } catch {
    // the log's connection says what is wrong
  }
}

/** Prints stages of one job. */
class StageView {
  readonly #ctx: Context;
  readonly #quiet: boolean;
  #stage: { name: string; since: number } | undefined;
  #said = '';
  #warned = false;

  constructor(ctx: Context, quiet: boolean) {
    this.#ctx = ctx;
    this.#quiet = quiet;
  }

  pending(job: ProvisionerJob, matched: MatchedProvisioners | undefined): void {
    this.#begin('Queued', Date.parse(job.created_at));
    const why = job.pending_reason;
    if (why) {
      // `starting` is over before it is read; what changes with each look is said when its place does
      const said = why.reason === 'starting' ? '' : `${why.reason} ${why.queue_position}`;
      if (said !== '' && said !== this.#said) {
        this.#write(`    ${why.reason === 'provisioners_busy' ? '' : 'WARN: '}${why.message}`);
      }
      this.#said = said || this.#said;
      return;
    }
    // a published server says less
    const place =
      job.queue_position > 0 ? `Waiting in the queue: position ${job.queue_position} of ${job.queue_size}` : '';
    if (place !== '' && place !== this.#said) this.#write(`    ${place}`);
    this.#said = place || this.#said;
    if (!matched || this.#warned || matched.available > 0) return;
    this.#warned = true;
    const seen = matched.most_recently_seen ? `, the last one seen at ${matched.most_recently_seen}` : '';
    this.#write(
      matched.count === 0
        ? `    WARN: No provisioner daemon accepts this job's tags: ${tagsText(job.tags)}. It waits until one does.`
        : `    WARN: All ${matched.count} provisioner daemons that accept this job are away${seen}. It waits for one.`,
    );
  }

  log(log: ProvisionerJobLog): void {
    const at = Date.parse(log.created_at);
    if (log.stage !== '' && log.stage !== this.#stage?.name) {
      this.#close('✔', at);
      this.#begin(log.stage, at);
    }
    if (log.output === '' || this.#quiet) return;
    if (log.log_level === 'trace' || (log.log_level === 'debug' && !this.#ctx.globals.verbose)) return;
    const mark = log.log_level === 'error' || log.log_level === 'warn' ? `${log.log_level.toUpperCase()}: ` : '';
    this.#write(`    ${mark}${log.output}`);
  }

  /** @throws AppError when the job did not succeed. */
  end(job: ProvisionerJob): ProvisionerJob {
    const at = Date.parse(job.completed_at ?? '') || Date.now();
    this.#close(job.status === 'succeeded' ? '✔' : '✘', at);
    if (job.status === 'succeeded') return job;
    if (job.status === 'canceled') throw new AppError('canceled', `The job was canceled.${inFlightText(job)}`);
    throw new AppError('conflict', `${job.error || `The job ended as ${job.status}.`}${inFlightText(job)}`);
  }

  #begin(name: string, since: number): void {
    if (this.#stage?.name === name) return;
    this.#stage = { name, since };
    this.#write(`==> ⧗ ${name}`);
  }

  #close(mark: string, at: number): void {
    if (!this.#stage) return;
    this.#write(`==> ${mark} ${this.#stage.name} [${stageDuration(at - this.#stage.since)}]`);
    this.#stage = undefined;
  }

  #write(line: string): void {
    this.#ctx.io.stdout.write(`${line}\n`);
  }
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
