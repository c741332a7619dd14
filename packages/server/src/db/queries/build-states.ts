// Terraform states of builds. Only this file writes `workspace_builds.provisioner_state`. The rules for replacing a
// state are in app/job/state.ts.

import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask, VerifiedDaemon } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { Owned, Ownership } from '../owned.ts';

/** A complete state, with the serial and lineage that decide whether it may replace another. */
export interface BuildState {
  bytes: Buffer;
  serial: number;
  lineage: string;
}

/** A build whose job the writer owns. */
export type OwnedBuild = Owned<{ build_id: string }>;

export async function stateOfBuild(db: Db, buildId: string): Promise<Buffer | undefined> {
  const [row] = await db<{ provisioner_state: Buffer | null }[]>`
    SELECT provisioner_state FROM workspace_builds WHERE id = ${buildId}`;
  return row?.provisioner_state ?? undefined;
}

export async function lineageOfBuild(db: Db, buildId: string): Promise<string | undefined> {
  const [build] = await db<{ lineage: string }[]>`
    SELECT state_lineage AS lineage FROM workspace_builds WHERE id = ${buildId}`;
  return build?.lineage;
}

/** The build of a job, for the owner of the job. */
export function buildOfJob(job: Owned<{ input: { workspace_build_id?: string } }>): OwnedBuild {
  return { build_id: job.input.workspace_build_id! } as OwnedBuild;
}

/** Whether no state can be lost: the build has none, or only bytes that Terraform cannot read. */
const isUnknown = (db: Db, build = '') =>
  db.unsafe(`(coalesce(length(${build}provisioner_state), 0) = 0 OR ${build}state_lineage = '')`);

/**
 * Stores a state with a build if it has none or the stored one is older and of the same lineage. With `repeats`, it
 * may also have the same serial. False: the stored state stays.
 */
export async function replaceState(
  tx: Tx,
  build: OwnedBuild,
  state: BuildState,
  { repeats }: { repeats: boolean },
): Promise<boolean> {
  const stored = await tx`
    UPDATE workspace_builds SET provisioner_state = ${state.bytes}, state_serial = ${state.serial},
      state_lineage = ${state.lineage}, updated_at = now()
    WHERE id = ${build.build_id} AND (${isUnknown(tx)} OR (state_lineage = ${state.lineage}
      AND (state_serial < ${state.serial} OR (${repeats} AND state_serial = ${state.serial}))))
    RETURNING id`;
  return stored.length > 0;
}

const ofOwner = (db: Db, own: Ownership) => db`FROM provisioner_jobs j
  WHERE b.job_id = j.id AND j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
    AND j.completed_at IS NULL`;

/** Stores the resources that a running build is creating. False: the sender does not own the job. */
export async function setInFlight(db: Db, own: Ownership, inFlight: string[]): Promise<boolean> {
  const noted = await db`
    UPDATE workspace_builds b SET in_flight = ${inFlight}, updated_at = now() ${ofOwner(db, own)} RETURNING b.id`;
  return noted.length > 0;
}

/**
 * Stores the state of a running build, and the resources that it is creating. The state must be newer than the stored
 * one, or the same. False: it is not, or the sender does not own the job.
 */
export async function storeCheckpoint(db: Db, own: Ownership, state: BuildState, inFlight: string[]): Promise<boolean> {
  const stored = await db`
    UPDATE workspace_builds b SET in_flight = ${inFlight}, updated_at = now(), state_lineage = ${state.lineage},
      provisioner_state = CASE WHEN b.state_lineage = ${state.lineage} AND b.state_serial = ${state.serial}
        THEN b.provisioner_state ELSE ${state.bytes} END, state_serial = ${state.serial}
    ${ofOwner(db, own)} AND (${isUnknown(db, 'b.')} OR (b.state_lineage = ${state.lineage}
      AND (b.state_serial < ${state.serial} OR (b.state_serial = ${state.serial} AND b.provisioner_state = ${state.bytes}))))
    RETURNING b.id`;
  return stored.length > 0;
}

/** The id of the build of a running job that the sender owns. */
export async function buildOfOwner(db: Db, own: Ownership): Promise<string | undefined> {
  const [build] = await db<{ id: string }[]>`SELECT b.id FROM workspace_builds b, provisioner_jobs j
    WHERE b.job_id = j.id AND j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
      AND j.completed_at IS NULL`;
  return build?.id;
}

export interface DeliveredBuild {
  build_id: string;
  state_serial: number;
  state_lineage: string;
  is_latest: boolean;
}

/**
 * Locks a build whose job this daemon ran last, and its workspace, in the same order as a new build. So either the next
 * build begins with the delivered state, or the delivery finds that the next build has begun.
 */
