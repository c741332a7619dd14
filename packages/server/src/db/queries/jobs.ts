import type { LogNumber, LogPositions } from '@platform/wire/log-sequence';
import type { Tags } from '../../app/job/tags.ts';
import type { Db, Sql, Tx } from '../connect.ts';

export type JobType = 'template_version_import' | 'workspace_build' | 'template_version_dry_run';
export type JobStatus = 'pending' | 'running' | 'succeeded' | 'canceling' | 'canceled' | 'failed';

export interface JobRow {
  id: string;
  organization_id: string;
  initiator_id: string;
  provisioner: string;
  type: JobType;
  file_id: string;
  input: JobInput;
  tags: Record<string, string>;
  created_at: Date;
  updated_at: Date;
  started_at: Date | null;
  canceled_at: Date | null;
  completed_at: Date | null;
  error: string | null;
  error_code: string | null;
  worker_id: string | null;
  acquire_epoch: number;
  lease_expires_at: Date | null;
  force_canceled: boolean;
  /** Nobody waits for it. */
  background: boolean;
  turn: number;
  job_status: JobStatus;
}

/** What a job of each type is about. */
export interface JobInput {
  template_version_id?: string;
  workspace_build_id?: string;
  user_variable_values?: { name: string; value: string }[];
  workspace_name?: string;
  rich_parameter_values?: { name: string; value: string }[];
  log_level?: string;
  /** A deletion that leaves alone what the workspace consists of: its daemon gets no state. */
  orphan?: boolean;
  /** Where a prebuilt workspace is in its life: made for nobody yet, or taken by a person. */
  prebuilt_stage?: 'create' | 'claim';
}

/** Who owns a job: each write of a worker names all three, and one that matches no row is refused. */
export interface Ownership {
  jobId: string;
  workerId: string;
  epoch: number;
}

/** Jobs that wait for a daemon; the partial indexes of the queue have the same condition. */
const PENDING = 'started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL';

/** Sorts waiting jobs into the order in which they are handed out. */
export const QUEUE_ORDER = 'background, turn, created_at, id';

/**
 * Puts a job into the queue. Users take turns: each of a user's jobs that wait for like daemons goes a round later than
 * the one before, so that whoever comes with one job need not wait for somebody's hundred. A newcomer's round is the one
 * that runs now, or the first that waits for such daemons.
 */
export async function insertJob(
  db: Db,
  job: Pick<JobRow, 'id' | 'organization_id' | 'initiator_id' | 'type' | 'file_id' | 'input' | 'tags'> &
    Partial<Pick<JobRow, 'background'>>,
): Promise<JobRow> {
  const tags = db.json(job.tags);
  const alike = db`organization_id = ${job.organization_id} AND tags_hash = jsonb_hash_extended(${tags}, 0)
    AND background = ${job.background ?? false} AND ${db.unsafe(PENDING)}`;
  const [row] = await db<JobRow[]>`
    INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, tags, background, turn)
    VALUES (${job.id}, ${job.organization_id}, ${job.initiator_id}, ${job.type}, ${job.file_id},
      ${db.json(job.input as never)}, ${tags}, ${job.background ?? false}, greatest(0,
        (SELECT max(turn) + 1 FROM provisioner_jobs WHERE ${alike} AND initiator_id = ${job.initiator_id}),
        (SELECT min(turn) FROM provisioner_jobs WHERE ${alike}),
        (SELECT max(turn) FROM provisioner_jobs WHERE organization_id = ${job.organization_id}
          AND started_at IS NOT NULL AND completed_at IS NULL)))
    RETURNING *`;
  return row!;
}

export async function jobById(db: Db, id: string): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`SELECT * FROM provisioner_jobs WHERE id = ${id}`;
  return row;
}

export interface AcquireBy {
  workerId: string;
  organizationId: string;
  provisioners: string[];
  tags: Tags;
  /** Every tag set of jobs that `tags` may run, where they are few enough to look each of them up. */
  tagSets?: Tags[] | undefined;
  leaseMs: number;
}

/** Of each tag set this many are looked at: as many takers at once may hold the first ones locked. */
const HEAD = 16;

/**
 * Takes the first job that matches, or none: one statement, and two daemons never get the same. The heads of the tag
 * sets are tried one after the other, each by its id: PostgreSQL can't turn that into a join, which it did with plans
 * made while few jobs waited, and read all of thousands then.
 */
