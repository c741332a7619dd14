// The ownership of running jobs. The rules are in docs/decisions/0003-job-ownership.md.

import type { LogPositions } from '@ropewalk/wire/log-sequence';
import type { SystemTask, VerifiedDaemon } from '../../authz/proofs.ts';
import type { Db, Sql, Tx } from '../connect.ts';
import type { Owned, Ownership } from '../owned.ts';
import type { JobRow } from '../rows.ts';
import { inFlightText } from './build-states.ts';

export function ownershipOf(daemon: VerifiedDaemon<{ id: string }>, jobId: string, epoch: number): Ownership {
  return { jobId, workerId: daemon.id, epoch } as Ownership;
}

/** A job, for its owner. */
export type OwnedJob = Owned<{ id: string }>;

export interface TouchedJob {
  id: string;
  canceled_at: Date | null;
  force_canceled: boolean;
  log_positions: LogPositions;
}

/** A daemon of ours that reports nothing of a job for this long after it took it has dropped it, or never received it. */
export const UNCONFIRMED_MS = 30_000;

/** When the lease of a running job ends that begins now, as SQL. */
const newLease = (db: Db, leaseMs: number) => db`now() + interval '1 millisecond' *
  CASE WHEN unconfirmed THEN ${Math.min(leaseMs, UNCONFIRMED_MS)}::float8 ELSE ${leaseMs}::float8 END`;

/** The assignments of a sign of life. */
export const signOfLife = (db: Db, leaseMs: number) => db`
  updated_at = now(), lease_expires_at = now() + ${leaseMs} * interval '1 millisecond', unconfirmed = false`;

/** Stores a sign of life. Undefined if this daemon does not own the job. */
export async function touchJob(db: Db, own: Ownership, leaseMs: number): Promise<Owned<TouchedJob> | undefined> {
  const [row] = await db<Owned<TouchedJob>[]>`
    UPDATE provisioner_jobs SET ${signOfLife(db, leaseMs)}
    WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
    RETURNING id, canceled_at, force_canceled, log_positions`;
  return row;
}

/** Stores how far the numbered lines of a job's log are stored, in the same transaction as the lines. */
export async function setLogPositions(tx: Tx, job: OwnedJob, positions: LogPositions): Promise<void> {
  await tx`UPDATE provisioner_jobs SET log_positions = ${tx.json(positions)} WHERE id = ${job.id}`;
}

/** A job without a report for this time, in ms, hangs, although its daemon is connected. */
const HUNG_MS = 5 * 60_000;

/** Renews the leases of jobs that belong to live connections. */
export async function renewLeases(db: Db, held: Ownership[], leaseMs: number): Promise<void> {
  if (held.length === 0) return;
  await db`UPDATE provisioner_jobs SET lease_expires_at = ${newLease(db, leaseMs)}
    FROM unnest(${held.map((own) => own.jobId)}::uuid[], ${held.map((own) => own.workerId)}::uuid[],
      ${held.map((own) => own.epoch)}::bigint[]) AS held (job_id, worker, epoch)
    WHERE id = held.job_id AND worker_id = held.worker AND acquire_epoch = held.epoch AND completed_at IS NULL
      AND updated_at > now() - ${HUNG_MS} * interval '1 millisecond'`;
}

/** Ends a job for its owner. Undefined if this daemon does not own it. */
export async function finishJob(
  db: Db,
  own: Ownership,
  verdict: { error?: string | undefined; errorCode?: string | undefined },
): Promise<Owned<JobRow> | undefined> {
  const [row] = await db<Owned<JobRow>[]>`
    UPDATE provisioner_jobs SET updated_at = now(), completed_at = now(), lease_expires_at = NULL,
      error = ${verdict.error || null}, error_code = ${verdict.errorCode || null}
    WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
    RETURNING *`;
  return row;
}

