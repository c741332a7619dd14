import { AppError, errorText } from '@platform/kit';
import type { LogNumber } from '@platform/wire/log-sequence';
import type { Timing } from '@platform/wire/proto/provisioner';
import type { CompletedJob, FailedJob } from '@platform/wire/proto/provisionerd';
import type { Tx } from '../../db/connect.ts';
import { insertJobLogs, type LogLine } from '../../db/queries/job-logs.ts';
import { finishJob, type Owned, type Ownership, ownershipState } from '../../db/queries/job-ownership.ts';
import type { JobRow } from '../../db/queries/jobs.ts';
import { type NotedBuild, notedBuild } from '../../db/queries/notifications.ts';
import { together } from '../../db/together.ts';
import type { Services } from '../context.ts';
import { notifyBuildEnded } from '../notification/builds.ts';
import { checkJobBounds } from './bounds.ts';
import { keepState, RejectedState, storeBuild, storeTimings } from './build-results.ts';
import { storeImport } from './import-results.ts';
import { unstored } from './log-lines.ts';
import { insertModules, insertResources } from './resources.ts';
import type { StateObserver } from './state.ts';

/** The last lines of a job's log, with their numbers. */
export interface EndOfLog {
  lines: LogLine[];
  numbers: LogNumber[] | undefined;
}

/** Explains why a daemon's write was rejected. Upstream's daemons compare the texts. */
export async function notOwned(services: Services, own: Ownership): Promise<AppError> {
  const job = await ownershipState(services.sql, own);
  if (!job) return new AppError('not_found', 'job not found');
  if (job.mine && job.completed) return new AppError('conflict', 'job already completed');
  if (!job.started) return new AppError('conflict', "job isn't running yet");
  return new AppError('conflict', "you don't own this job");
}

/**
 * Stores the results of a job and ends it, in one transaction. If the platform rejects a part of them, a bad agent name
 * for example, the job ends as failed with that reason. A build's state is kept in any case.
 */
export async function completeJob(
  services: Services,
  own: Ownership,
  done: CompletedJob,
  observer?: StateObserver,
  log?: EndOfLog,
): Promise<void> {
  const { sql } = services;
  try {
    await sql.begin(async (tx) => {
      const job = await finishJob(tx, own, {});
      if (!job) throw await notOwned(services, own);
      checkJobBounds(done);
      const [build] = await together([
        buildOf(tx, job),
        storeEnd(tx, job, log),
        store(services, tx, job, done, observer),
      ]);
      await announce(services, tx, job, build);
    });
  } catch (err) {
    if (!(err instanceof AppError) || err.code !== 'invalid') throw err;
    // counted already
    const rest = err instanceof RejectedState ? undefined : observer;
    await failOwned(
      services,
      own,
      errorText(err),
      '',
      done.type.case === 'workspaceBuild' ? done.type.value : undefined,
      rest,
      log,
    );
  }
}

async function store(
  services: Services,
  tx: Tx,
  job: Owned<JobRow>,
  done: CompletedJob,
  observer: StateObserver | undefined,
): Promise<void> {
  switch (done.type.case) {
    case 'templateImport':
      return storeImport(services, tx, job, done.type.value);
    case 'workspaceBuild':
      return storeBuild(services, tx, job, done.type.value, observer);
    case 'templateDryRun':
      await insertResources(tx, job, 'start', done.type.value.resources);
      await insertModules(tx, job, 'start', done.type.value.modules);
      return;
    default:
      throw new AppError('invalid', 'The daemon completed the job without naming its type.');
  }
}

/** Stores the lines that are not stored yet. */
async function storeEnd(tx: Tx, job: Owned<JobRow>, log: EndOfLog | undefined): Promise<void> {
  if (!log) return;
  const lines = unstored(log.lines, log.numbers, job.acquire_epoch, job.log_positions).fresh;
  if (lines.length > 0) await insertJobLogs(tx, job, lines);
}

/** The longest error text of a failed job, in characters. The job's log has the rest. */
const LONGEST_ERROR = 65_536;

/**
 * Ends a job as failed, for the daemon that owns it. A build keeps the state that the daemon sends, or the previous
 * state.
 */
export async function failJob(
  services: Services,
  own: Ownership,
  failed: FailedJob,
  observer?: StateObserver,
  log?: EndOfLog,
): Promise<void> {
  const build = failed.type.case === 'workspaceBuild' ? failed.type.value : undefined;
  // clients know only this code
  const code = failed.errorCode === 'REQUIRED_TEMPLATE_VARIABLES' ? failed.errorCode : '';
  const error = failed.error.slice(0, LONGEST_ERROR) || 'The job failed without a reason.';
  await failOwned(services, own, error, code, build, observer, log);
}

async function failOwned(
  services: Services,
  own: Ownership,
  error: string,
  errorCode: string,
  build: { state: Uint8Array; timings: Timing[] } | undefined,
  observer: StateObserver | undefined,
  log: EndOfLog | undefined,
): Promise<void> {
  await services.sql.begin(async (tx) => {
    const job = await finishJob(tx, own, { error, errorCode });
    if (!job) throw await notOwned(services, own);
    await storeEnd(tx, job, log);
    if (job.type === 'workspace_build' && build) {
      if (build.state.length > 0) await keepState(services, tx, job, build.state, observer);
      await storeTimings(tx, job, build.timings);
    }
    await announce(services, tx, job);
  });
}

const buildOf = (tx: Tx, job: JobRow) =>
  job.type === 'workspace_build' ? notedBuild(tx, job.input.workspace_build_id!) : Promise.resolve(undefined);

/** Notifies everyone who watches a job that has ended. `known` is its build, if the caller has read it. */
export async function announce(services: Services, tx: Tx, job: JobRow, known?: NotedBuild): Promise<void> {
  await services.events.publish(tx, 'job_changed', { job_id: job.id, end: true });
  const build = known ?? (await buildOf(tx, job));
  if (!build) return;
  await notifyBuildEnded(services, tx, build, job);
  const { workspace_id, owner_id, restarts } = build;
  const more = restarts ? { restarting: true } : {};
  await services.events.publish(tx, 'workspace_changed', { workspace_id, owner_id, agents_outdated: true, ...more });
}