export async function acquireJob(db: Db, by: AcquireBy): Promise<JobRow | undefined> {
  const pending = db.unsafe(PENDING);
  const order = db.unsafe(QUEUE_ORDER);
  const mine = db`organization_id = ${by.organizationId} AND provisioner = ANY(${by.provisioners}) AND ${pending}`;
  const heads = by.tagSets
    ? db`SELECT of_set.* FROM jsonb_array_elements(${db.json(by.tagSets)}) AS one (tags) CROSS JOIN LATERAL (
        SELECT ${order} FROM provisioner_jobs
        WHERE tags_hash = jsonb_hash_extended(one.tags, 0) AND tags = one.tags AND ${mine}
        ORDER BY background, turn, created_at LIMIT ${HEAD}) of_set ORDER BY ${order}`
    : db`SELECT ${order} FROM provisioner_jobs WHERE provisioner_tags_match(${db.json(by.tags)}, tags) AND ${mine}
        ORDER BY ${order} LIMIT ${HEAD}`;
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET started_at = now(), updated_at = now(), worker_id = ${by.workerId},
      acquire_epoch = acquire_epoch + 1, lease_expires_at = now() + ${by.leaseMs} * interval '1 millisecond'
    WHERE id = (
      SELECT free.id FROM (${heads}) AS head CROSS JOIN LATERAL (
        SELECT id FROM provisioner_jobs WHERE id = head.id AND ${pending} FOR UPDATE SKIP LOCKED) free LIMIT 1)
    RETURNING *`;
  return row;
}

/**
 * Where jobs stand in the queues that are given as tag sets: several with one number are one queue. The best place and
 * the longest queue of each. Looked up tag set by tag set (OFFSET keeps the lookup from becoming a join): PostgreSQL
 * guesses a hundred tag sets and would read all jobs that wait.
 */
export async function queuePlaces(
  db: Db,
  queues: { organization: string; queue: number; tags: Tags }[],
  ids: string[],
): Promise<{ id: string; position: number; size: number }[]> {
  const order = db.unsafe(QUEUE_ORDER);
  return db<{ id: string; position: number; size: number }[]>`
    WITH ranked AS (
      SELECT j.id, row_number() OVER (PARTITION BY queue ORDER BY ${order}) AS place, count(*) OVER (PARTITION BY queue) AS size
      FROM jsonb_to_recordset(${db.json(queues)}) AS q (organization uuid, queue integer, tags jsonb)
      CROSS JOIN LATERAL (
        SELECT ${order} FROM provisioner_jobs
        WHERE organization_id = q.organization AND tags_hash = jsonb_hash_extended(q.tags, 0) AND ${db.unsafe(PENDING)}
        OFFSET 0) j)
    SELECT id, min(place) AS position, max(size) AS size FROM ranked WHERE id = ANY(${ids}::uuid[]) GROUP BY id`;
}

/** The tag sets of all jobs that wait. */
export async function pendingTagSets(db: Db, organizationId: string): Promise<Tags[]> {
  const rows = await db<{ tags: Tags }[]>`SELECT DISTINCT tags FROM provisioner_jobs
    WHERE organization_id = ${organizationId} AND ${db.unsafe(PENDING)}`;
  return rows.map((row) => row.tags);
}

/** What was usual so long ago still is; finding it out reads past all jobs that wait. */
const USUAL_MS = 5_000;
const MOST_USUAL = 1_000;
const usual = new WeakMap<object, Map<string, { seconds: number; until: number }>>();

/** How many seconds a job like this took lately: of the same tags and type, or else of the same type. */
export async function usualSeconds(
  db: Db,
  job: Pick<JobRow, 'organization_id' | 'tags' | 'type'>,
): Promise<number | undefined> {
  const known = usual.get(db) ?? new Map<string, { seconds: number; until: number }>();
  usual.set(db, known);
  const key = JSON.stringify([job.organization_id, job.type, Object.entries(job.tags).sort()]);
  const before = known.get(key);
  if (before && before.until > performance.now()) return before.seconds;
  const [row] = await db<{ alike: number | null; others: number | null }[]>`
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE tags = ${db.json(job.tags)}) AS alike,
      percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS others
    FROM (SELECT tags, extract(epoch FROM completed_at - started_at)::float8 AS seconds FROM provisioner_jobs
      WHERE organization_id = ${job.organization_id} AND type = ${job.type} AND job_status = 'succeeded'
        AND worker_id IS NOT NULL AND created_at > now() - interval '7 days'
      ORDER BY created_at DESC LIMIT 200) lately`;
  const seconds = row?.alike ?? row?.others ?? undefined;
  if (known.size >= MOST_USUAL) known.clear();
  if (seconds !== undefined) known.set(key, { seconds, until: performance.now() + USUAL_MS });
  return seconds;
}

/** Jobs that nobody took for so long, the oldest first; the time counts anew for one that was put back. */
export async function longPending(db: Db, limitMs: number, most: number): Promise<JobRow[]> {
  return db<JobRow[]>`SELECT * FROM provisioner_jobs WHERE ${db.unsafe(PENDING)}
    AND updated_at < now() - ${limitMs} * interval '1 millisecond' ORDER BY updated_at LIMIT ${most}`;
}

/** Ends a job that nobody took. Undefined where somebody did, or it was canceled. */
export async function failPendingJob(db: Db, id: string, error: string): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET started_at = now(), completed_at = now(), updated_at = now(), error = ${error}
    WHERE id = ${id} AND ${db.unsafe(PENDING)} RETURNING *`;
  return row;
}

