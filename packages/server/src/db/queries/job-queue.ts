// Pending jobs.

import type postgres from 'postgres';
import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask, VerifiedDaemon } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { JobRow, Tags } from '../rows.ts';
import { together } from '../together.ts';
import { unflushed } from '../unflushed.ts';
import type { BuildOrder } from './builds.ts';
import { requirement } from './files.ts';
import { UNCONFIRMED_MS } from './job-ownership.ts';
import type { VersionPlace } from './template-versions.ts';

/** The condition for pending jobs. The partial indexes of the queue have the same condition. */
const PENDING = 'started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL';

/**
 * The same for a job that is found by its id, in a form that no index has as its condition. While few jobs are pending,
 * PostgreSQL thinks the index of pending jobs cheaper than that of ids. That plan would read all of thousands later.
 */
const IS_PENDING = 'num_nulls(started_at, completed_at, canceled_at) = 3';

/** Sorts pending jobs into the order in which they are handed out. */
export const QUEUE_ORDER = 'background, turn, created_at, id';

/**
 * Proof that the actor may have a job run: an import of a template that the actor may create or change, a dry run of a
 * workspace that the actor may create, or a build. The proof determines the job's organization.
 */
export type JobOrder = VersionPlace | Allowed<'create', { type: 'workspace'; organizationId: string }> | BuildOrder;

function organizationOf(order: JobOrder): string {
  if ('workspace' in order) return order.workspace.organization_id;
  return 'organizationId' in order ? order.organizationId : order.organization_id;
}

export type NewJob = Pick<JobRow, 'id' | 'initiator_id' | 'type' | 'file_id' | 'input' | 'tags'> &
  Partial<Pick<JobRow, 'background'>> & {
    /** The imported version that the job uses. It decides the type of provisioner. */
    template_version_id?: string;
    /** Of an import. Default: terraform. */
    provisioner?: string;
  };

/**
 * The maximum number of tag sets that are compared with that of a new job: a few microseconds each. Jobs of a person with more
 * pending sets may share some turns.
 */
const MAX_COMPARED = 50;

/** The job of each tag set with the last turn, each found in an index, however many jobs have its tags. */
function lastOfTagSets(db: Db, which: postgres.PendingQuery<postgres.Row[]>) {
  const last = db`ORDER BY tags_hash DESC, turn DESC LIMIT 1`;
  return db`(
    WITH RECURSIVE sets AS (
      (SELECT tags_hash, tags, turn FROM provisioner_jobs WHERE ${which} ${last})
      UNION ALL
      SELECT next.* FROM sets CROSS JOIN LATERAL (
        SELECT tags_hash, tags, turn FROM provisioner_jobs WHERE ${which} AND tags_hash < sets.tags_hash ${last}) next)
    SELECT tags, turn FROM sets LIMIT ${MAX_COMPARED}) last_of_tag_sets`;
}

/**
 * Adds a job to the queue. Users take turns. Each further job of a user that the same daemon may take goes a round later
 * than the one before, so that a person with one job does not wait for another person's hundred, in however many tag
 * sets. A newcomer joins the current round, or the first pending one with the same tags. Concurrent transactions of one
 * person add their jobs with the same tags one after the other, since each must see the turns of the others. Those with
 * other tags run simultaneously, so a few may get the same turn. The transaction that adds a job owns it until it commits.
 */