/** Puts back a job that never reached its daemon. */
export async function releaseJob(db: Db, own: Ownership): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET started_at = NULL, worker_id = NULL, lease_expires_at = NULL, updated_at = now(),
      completed_at = CASE WHEN canceled_at IS NULL THEN NULL ELSE now() END
    WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
    RETURNING *`;
  return row;
}

/** How often an import or a dry run is started before it fails. */
const MAX_TRIES = 3;

/**
 * Puts back an import or a dry run whose template turned out to require these versions of Terraform. Undefined for any
 * other job, for a canceled one, at the last try, and if this daemon does not own it.
 */
export async function releaseForEngine(
  db: Db,
  own: Ownership,
  required: { text: string; range: string },
): Promise<Owned<JobRow> | undefined> {
  const [row] = await db<Owned<JobRow>[]>`
    UPDATE provisioner_jobs SET started_at = NULL, worker_id = NULL, lease_expires_at = NULL, updated_at = now(),
      required_version = ${required.text}, terraform_range = ${required.range}::int8multirange
    WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
      AND canceled_at IS NULL AND type <> 'workspace_build' AND acquire_epoch < ${MAX_TRIES}
    RETURNING *`;
  return row;
}

/** Ends a job that needs no daemon, in the transaction that added it. */
export async function finishAtOnce(tx: Tx, job: Owned<JobRow>): Promise<JobRow> {
  const [row] = await tx<JobRow[]>`
    UPDATE provisioner_jobs SET started_at = now(), completed_at = now(), updated_at = now() WHERE id = ${job.id} RETURNING *`;
  return row!;
}

/** The API version of the daemon that runs a job. */
export async function workerApiVersion(db: Db, { worker_id }: Pick<JobRow, 'worker_id'>): Promise<string | undefined> {
  const [daemon] = await db<{ api_version: string }[]>`
    SELECT api_version FROM provisioner_daemons WHERE id = ${worker_id}`;
  return daemon?.api_version;
}

/** The state of a job for a daemon that does not own it. */
export async function ownershipState(
  db: Db,
  own: Ownership,
): Promise<{ started: boolean; completed: boolean; mine: boolean } | undefined> {
  const [job] = await db<{ started: boolean; completed: boolean; mine: boolean }[]>`
    SELECT started_at IS NOT NULL AS started, completed_at IS NOT NULL AS completed,
      worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AS mine
    FROM provisioner_jobs WHERE id = ${own.jobId}`;
  return job;
}

/** The state of each of these jobs for a daemon. `mine`: it runs on this daemon. */
export async function jobsOfWorker(
  db: Db,
  worker: VerifiedDaemon<{ id: string }>,
  jobIds: string[],
): Promise<{ id: string; epoch: number; canceled: boolean; mine: boolean }[]> {
  return db<{ id: string; epoch: number; canceled: boolean; mine: boolean }[]>`
    SELECT id, acquire_epoch AS epoch, canceled_at IS NOT NULL AS canceled,
      worker_id = ${worker.id} AND completed_at IS NULL AS mine
    FROM provisioner_jobs WHERE id = ANY(${jobIds})`;
}

/** The running jobs that a daemon of ours has taken and never reported on, without these. */
export async function unconfirmedJobs(
  db: Db,
  worker: VerifiedDaemon<{ id: string }>,
  withoutIds: readonly string[],
): Promise<{ id: string; epoch: number }[]> {
  return db<{ id: string; epoch: number }[]>`
    SELECT id, acquire_epoch AS epoch FROM provisioner_jobs
    WHERE worker_id = ${worker.id} AND started_at IS NOT NULL AND completed_at IS NULL AND unconfirmed
      AND id <> ALL (${[...withoutIds]}::uuid[])`;
}

/** Gives every running job a new lease, so that no lease runs out while the server or its database is down. */
export async function restartLeases(db: Db, _task: SystemTask, leaseMs: number): Promise<void> {
  await db`UPDATE provisioner_jobs SET lease_expires_at = ${newLease(db, leaseMs)}
    WHERE started_at IS NOT NULL AND completed_at IS NULL`;
}

/**
 * Lets the leases of running jobs stand still for the time that went by on the database's clock since `since`, except for
 * `countedMs` of it. Returns the time of this clock. No lease becomes longer than a new one.
 */
export async function holdLeases(
  db: Db,
  _task: SystemTask,
  { since, countedMs, leaseMs }: { since: Date; countedMs: number; leaseMs: number },
): Promise<Date> {
  const [row] = await db<{ at: Date }[]>`
    WITH pause AS (SELECT now() - ${since}::timestamptz - ${countedMs} * interval '1 millisecond' AS length),
      held AS (
        UPDATE provisioner_jobs SET lease_expires_at =
          greatest(lease_expires_at, least(lease_expires_at + length, now() + ${leaseMs} * interval '1 millisecond'))
        FROM pause WHERE length > interval '0' AND started_at IS NOT NULL AND completed_at IS NULL)
    SELECT now() AS at`;
  return row!.at;
}

/**
 * Ends or puts back jobs whose lease ran out, in one statement without a limit. A build that its daemon may have begun
 * fails with the reason and is never run again. Other jobs go back to the queue, and fail the third time. Does nothing if
 * the database runs it later than `until`, because it stood still meanwhile.
 */
export async function sweepLostJobs(sql: Sql, _task: SystemTask, until: Date): Promise<JobRow[]> {
  return sql<JobRow[]>`
    UPDATE provisioner_jobs SET updated_at = now(), lease_expires_at = NULL,
      started_at = CASE WHEN retry THEN NULL ELSE started_at END,
      worker_id = CASE WHEN retry THEN NULL ELSE provisioner_jobs.worker_id END,
      completed_at = CASE WHEN retry THEN NULL ELSE now() END,
      acquire_epoch = CASE WHEN retry THEN acquire_epoch ELSE acquire_epoch + 1 END,
      error = CASE WHEN retry THEN NULL ELSE
        'The provisioner daemon was lost: it did not report for the length of its lease. '
        || CASE WHEN type = 'workspace_build' THEN 'The last known state was kept.' || ${inFlightText(sql)} ELSE 'It was tried ' || acquire_epoch || ' times.' END END
    FROM (SELECT id AS lost_id, (type <> 'workspace_build' OR unconfirmed) AND acquire_epoch < ${MAX_TRIES}
        AND canceled_at IS NULL AS retry
      FROM provisioner_jobs
      WHERE started_at IS NOT NULL AND completed_at IS NULL AND lease_expires_at < now()
        AND now() < ${until}::timestamptz
      FOR UPDATE SKIP LOCKED) lost
    WHERE id = lost_id RETURNING provisioner_jobs.*`;
}