/** Who waited this long in the background has waited long enough. */
const BACKGROUND_MS = 10 * 60_000;

/** Lets background jobs that waited for long stand with those that somebody waits for: none waits for ever. */
export async function ageBackgroundJobs(db: Db): Promise<void> {
  await db`UPDATE provisioner_jobs SET background = false WHERE background AND ${db.unsafe(PENDING)}
    AND created_at < now() - ${BACKGROUND_MS} * interval '1 millisecond'`;
}

export interface LogLine {
  source: 'provisioner_daemon' | 'provisioner';
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error';
  stage: string;
  output: string;
  createdAt: Date;
  /** Absent with published daemons, and with lines of the server's own. */
  number?: LogNumber | undefined;
}

export interface JobLogRow {
  id: number;
  created_at: Date;
  source: 'provisioner_daemon' | 'provisioner';
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error';
  stage: string;
  output: string;
}

export async function insertJobLogs(db: Db, jobId: string, logs: LogLine[]): Promise<void> {
  await db`INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
    SELECT ${jobId}::uuid, l.* FROM unnest(
      ${logs.map((log) => log.createdAt.toISOString())}::text[]::timestamptz[], ${logs.map((log) => log.source)}::text[],
      ${logs.map((log) => log.level)}::text[], ${logs.map((log) => log.stage.slice(0, 128))}::text[],
      ${logs.map((log) => log.output.replaceAll('\0', '').slice(0, 1024))}::text[]) AS l`;
}

/** Puts a line of the server's own into a job's log. */
export function noteInJobLog(db: Db, jobId: string, level: LogLine['level'], output: string): Promise<void> {
  return insertJobLogs(db, jobId, [{ source: 'provisioner_daemon', level, stage: '', output, createdAt: new Date() }]);
}

export async function jobLogs(
  db: Db,
  jobId: string,
  { after, before, limit = 100_000 }: { after?: number | undefined; before?: number | undefined; limit?: number },
): Promise<JobLogRow[]> {
  return db<JobLogRow[]>`SELECT id, created_at, source, level, stage, output FROM provisioner_job_logs
    WHERE job_id = ${jobId} AND id > ${after ?? 0} AND (${before ?? null}::bigint IS NULL OR id < ${before ?? null}::bigint)
    ORDER BY id LIMIT ${limit}`;
}

export interface TouchedJob {
  canceled_at: Date | null;
  force_canceled: boolean;
  log_positions: LogPositions;
}

/** Notes a sign of life. Undefined where this worker does not own the job (any more). */
export async function touchJob(db: Db, own: Ownership, leaseMs: number): Promise<TouchedJob | undefined> {
  const [row] = await db<TouchedJob[]>`
    UPDATE provisioner_jobs SET updated_at = now(), lease_expires_at = now() + ${leaseMs} * interval '1 millisecond'
    WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
    RETURNING canceled_at, force_canceled, log_positions`;
  return row;
}

/** Notes how far the numbered lines of a job's log are stored, in the transaction that stores them. */
export async function setLogPositions(tx: Tx, jobId: string, positions: LogPositions): Promise<void> {
  await tx`UPDATE provisioner_jobs SET log_positions = ${tx.json(positions)} WHERE id = ${jobId}`;
}

/** A job of which nothing was said for so long is hung, however alive the connection of its daemon is. */
const HUNG_MS = 5 * 60_000;

/** Renews the leases of jobs that live connections hold. */
export async function renewLeases(db: Db, held: Ownership[], leaseMs: number): Promise<void> {
  if (held.length === 0) return;
  await db`UPDATE provisioner_jobs SET lease_expires_at = now() + ${leaseMs} * interval '1 millisecond'
    FROM unnest(${held.map((own) => own.jobId)}::uuid[], ${held.map((own) => own.workerId)}::uuid[],
      ${held.map((own) => own.epoch)}::bigint[]) AS held (job_id, worker, epoch)
    WHERE id = held.job_id AND worker_id = held.worker AND acquire_epoch = held.epoch AND completed_at IS NULL
      AND updated_at > now() - ${HUNG_MS} * interval '1 millisecond'`;
}