export async function insertJob(db: Db, order: JobOrder, job: NewJob): Promise<Owned<JobRow>> {
  const organizationId = organizationOf(order);
  const tags = db.json(job.tags);
  const background = job.background ?? false;
  const kind = db`organization_id = ${organizationId} AND tags_hash = jsonb_hash_extended(${tags}, 0)
    AND background = ${background}`;
  const alike = db`${kind} AND ${db.unsafe(PENDING)}`;
  // one daemon may take both: one with the tags of both
  const shared = db`provisioner_tags_match(tags || ${tags}, tags) AND provisioner_tags_match(tags || ${tags}, ${tags})`;
  const mine = db`organization_id = ${organizationId} AND initiator_id = ${job.initiator_id} AND ${db.unsafe(PENDING)}
    AND background = ${background}`;
  const running = db`organization_id = ${organizationId} AND started_at IS NOT NULL AND completed_at IS NULL
    AND background = ${background}`;
  const required = requirement(db, { fileId: job.file_id, versionId: job.template_version_id });
  const lock = db`SELECT pg_advisory_xact_lock(
    hashtextextended(${`turn:${organizationId}:${job.initiator_id}`}, jsonb_hash_extended(${tags}, 0)))`;
  const insert = db<Owned<JobRow>[]>`
    INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, tags, provisioner,
      required_version, terraform_range, background, turn)
    VALUES (${job.id}, ${organizationId}, ${job.initiator_id}, ${job.type}, ${job.file_id},
      ${db.json(job.input as never)}, ${tags}, coalesce((SELECT imported.provisioner FROM template_versions v
        JOIN provisioner_jobs imported ON imported.id = v.job_id WHERE v.id = ${job.template_version_id ?? null}),
        ${job.provisioner ?? 'terraform'}),
      (SELECT required_version FROM ${required}), (SELECT terraform_range FROM ${required}), ${background}, greatest(0,
        (SELECT max(turn) + 1 FROM provisioner_jobs WHERE ${alike} AND initiator_id = ${job.initiator_id}),
        (SELECT max(turn) + 1 FROM ${lastOfTagSets(db, mine)} WHERE ${shared}),
        (SELECT min(turn) FROM provisioner_jobs WHERE ${alike}),
        (SELECT max(turn) FROM provisioner_jobs WHERE ${kind} AND started_at IS NOT NULL AND completed_at IS NULL),
        (SELECT max(turn) FROM ${lastOfTagSets(db, running)} WHERE ${shared})))
    RETURNING *`;
  const [, [row]] = await together([lock, insert]);
  return row!;
}

/** A daemon, as the queue uses it. */
export interface Worker {
  id: string;
  organizationId: string;
  provisioners: string[];
  tags: Tags;
  /** Its versions of Terraform as numbers. Empty or absent: it does not report them. */
  engineVersions?: readonly number[];
  /** It begins a job only after the answer to its first report, as our daemons do. */
  confirms?: boolean;
}

export interface AcquireBy {
  worker: VerifiedDaemon<Worker>;
  /** Every tag set of jobs that `tags` may run, if they are few enough for a lookup of each. */
  tagSets?: Tags[] | undefined;
  leaseMs: number;
  /** Names this attempt, a uuid. `jobOfClaim` finds its job if the answer was lost with the connection. */
  claim?: string;
}

/** How many jobs of each tag set are considered. As many concurrent daemons may hold locks on the first ones. */
const HEAD = 16;

/**
 * Takes the first matching job, if any, without waiting for the disk. A daemon that confirms a job starts nothing before
 * its first report is on the disk, and PostgreSQL writes in order, so the assignment is there, too. If the database crashes
 * in between, the job is pending again, and the report is rejected.
 *
 * It is one statement, so two daemons never get the same job. It tries the heads of the tag sets one after the other,
 * each by its id. PostgreSQL cannot turn that into a join. With a join, a plan made while few jobs were pending reads all
 * of thousands later.
 */
export async function acquireJob(db: Db, { worker, ...by }: AcquireBy): Promise<Owned<JobRow> | undefined> {
  const pending = db.unsafe(PENDING);
  const order = db.unsafe(QUEUE_ORDER);
  const mine = db`organization_id = ${worker.organizationId} AND provisioner = ANY(${worker.provisioners}) AND ${pending}
    AND terraform_matches(terraform_range, ${[...(worker.engineVersions ?? [])]}::bigint[])`;
  const heads = by.tagSets
    ? db`SELECT of_set.* FROM jsonb_array_elements(${db.json(by.tagSets)}) AS one (tags) CROSS JOIN LATERAL (
        SELECT ${order} FROM provisioner_jobs
        WHERE tags_hash = jsonb_hash_extended(one.tags, 0) AND tags = one.tags AND ${mine}
        ORDER BY background, turn, created_at LIMIT ${HEAD}) of_set ORDER BY ${order}`
    : db`SELECT ${order} FROM provisioner_jobs WHERE provisioner_tags_match(${db.json(worker.tags)}, tags) AND ${mine}
        ORDER BY ${order} LIMIT ${HEAD}`;
  const leaseMs = worker.confirms ? Math.min(by.leaseMs, UNCONFIRMED_MS) : by.leaseMs;
  const [row] = await db<Owned<JobRow>[]>`
    UPDATE provisioner_jobs SET started_at = now(), updated_at = now(), worker_id = ${worker.id},
      acquire_epoch = acquire_epoch + 1, lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
      claim = ${by.claim ?? null}, unconfirmed = ${worker.confirms ? unflushed(db) : false}
    WHERE id = (
      SELECT free.id FROM (${heads}) AS head CROSS JOIN LATERAL (
        SELECT id FROM provisioner_jobs WHERE id = head.id AND ${db.unsafe(IS_PENDING)} FOR UPDATE SKIP LOCKED) free LIMIT 1)
    RETURNING *`;
  return row;
}

