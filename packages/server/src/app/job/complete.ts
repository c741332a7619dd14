import { AppError, errorText } from '@ropewalk/kit';
import type { LogNumber } from '@ropewalk/wire/log-sequence';
import type { CompletedJob, FailedJob } from '@ropewalk/wire/proto/provisionerd';
import type { Db, Tx } from '../../db/connect.ts';
import type { Owned, Ownership } from '../../db/owned.ts';
import { insertJobLogs, type LogLine } from '../../db/queries/job-logs.ts';
import { finishJob, ownershipState } from '../../db/queries/job-ownership.ts';
import { type NotedBuild, notedBuild } from '../../db/queries/notifications.ts';
import type { JobRow, JobType } from '../../db/rows.ts';
import { together } from '../../db/together.ts';
import type { Services } from '../context/context.ts';
import { notifyBuildEnded } from '../notification/builds.ts';
import { checkJobBounds } from './bounds.ts';
import { keepState, RejectedState, storeBuild, storeTimings } from './build-results.ts';
import { storeImport } from './import-results.ts';
import { unstored } from './log-lines.ts';
import { insertModules, insertResources } from './resources.ts';
import type { StateObserver, StateRejection } from './state.ts';

/** Counts what the end of a job shows. */
export interface JobObserver extends StateObserver {
  /** A build that gave a prebuilt workspace to a person has replaced resources. */
  claimReplaced(jobId: string): void;
}

/** The last lines of a job's log, with their numbers. */
export interface EndOfLog {
  lines: LogLine[];
  numbers: LogNumber[] | undefined;
}

/** The job does not belong to the daemon that wrote. */
export class NotOwned extends AppError {}

/**
 * Explains why a daemon's write was rejected, in the words of upstream's server: daemons compare them (`NOT_OWNED` in
 * daemon/job-link.ts). Inside a transaction, `db` must be that transaction: if each used a second connection, a few of
 * them would take the whole pool and wait for one another.
 */
export async function notOwned(db: Db, own: Ownership): Promise<NotOwned> {
  const job = await ownershipState(db, own);
  if (!job) return new NotOwned('not_found', 'job not found');
  if (job.mine && job.completed) return new NotOwned('conflict', 'job already completed');
  if (!job.started) return new NotOwned('conflict', "job isn't running yet");
  return new NotOwned('conflict', "you don't own this job");
}

/**
 * Stores the results of a job and ends it, in one transaction. If the platform rejects a part of them, a bad agent name
 * for example, the job ends as failed with that reason. A build's state is kept in any case.
 * @throws NotOwned if the job does not belong to the daemon
 */
export async function completeJob(
  services: Services,
  own: Ownership,
  done: CompletedJob,
  observer?: JobObserver,
  log?: EndOfLog,
): Promise<void> {
  const { sql } = services;
  try {
    const ended = await sql.begin(async (tx) => {
      const job = await finishJob(tx, own, {});
      if (!job) throw await notOwned(tx, own);
      checkType(job, done.type);
      checkJobBounds(done);
      const [build] = await together([buildOf(tx, job), storeEnd(tx, job, log), store(services, tx, job, done)]);
      await announce(services, tx, job, build);
      return job;
    });
    if (hasReplaced(ended, done)) observer?.claimReplaced(ended.id);
  } catch (err) {
    if (!(err instanceof AppError) || err.code !== 'invalid') throw err;
    const verdict = { error: errorText(err), errorCode: '', part: partOf(err, done) };
    const rejected = await failOwned(services, own, verdict, log);
    // after the commit, because a transaction can run again
    if (err instanceof RejectedState) observer?.stateRejected('complete', err.rejection);
    else if (rejected) observer?.stateRejected('fail', rejected);
  }
}

/** Whether a build has replaced resources of a prebuilt workspace, which the workspace's new owner waited for. */
const hasReplaced = ({ input }: JobRow, { type }: CompletedJob): boolean =>
  input.prebuilt_stage === 'claim' && type.case === 'workspaceBuild' && type.value.resourceReplacements.length > 0;

async function store(services: Services, tx: Tx, job: Owned<JobRow>, done: CompletedJob): Promise<void> {
  switch (done.type.case) {
    case 'templateImport':
      return storeImport(services, tx, job, done.type.value);
    case 'workspaceBuild':
      return storeBuild(services, tx, job, done.type.value);
    case 'templateDryRun':
      await insertResources(tx, job, 'start', done.type.value.resources);
      await insertModules(tx, job, 'start', done.type.value.modules);
      return;
  }
}

/** The part of a verdict that belongs to each type of job, with the name of the type for people. */
const PARTS = {
  template_version_import: { part: 'templateImport', name: 'a template import' },
  template_version_dry_run: { part: 'templateDryRun', name: 'a dry run' },
  workspace_build: { part: 'workspaceBuild', name: 'a workspace build' },
} as const satisfies Record<JobType, { part: NonNullable<CompletedJob['type']['case']>; name: string }>;

type Part = (CompletedJob | FailedJob)['type'];
const NO_PART: Part = { case: undefined };

class WrongType extends AppError {
  constructor(message: string) {
    super('invalid', message);
    this.name = 'WrongType';
  }
}

/** The part to keep of a result that was rejected. */
const partOf = (reason: unknown, { type }: CompletedJob): Part => (reason instanceof WrongType ? NO_PART : type);

/** @throws AppError `invalid` if the part of a verdict does not belong to a job of this type */
function checkType({ type }: JobRow, { case: part }: Part): void {
  const expected = PARTS[type];
  if (part === expected.part) return;
  const sent = Object.values(PARTS).find((one) => one.part === part)?.name ?? 'no known type of job';
  throw new WrongType(`The provisioner daemon ended ${expected.name} with the result of ${sent}.`);
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
  // clients know only this code
  const code = failed.errorCode === 'REQUIRED_TEMPLATE_VARIABLES' ? failed.errorCode : '';
  const error = failed.error.slice(0, LONGEST_ERROR) || 'The job failed without a reason.';
  try {
    const rejected = await failOwned(services, own, { error, errorCode: code, part: failed.type }, log);
    if (rejected) observer?.stateRejected('fail', rejected);
  } catch (err) {
    if (!(err instanceof WrongType)) throw err;
    await failOwned(services, own, { error: `${err.message} ${error}`, errorCode: code, part: NO_PART }, log);
  }
}

/** Ends a job as failed. Returns why the sent state must not replace the stored one, if so. */
async function failOwned(
  services: Services,
  own: Ownership,
  { error, errorCode, part }: { error: string; errorCode: string; part: Part },
  log: EndOfLog | undefined,
): Promise<StateRejection | undefined> {
  return services.sql.begin(async (tx) => {
    let rejected: StateRejection | undefined;
    const job = await finishJob(tx, own, { error, errorCode });
    if (!job) throw await notOwned(tx, own);
    // upstream's daemons send none for most failures
    if (part.case !== undefined) checkType(job, part);
    await storeEnd(tx, job, log);
    if (part.case === 'workspaceBuild') {
      const { state, timings } = part.value;
      if (state.length > 0) rejected = await keepState(services, tx, job, state);
      await storeTimings(tx, job, timings);
    }
    await announce(services, tx, job);
    return rejected;
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