/** Ends a job for its owner. Undefined where it is not the owner's (any more). */
export async function finishJob(
  db: Db,
  own: Ownership,
  verdict: { error?: string | undefined; errorCode?: string | undefined },
): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET updated_at = now(), completed_at = now(), lease_expires_at = NULL,
      error = ${verdict.error || null}, error_code = ${verdict.errorCode || null}
    WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
    RETURNING *`;
  return row;
}

/** Puts back a job that its daemon never got hold of. */
export async function releaseJob(db: Db, own: Ownership): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET started_at = NULL, worker_id = NULL, lease_expires_at = NULL, updated_at = now(),
      completed_at = CASE WHEN canceled_at IS NULL THEN NULL ELSE now() END
    WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
    RETURNING *`;
  return row;
}

/** Asks for a cancel. A job that nobody took is over at once; a running one when its daemon says so. */
export async function cancelJob(db: Db, id: string): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET canceled_at = now(), updated_at = now(),
      completed_at = CASE WHEN started_at IS NULL THEN now() END
    WHERE id = ${id} AND completed_at IS NULL AND canceled_at IS NULL RETURNING *`;
  return row;
}

/** In a reason no more of them are named. */
const MOST_NAMED = 20;

/** For a build that ended in the middle, as SQL of its job: what may be there without being in the state. */
const inFlightText = (db: Db) => db`coalesce((
  SELECT ' Resources that were being created: ' || array_to_string(b.in_flight[1:${MOST_NAMED}::int], ', ')
    || CASE WHEN cardinality(b.in_flight) > ${MOST_NAMED}::int
      THEN ', and ' || cardinality(b.in_flight) - ${MOST_NAMED}::int || ' more' ELSE '' END || '.'
  FROM workspace_builds b WHERE b.job_id = provisioner_jobs.id AND cardinality(b.in_flight) > 0), '')`;

/** Ends a canceled job in the database, whatever its daemon does; the daemon's right to it ends with the epoch. */
export async function forceCancelJob(db: Db, id: string): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET completed_at = now(), updated_at = now(), force_canceled = true,
      acquire_epoch = acquire_epoch + 1, lease_expires_at = NULL, error = 'Force-canceled.' || ${inFlightText(db)}
    WHERE id = ${id} AND completed_at IS NULL AND canceled_at IS NOT NULL RETURNING *`;
  return row;
}

/** A fresh lease for every running job: the clock stands still while the server or its database is away. */
export async function restartLeases(db: Db, leaseMs: number): Promise<void> {
  await db`UPDATE provisioner_jobs SET lease_expires_at = now() + ${leaseMs} * interval '1 millisecond'
    WHERE started_at IS NOT NULL AND completed_at IS NULL`;
}

const MOST_TRIES = 3;

/**
 * What is to be done with jobs whose lease ran out, in one statement without a cap: builds fail with the reason (never
 * run again by themselves), imports and dry runs go back to the queue, at the third time they fail too.
 */
export async function sweepLostJobs(sql: Sql): Promise<JobRow[]> {
  return sql<JobRow[]>`
    UPDATE provisioner_jobs SET updated_at = now(), lease_expires_at = NULL,
      started_at = CASE WHEN retry THEN NULL ELSE started_at END,
      worker_id = CASE WHEN retry THEN NULL ELSE provisioner_jobs.worker_id END,
      completed_at = CASE WHEN retry THEN NULL ELSE now() END,
      acquire_epoch = CASE WHEN retry THEN acquire_epoch ELSE acquire_epoch + 1 END,
      error = CASE WHEN retry THEN NULL ELSE
        'The provisioner daemon was lost: nothing was heard of it for the length of its lease. '
        || CASE WHEN type = 'workspace_build' THEN 'The last known state was kept.' || ${inFlightText(sql)} ELSE 'It was tried ' || acquire_epoch || ' times.' END END
    FROM (SELECT id AS lost_id, type <> 'workspace_build' AND acquire_epoch < ${MOST_TRIES} AND canceled_at IS NULL AS retry
      FROM provisioner_jobs
      WHERE started_at IS NOT NULL AND completed_at IS NULL AND lease_expires_at < now()
      FOR UPDATE SKIP LOCKED) lost
    WHERE id = lost_id RETURNING provisioner_jobs.*`;
}

/** Jobs that were canceled so long ago (milliseconds) and still run. */
export async function overdueCancels(db: Db, ms: number): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id FROM provisioner_jobs
    WHERE canceled_at < now() - ${ms} * interval '1 millisecond' AND started_at IS NOT NULL AND completed_at IS NULL`;
  return rows.map(({ id }) => id);
}