export async function lockDeliveredBuild(
  tx: Tx,
  { jobId, workerId }: VerifiedDaemon<Pick<Ownership, 'jobId' | 'workerId'>>,
): Promise<Owned<DeliveredBuild> | undefined> {
  await tx`SELECT 1 FROM workspaces WHERE id = (SELECT workspace_id FROM workspace_builds WHERE job_id = ${jobId}) FOR UPDATE`;
  const [build] = await tx<Owned<DeliveredBuild>[]>`
    SELECT b.id AS build_id, b.state_serial, b.state_lineage,
      NOT EXISTS (SELECT 1 FROM workspace_builds n WHERE n.workspace_id = b.workspace_id AND n.build_number > b.build_number) AS is_latest
    FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id AND j.worker_id = ${workerId}
    WHERE b.job_id = ${jobId} FOR UPDATE OF b`;
  return build;
}

/** States of one build that did not become its own. A daemon has one or two. The first ones stay. */
const MAX_ORPHAN_STATES = 10;

/**
 * Keeps a state that did not become the build's, with a warning on the build and an entry in the audit log. False: the
 * build has too many. The caller's transaction has locked the build or its job.
 */
export async function insertOrphanState(
  tx: Tx,
  build: OwnedBuild,
  state: BuildState,
  reason: string,
): Promise<boolean> {
  const { build_id: id } = build;
  const stored = await tx`INSERT INTO orphan_states (workspace_build_id, state, serial, lineage, reason)
    SELECT ${id}::uuid, ${state.bytes}::bytea, ${state.serial}::bigint, ${state.lineage}::text, ${reason}::text
    WHERE (SELECT count(*) FROM orphan_states WHERE workspace_build_id = ${id}) < ${MAX_ORPHAN_STATES}`;
  if (stored.count === 0) return false;
  await setBuildWarning(
    tx,
    build,
    `A state of this build was stored as an orphan state instead of the workspace's state: ${reason}.`,
  );
  await tx`INSERT INTO audit_logs (organization_id, resource_type, resource_id, action, status_code, additional_fields)
    SELECT j.organization_id, 'workspace_build', b.id, 'write', 409,
      ${tx.json({ orphan_state: reason, serial: state.serial, lineage: state.lineage })}
    FROM workspace_builds b JOIN provisioner_jobs j ON j.id = b.job_id WHERE b.id = ${id}`;
  return true;
}

export async function setBuildWarning(tx: Tx, build: OwnedBuild, warning: string): Promise<void> {
  await tx`UPDATE workspace_builds SET warning = ${warning} WHERE id = ${build.build_id}`;
}

/**
 * The initial state of a new build, as SQL for its three columns: the state of the previous build, which is row `l`, or
 * one that a person gave.
 */
export function firstState(tx: Tx, given: BuildState | undefined) {
  if (!given) return tx`l.provisioner_state, coalesce(l.state_serial, 0)::bigint, coalesce(l.state_lineage, '')::text`;
  return tx`${given.bytes}::bytea, ${given.serial}::bigint, ${given.lineage}::text`;
}

/** Stores a state that a person gave, whatever the build has. False: the job of the build has not ended. */
export async function setState(tx: Tx, build: Allowed<'update', { id: string }>, state: BuildState): Promise<boolean> {
  const stored = await tx`
    UPDATE workspace_builds b SET provisioner_state = ${state.bytes}, state_serial = ${state.serial},
      state_lineage = ${state.lineage}, updated_at = now()
    FROM provisioner_jobs j WHERE b.id = ${build.id} AND j.id = b.job_id AND j.completed_at IS NOT NULL RETURNING b.id`;
  return stored.length > 0;
}

/**
 * Drops the states of builds of deleted workspaces. Those of each latest build and of builds with orphan states stay: they
 * may name resources that were left behind.
 */
export async function dropStatesOfDeleted(db: Db, _task: SystemTask, buildIds: string[]): Promise<void> {
  await db`UPDATE workspace_builds b SET provisioner_state = NULL FROM workspaces w
    WHERE w.id = b.workspace_id AND w.deleted AND b.id = ANY(${buildIds}) AND b.provisioner_state IS NOT NULL
      AND EXISTS (SELECT 1 FROM workspace_builds n
        WHERE n.workspace_id = b.workspace_id AND n.build_number > b.build_number)
      AND NOT EXISTS (SELECT 1 FROM orphan_states o WHERE o.workspace_build_id = b.id)`;
}

/** The maximum number of resources that an error names. */
const MAX_NAMED = 20;

/** For an interrupted build, as SQL of its job: a sentence about resources that may exist and are not in the state. */
export const inFlightText = (db: Db) => db`coalesce((
  SELECT ' Resources that were being created: ' || array_to_string(b.in_flight[1:${MAX_NAMED}::int], ', ')
    || CASE WHEN cardinality(b.in_flight) > ${MAX_NAMED}::int
      THEN ', and ' || cardinality(b.in_flight) - ${MAX_NAMED}::int || ' more' ELSE '' END || '.'
  FROM workspace_builds b WHERE b.job_id = provisioner_jobs.id AND cardinality(b.in_flight) > 0), '')`;