/** The job that an attempt of `acquireJob` took, whose answer was lost. */
export async function jobOfClaim(
  db: Db,
  worker: VerifiedDaemon<Worker>,
  claim: string,
): Promise<Owned<JobRow> | undefined> {
  const [row] = await db<Owned<JobRow>[]>`
    SELECT * FROM provisioner_jobs
    WHERE worker_id = ${worker.id} AND claim = ${claim} AND started_at IS NOT NULL AND completed_at IS NULL`;
  return row;
}

/**
 * The positions of jobs in queues, which are given as tag sets and types. Tag sets with the same number form one queue.
 * Returns the best position and the longest queue for each job. Each tag set is looked up by itself (OFFSET prevents a join):
 * PostgreSQL assumes a hundred tag sets and would read all pending jobs.
 */
export async function queuePlaces(
  db: Db,
  queues: { organization: string; queue: number; tags: Tags; provisioners: string[] }[],
  ids: string[],
): Promise<{ id: string; position: number; size: number }[]> {
  const order = db.unsafe(QUEUE_ORDER);
  return db<{ id: string; position: number; size: number }[]>`
    WITH ranked AS (
      SELECT j.id, row_number() OVER (PARTITION BY queue ORDER BY ${order}) AS place, count(*) OVER (PARTITION BY queue) AS size
      FROM jsonb_to_recordset(${db.json(queues)}) AS q (organization uuid, queue integer, tags jsonb, provisioners text[])
      CROSS JOIN LATERAL (
        SELECT ${order} FROM provisioner_jobs
        WHERE organization_id = q.organization AND tags_hash = jsonb_hash_extended(q.tags, 0) AND ${db.unsafe(PENDING)}
          AND provisioner = ANY(q.provisioners) OFFSET 0) j)
    SELECT id, min(place) AS position, max(size) AS size FROM ranked WHERE id = ANY(${ids}::uuid[]) GROUP BY id`;
}

/** The tag sets of all pending jobs. */
export async function pendingTagSets(db: Db, organizationId: string): Promise<Tags[]> {
  const rows = await db<{ tags: Tags }[]>`SELECT DISTINCT tags FROM provisioner_jobs
    WHERE organization_id = ${organizationId} AND ${db.unsafe(PENDING)}`;
  return rows.map((row) => row.tags);
}

/** How long a usual duration is remembered, in ms: its statement reads past all pending jobs. */
const USUAL_MS = 5_000;
const MAX_USUAL = 1_000;
const usual = new WeakMap<object, Map<string, { seconds: number; until: number }>>();

/** The recent duration of similar jobs in seconds: of the same tags and type, or else of the same type. */
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
  if (known.size >= MAX_USUAL) known.clear();
  if (seconds !== undefined) known.set(key, { seconds, until: performance.now() + USUAL_MS });
  return seconds;
}

/** Jobs that no daemon took for this time, oldest first. For a job that was put back, the time starts again. */
export async function longPending(db: Db, limitMs: number, most: number): Promise<JobRow[]> {
  return db<JobRow[]>`SELECT * FROM provisioner_jobs WHERE ${db.unsafe(PENDING)}
    AND updated_at < now() - ${limitMs} * interval '1 millisecond' ORDER BY updated_at LIMIT ${most}`;
}

/** Ends a job that no daemon took. Undefined if a daemon took it, or if it was canceled. */
export async function failPendingJob(
  db: Db,
  _task: SystemTask,
  id: string,
  error: string,
): Promise<JobRow | undefined> {
  const [row] = await db<JobRow[]>`
    UPDATE provisioner_jobs SET started_at = now(), completed_at = now(), updated_at = now(), error = ${error}
    WHERE id = ${id} AND ${db.unsafe(IS_PENDING)} RETURNING *`;
  return row;
}

/** After this time, in ms, a background job waits like any other. */
const BACKGROUND_MS = 10 * 60_000;

/** Moves background jobs that waited for long to the normal queue, so that none waits forever. */
export async function ageBackgroundJobs(db: Db, _task: SystemTask): Promise<void> {
  await db`UPDATE provisioner_jobs SET background = false WHERE background AND ${db.unsafe(PENDING)}
    AND created_at < now() - ${BACKGROUND_MS} * interval '1 millisecond'`;
}
